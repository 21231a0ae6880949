"""Every command line of README, docs and recipes is one the program takes: commands, options, arguments, files."""

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import typer

from discodvt.cli import app
from discodvt.training.recipes import read_recipe
from discodvt.training.run import _check_processes

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")) if path.exists()
)
SCRIPTS = sorted((ROOT / "recipes").rglob("*.sh"))
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"^(?: {4}\S.*\n?)+", flags=re.MULTILINE)
INLINE = re.compile(r"`(discodvt [^`]+)`")
LAUNCHERS = ("accelerate ", "torchrun ", "srun ")
PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*")


def command_lines(text: str) -> Iterator[str]:
    """The lines of the code blocks of a page, continued ones joined."""
    blocks = [body for language, body in FENCED.findall(text) if language in ("", "sh", "bash", "console")]
    blocks += INDENTED.findall(FENCED.sub("", text))
    for block in blocks:
        yield from (line.strip() for line in block.replace("\\\n", " ").splitlines() if line.strip())


def words_of(line: str) -> list[str]:
    """A line as the shell reads it, or a synopsis with all it offers: `[--a N]` asked for, of `a | b` the first."""
    if re.search(r"\[|\.\.\.", line):
        line = re.sub(r"(?<=[\w>])\[[^\]]*\]", "", line)  # not an extra: discodvt[hub]
        line = re.sub(r"\s\|\s+\S+", "", re.sub(r"[\[\]]|\.\.\.", " ", line.split("#")[0]))
        line = re.sub(r"([\w-]+)(?:\|[\w-]+)+", r"\1", line)
    return shlex.split(line, comments=True)


@cache
def program() -> Any:
    return typer.main.get_command(app)


def find_command(words: list[str]) -> tuple[Any, Any, list[str]]:
    """The command some words name, its context's parent, and the words left for it."""
    command, parent = program(), None
    rest = words
    while (
        hasattr(command, "commands") and rest and not rest[0].startswith("-") and not is_placeholder(command, rest[0])
    ):
        context = command.make_context("discodvt", [], parent=parent, resilient_parsing=True)
        _, command, rest = command.resolve_command(context, rest)
        assert command is not None, f"no command {' '.join(words)}"
        parent = context
    return command, parent, rest


def is_placeholder(group: Any, word: str) -> bool:
    """Whether a word stands for any command of a group: `prepare KIND SOURCE OUT`."""
    return bool(PLACEHOLDER.fullmatch(word)) and type(group).resolve_command is typer.core.TyperGroup.resolve_command


def options_of(command: Any) -> dict[str, Any]:
    return {name: each for each in command.params for name in (*each.opts, *each.secondary_opts)}


def parse(words: list[str]) -> None:
    """Parse a whole command line as the program would; placeholders such as N stand for some value of their kind."""
    command, parent, rest = find_command(words)
    known = options_of(command)
    filled = list(rest)
    for at, (before, word) in enumerate(pairwise(rest), start=1):
        if before in known and PLACEHOLDER.fullmatch(word):
            kind = known[before].type_descriptor.annotation
            filled[at] = "1" if kind in (int, float) else next(iter(get_args(kind)), word)
    command.make_context(command.name, filled, parent=parent)


def check_options(words: list[str]) -> None:
    """Of a line that is only a part of a command line: the command is there, and so are its options."""
    command, _, rest = find_command(words)
    known = options_of(command)
    named = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    assert [name for name in named if name not in known and name != "--help"] == [], f"discodvt {' '.join(words)}"


def launched(words: list[str]) -> tuple[int, list[str]]:
    """Processes of a line of `accelerate launch` or `torchrun`, as their own parsers read it, and what each runs."""
    if words[0] == "accelerate":
        from accelerate.commands.launch import launch_command_parser

        assert words[1] == "launch"
        read = launch_command_parser().parse_args(words[2:])
        assert not read.use_fsdp or read.fsdp_version == "2"
        processes = read.num_processes
    else:
        from torch.distributed.run import get_args_parser

        read = get_args_parser().parse_args(words[1:])
        processes = int(read.nnodes.partition(":")[0]) * int(read.nproc_per_node)
    assert (read.module, read.training_script) == (True, "discodvt")
    return processes, read.training_script_args


