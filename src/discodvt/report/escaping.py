"""Text that others wrote (stories, prompts, names), made safe to show: in terminals and pages, Markdown, LaTeX, CSV.

HTML is escaped by the templates of `pages`, which pass every value through `printable` as well.
"""

import re

REPLACEMENT = 0xFFFD
DIRECTION_CONTROLS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # embeddings, overrides, isolates
_PICTURES = {
    **{control: 0x2400 + control for control in range(32) if chr(control) not in "\n\t"},
    0x7F: 0x2421,
    **dict.fromkeys((*range(0x80, 0xA0), *DIRECTION_CONTROLS, *range(0xD800, 0xE000)), REPLACEMENT),
}


def printable(text: str) -> str:
    """Text that is shown and never obeyed, every character in its place.

    A control character becomes its picture (␛); what turns the direction of text round, and half a surrogate pair,
    becomes �.
    """
    return text.translate(_PICTURES)


def one_line(text: str) -> str:
    """Printable text on one line; where a line of the story ends, a pilcrow."""
    return re.sub(r"\s*\n\s*", " ¶ ", printable(text.replace("\r\n", "\n"))).strip()


# What would open a tag, an entity, emphasis, code or a link. `p < 0.05`, `* p` and `snake_case` open nothing.
_MARKDOWN = re.compile(r"[\\`\[\]~]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|\*(?=\**[^\s*])|(?<![^\W_])_|_(?![^\W_])")


def markdown(text: str) -> str:
    """Text as a Markdown paragraph shows it; nothing in it is markup."""
    entities = {"<": "&lt;", "&": "&amp;"}
    return _MARKDOWN.sub(lambda found: entities.get(found[0], "\\" + found[0]), one_line(text))


def markdown_cell(text: str) -> str:
    """Text as a cell of a Markdown table."""
    return markdown(text).replace("|", r"\|")


_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "¶": r"\P{}", "†": r"$^\dagger$"}
_LATEX |= {"κ": r"$\kappa$", "α": r"$\alpha$"}
_LATEX |= {sign: "\\" + sign for sign in "&%$#_{}"} | {"–": "--", "−": "$-$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}
_LATEX |= dict.fromkeys([chr(picture) for picture in _PICTURES.values()], "?")  # LaTeX fonts have no pictures
_LATEX_SIGNS = re.compile("|".join(map(re.escape, _LATEX)))


def latex(text: str) -> str:
    """Text as LaTeX sets it; no command in it is run."""
    return _LATEX_SIGNS.sub(lambda found: _LATEX[found[0]], one_line(text))


def csv_text(text: str) -> str:
    """Text as a cell of a CSV file: what a spreadsheet would take for a formula begins with an apostrophe."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def figure_text(text: str) -> str:
    """Text as matplotlib draws it: a dollar is a dollar, and begins no formula."""
    return one_line(text).replace("$", r"\$")
