"""The code dictionary as one self-contained page (no network): stories with their codes, and what each code stands for.

Every piece of a story is a link to the entry of its code, so the page reads without scripts and by keyboard; a few
lines of script show the entry beside the piece that is pointed at or focused, and mark the code's other pieces.
"""

from collections.abc import Iterable
from html import escape
from typing import Any

from discodvt.report.code_colours import hue
from discodvt.report.phrases import one_line

PLACES = ("beginning", "middle", "end")


def code_page(study: dict[str, Any]) -> str:
    """The page of what `codes.json` holds."""
    model, usage = study["model"], study["usage"]
    facts = {
        "stories": f"{study['stories']:,} ({study['split']})",
        "codes used": f"{usage['used']} of {usage['vocabulary']}",
        "code perplexity": f"{usage['perplexity']:.1f}",
        "tokens per code": str(model["tokens_per_code"]),
        "utilisation": f"{usage['utilisation']['mean']:.1%}",
    }
    return _PAGE.format(
        title=escape(f"Codes of {model['name']}"),
        style=_STYLE,
        script=_SCRIPT,
        facts="".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items()),
        histogram=_histogram(usage["utilisation"]["bins"]),
        stories="".join(map(_story, study["told"])),
        entries="".join(map(_entry, study["codes"])),
        dead=", ".join(map(str, usage["dead"])) or "none",
    )


def _story(story: dict[str, Any]) -> str:
    pieces = "".join(
        f'<a class="piece" href="#code-{code}" data-code="{code}" style="--hue:{hue(code)}">'
        f"{escape(text)}<sub>{code}</sub></a>"
        for code, text in story["segments"]
    )
    heading = escape(story["prompt"].strip() or story["id"])
    return f"<section><h3>{heading}</h3><p class='story'>{pieces}</p></section>"


def _entry(entry: dict[str, Any]) -> str:
    code, place = entry["code"], entry["place"]
    rows = {
        "phrases": _list(f"{escape(one_line(gram['text']))} <i>{gram['count']}</i>" for gram in entry["grams"]),
        "markers": _list(f"{each['marker']} <i>{each['share']:.0%}</i>" for each in entry["markers"]),
        "relations": _list(
            f"{each['relation'].replace('_', ' ')} <i>{each['share']:.0%}</i>" for each in entry["relations"]
        ),
        "before": _list(f"{_link(each['code'])} <i>{each['lift']:.1f}×</i>" for each in entry["previous"]),
        "after": _list(f"{_link(each['code'])} <i>{each['lift']:.1f}×</i>" for each in entry["next"]),
        "nearest": _list(f"{_link(each['code'])} <i>{each['cosine']:.2f}</i>" for each in entry["nearest"]),
    }
    bars = "".join(
        f'<span title="{name} {place[name]:.0%}"><b style="height:{place[name]:.0%}"></b></span>' for name in PLACES
    )
    examples = "".join(
        f"<li>{escape(each['before'])}<mark>{escape(each['text'])}</mark>{escape(each['after'])}</li>"
        for each in entry["examples"]
    )
    return (
        f'<article id="code-{code}" style="--hue:{hue(code)}"><h3><span class="chip">{code}</span> '
        f'{entry["share"]:.1%} of codes<span class="place" role="img" aria-label="{_told_place(place)}">{bars}</span>'
        f"</h3><dl>{''.join(f'<dt>{name}</dt><dd>{value}</dd>' for name, value in rows.items() if value)}</dl>"
        f"<ul>{examples}</ul></article>"
    )


def _told_place(place: dict[str, float]) -> str:
    return ", ".join(f"{name} {place[name]:.0%}" for name in PLACES)


def _list(items: Iterable[str]) -> str:
    return " · ".join(items)


def _link(code: int) -> str:
    return f'<a class="chip" href="#code-{code}" style="--hue:{hue(code)}">{code}</a>'


def _histogram(shares: list[float]) -> str:
    """Stories by utilisation, 0 on the left, 1 on the right."""
    top, width = max(shares) or 1.0, 300 / len(shares)
    bars = "".join(
        f'<rect x="{number * width:.1f}" y="{60 - 56 * share / top:.1f}" width="{width - 1:.1f}" '
        f'height="{56 * share / top:.1f}"><title>{number / len(shares):.2f} to {(number + 1) / len(shares):.2f}: '
        f"{share:.1%} of stories</title></rect>"
        for number, share in enumerate(shares)
    )
    label = "Distribution of code utilisation over stories"
    return (
        f'<svg viewBox="0 0 300 74" role="img" aria-label="{label}">{bars}<line x1="0" y1="60.5" x2="300" y2="60.5"/>'
        '<text x="0" y="72">0</text><text x="300" y="72" text-anchor="end">1</text></svg>'
    )