def test_launch_lines_have_processes_that_share_the_steps_of_their_recipes() -> None:
    seen = []
    for page in PAGES:
        for line in command_lines(page.read_text(encoding="utf-8")):
            if line.startswith(LAUNCHERS):
                processes, words = launched(words_of(line.removeprefix("srun ")))
                values = [value for option, value in pairwise(words) if option == "--set"]
                assert words[0] == "train"
                _check_processes(read_recipe(words[1], values), SimpleNamespace(num_processes=processes))
                seen.append(line.split()[0])
    assert set(seen) == {word.strip() for word in LAUNCHERS}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_command_lines_of_a_page_are_parsed_by_the_program(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for line in command_lines(text):
        words = words_of(line.removeprefix("srun ")) if line.startswith(("discodvt", *LAUNCHERS)) else []
        if words[:1] != ["discodvt"] and words:
            words = ["discodvt", *launched(words)[1]]
        if words:
            try:
                parse(words[1:])
            except Exception as error:
                pytest.fail(f"{page.name}: {line}\n{error}")
    for span in INLINE.findall(FENCED.sub("", text)):
        check_options(words_of(" ".join(span.split()))[1:])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_files_targets_and_extras_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    code = "\n".join([*command_lines(text), *re.findall(r"`([^`\n]+)`", FENCED.sub("", text))])
    named = set(re.findall(r"(?:^|[\s=])((?:recipes|src|docs|tests)/[\w./-]+)", code, flags=re.MULTILINE))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, flags=re.MULTILINE))
    assert set(re.findall(r"^make (?:\w+=\S+ )*([\w-]+)", code, flags=re.MULTILINE)) <= targets
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    asked = re.findall(r"(?:discodvt|\.)\[([\w,]+)\]", code)
    assert {extra for group in asked for extra in group.split(",")} <= set(extras)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_scripts_are_shell_and_their_commands_exist(script: Path) -> None:
    checked = subprocess.run(["sh", "-n", str(script)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    text = script.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        found = re.match(r"\s*(?:\$launch )?discodvt (.+)", line)
        if found:
            check_options(shlex.split(found[1], comments=True))
    for name in re.findall(r"(?<![\w/$\"])recipes/[\w./-]+\.(?:py|toml|sh)", text):
        assert (ROOT / name).exists(), name


def test_a_wrong_line_is_found() -> None:
    for line in (
        "generate --tempo 3",
        "evaluate stories.jsonl",
        "report",
        "train a.toml b.toml",
        "report RUN --out D --examples many",
    ):
        with pytest.raises(Exception, match=r"option|Missing|[Uu]nexpected|extra|valid"):
            parse(line.split())
    parse(words_of("discodvt report RUN... --out DIR [--paper wikiplots|writingprompts] [--examples N] [--json]")[1:])
    with pytest.raises(AssertionError):
        check_options(["codes", "measure", "--examples"])


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_path_of_the_map_exists(page: str) -> None:
    """Code spans that are paths, from the root or from src/discodvt; NAME is a file to be made in a folder there."""
    text = FENCED.sub("", (ROOT / page).read_text(encoding="utf-8"))
    written = {"train.parquet", "valid.parquet", "test.parquet", "manifest.json"}  # by stages
    path = re.compile(r"[\w.-]+/[\w./-]*|[\w-]+\.(?:py|md|toml|json|parquet)")
    spans = {span for span in re.findall(r"`([^`\n]+)`", text) if path.fullmatch(span)} - written
    assert len(spans) > 5
    places = (ROOT, ROOT / "src/discodvt")
    named = sorted(re.sub(r"NAME\.\w+$", "", span) for span in spans)
    assert [name for name in named if not any((place / name).exists() for place in places)] == []
    for name, home in re.findall(r"`(\w+)` (?:in|of) `([\w/]+\.py)`", text):
        source = (ROOT / "src/discodvt" / home).read_text(encoding="utf-8")
        assert re.search(rf"^ *(?:(?:def|class) {name}\b|{name}\b.*=)", source, flags=re.MULTILINE), f"{name} in {home}"
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


def test_the_packages_are_listed_in_the_order_they_may_import() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    packages = [
        name.rstrip("/").removesuffix(".py") for name in re.findall(r"^\| `([\w.]+/?)` \|", text, flags=re.MULTILINE)
    ]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = re.findall(r"\w+", " ".join(contracts[0]["layers"]))
    assert [name for name in packages if name in layers] == [name for name in layers if name in packages]
    built = {
        path.stem for path in (ROOT / "src/discodvt").iterdir() if path.suffix in ("", ".py") and path.stem[0] != "_"
    }
    assert built <= set(packages)