_STYLE = """
:root{color-scheme:light dark;--ink:#222;--paper:#fdfcf8;--soft:#6b6b6b;--line:#ddd8cc;--card:#fff;
--tint:92%;--strong:35%}
@media(prefers-color-scheme:dark){:root{--ink:#e8e6e1;--paper:#17181b;--soft:#a09e98;--line:#3a3b40;--card:#212328;
--tint:22%;--strong:72%}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:var(--ink);
background:var(--paper)}
h1{font-weight:600}figure{margin:0}h3{margin:.2em 0;font-size:1em}
.facts{display:flex;flex-wrap:wrap;gap:.6em 2em;margin:1em 0}.facts dt{font-size:.8em;color:var(--soft)}
.facts dd{margin:0;font-size:1.2em}
svg{width:100%;max-width:24em;display:block}svg rect{fill:hsl(210 60% 55%)}svg line{stroke:var(--soft)}
svg text{fill:var(--soft);font-size:11px}
.story{font:18px/2 Georgia,serif;white-space:pre-wrap;margin:.3em 0 1.5em}
.piece{color:inherit;text-decoration:none;background:hsl(var(--hue) 60% var(--tint));border-radius:3px;padding:.1em 0}
.piece sub{font:10px system-ui,sans-serif;color:var(--soft);padding:0 .2em}
.piece:focus,.piece.same{outline:2px solid hsl(var(--hue) 60% var(--strong));outline-offset:1px}
.chip{background:hsl(var(--hue) 60% var(--tint));border-radius:3px;padding:0 .4em;color:inherit;text-decoration:none}
#entries{display:grid;grid-template-columns:repeat(auto-fill,minmax(19em,1fr));gap:1em}
article{border:1px solid var(--line);border-radius:6px;padding:.6em .8em;background:var(--card);font-size:.9em}
article:target{outline:2px solid hsl(var(--hue) 60% var(--strong))}
article dl{display:grid;grid-template-columns:auto 1fr;gap:.1em .7em;margin:.4em 0}article dt{color:var(--soft)}
article dd{margin:0}i{font-style:normal;color:var(--soft);font-size:.85em}
article ul{list-style:none;margin:.4em 0 0;padding:0;font-family:Georgia,serif}article li{margin:.2em 0;
color:var(--soft)}
mark{background:hsl(var(--hue) 60% var(--tint));color:var(--ink)}
.place{float:right;display:inline-flex;gap:2px;height:1.3em}.place span{width:.7em;border-bottom:1px solid var(--soft);
display:flex;align-items:flex-end}.place b{width:100%;background:hsl(var(--hue) 45% 50%)}
#tip{position:absolute;z-index:1;width:21em;max-width:calc(100vw - 2em);box-shadow:0 4px 20px #0005;border-radius:6px}
#tip[hidden]{display:none}
"""
_SCRIPT = """
const tip = document.getElementById("tip");
const pieces = [...document.querySelectorAll(".piece")];
function show(piece) {
  const entry = document.getElementById("code-" + piece.dataset.code).cloneNode(true);
  entry.removeAttribute("id");
  tip.replaceChildren(entry);
  tip.hidden = false;
  const at = piece.getClientRects()[0];
  tip.style.left = Math.max(16, Math.min(at.left, innerWidth - tip.offsetWidth - 16)) + scrollX + "px";
  const box = piece.getBoundingClientRect();
  const fits = box.bottom + 4 + tip.offsetHeight <= innerHeight;
  tip.style.top = Math.max(0, scrollY + (fits ? box.bottom + 4 : box.top - 4 - tip.offsetHeight)) + "px";
  for (const other of pieces) other.classList.toggle("same", other.dataset.code === piece.dataset.code);
}
function hide() {
  tip.hidden = true;
  for (const piece of pieces) piece.classList.remove("same");
}
for (const piece of pieces) {
  piece.setAttribute("aria-describedby", "tip");
  for (const name of ["mouseenter", "focus"]) piece.addEventListener(name, () => show(piece));
  for (const name of ["mouseleave", "blur"]) piece.addEventListener(name, hide);
}
document.addEventListener("keydown", event => {
  const here = pieces.indexOf(document.activeElement);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (event.key === "Escape") hide();
  else if (here >= 0 && step && pieces[here + step]) { event.preventDefault(); pieces[here + step].focus(); }
});
"""
_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{title}</title><style>{style}</style></head>
<body>
<h1>{title}</h1>
<dl class="facts">{facts}</dl>
<figure><figcaption>Utilisation: distinct codes of a story by its codes</figcaption>{histogram}</figure>
<h2>Stories</h2>
<p>Point at a piece, or move with Tab and the arrow keys, to see what its code stands for; follow it to its entry.</p>
{stories}
<h2>Dictionary</h2>
<p>Phrases are repeated 4-grams of subwords with their counts, ¶ the end of a line; markers are those in them;
relations those that begin there.
Neighbours show how many times more often they stand here than elsewhere. Bars: beginning, middle, end of stories.</p>
<div id="entries">{entries}</div>
<p>Codes never used: {dead}</p>
<div id="tip" role="tooltip" hidden></div>
<script>{script}</script>
</body>
</html>
"""
