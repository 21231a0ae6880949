"""The `discodvt` program: one small file per command; each only reads its arguments and calls the stage that works.

Heavy libraries are imported inside the commands that need them, so `discodvt --help` stays instant.
"""

import os
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException

from discodvt import __version__
from discodvt.cli import (
    annotate,
    bench,
    codes,
    discourse,
    doctor,
    evaluate,
    generate,
    grid,
    judge,
    merge,
    prepare,
    recipes,
    report,
    rescoring,
    search,
    studio,
    tokenize,
    train,
)
from discodvt.errors import DiscoError, Interrupted
from discodvt.storage import locate

OUTPUTS = ("out", "output")  # parameters that say where a command keeps its work
app = typer.Typer(
    name="discodvt",
    help="Long text with a plan: discourse-aware discrete variational Transformer.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(prepare.app, name="prepare")
app.command("annotate")(annotate.annotate)
app.add_typer(recipes.app, name="recipes")
app.command("tokenize")(tokenize.tokenize)
app.command("train")(train.train)
app.add_typer(rescoring.app, name="rescoring")
app.command("search")(search.search)
app.command("grid")(grid.grid)
app.command("merge")(merge.merge)
app.command("studio")(studio.studio)
app.command("generate")(generate.generate)
app.command("evaluate")(evaluate.evaluate)
app.add_typer(discourse.app, name="discourse")
app.add_typer(judge.app, name="judge")
app.command("report")(report.report)
app.add_typer(codes.app, name="codes")
app.add_typer(bench.app, name="bench")
app.command("doctor")(doctor.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"discodvt {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print version.")
    ] = False,
) -> None:
    pass


class _Command(TyperCommand):
    """A command whose errors say `--top-p` where the library says `top_p`."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except DiscoError as error:
            flags = {parameter.name: _flag(parameter) for parameter in self.params}
            message = str(error)
            for name in error.parameters:
                flag = flags.get(name) or flags.get(name.removesuffix("s"))  # `locks` are given by --lock, one each
                message = message.replace(f"`{name}`", flag or f"`{name}`")
            error.args = (message,)
            raise
        except KeyboardInterrupt:
            again = "the same command with --resume" if "resume" in ctx.params else "the same command"
            kept = any(ctx.params.get(name) for name in OUTPUTS) or "resume" in ctx.params
            raise Interrupted(
                f"interrupted; what is written is kept, and {again} goes on" if kept else "interrupted"
            ) from None


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """A warning for the user is one line; others are for developers and say where they come from."""
    text = warnings.formatwarning(message, category, filename, lineno, line)
    print(f"discodvt: warning: {message}" if category is UserWarning else text.rstrip(), file=sys.stderr)


def _flag(parameter: Any) -> str:
    """A parameter as it is typed: the longest of its options, or the metavar of an argument."""
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper())


def _with_uris(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, with URIs of stores (`s3://...`) among its paths as what they are."""

    def located(value: Any) -> Any:
        if isinstance(value, list):
            return [located(each) for each in value]
        return locate(value) if isinstance(value, Path) else value

    @wraps(command)
    def with_uris(*given: Any, **named: Any) -> Any:
        return command(*given, **{name: located(value) for name, value in named.items()})

    return with_uris


def _use_command_class(program: typer.Typer) -> None:
    for command in program.registered_commands:
        command.cls = _Command
        if command.callback is not None:
            command.callback = _with_uris(command.callback)
    for group in program.registered_groups:
        if group.typer_instance is not None:
            _use_command_class(group.typer_instance)


_use_command_class(app)


def main() -> None:
    """Run the program; what goes wrong becomes one line on standard error and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without emoji still shows the rest
    try:
        code = app(standalone_mode=False)
    except TyperException as error:
        _stop_at_usage(error)
    except DiscoError as error:
        _stop(str(error), error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _stop(f"{where}{error.strerror or error}", 1)
    except UnicodeEncodeError:
        odd = [word for word in sys.argv[1:] if any("\ud800" <= letter <= "\udfff" for letter in word)]
        if not odd:
            raise
        _stop(f"{odd[0]}: a name that is not UTF-8, which a library below cannot open; rename it", 2)
    except MemoryError:
        _stop("out of memory; use fewer workers or shorter stories", 1)
    except KeyboardInterrupt:  # before any command was at work
        _stop("interrupted", Interrupted.exit_code)
    else:
        if code == Interrupted.exit_code:  # the same, caught by Typer
            _stop("interrupted", Interrupted.exit_code)
        sys.exit(code)


def _stop_at_usage(error: TyperException) -> NoReturn:
    """What was wrong with the words of a command; without any, its help has been shown already."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    if not message:
        sys.exit(error.exit_code)
    if context is not None:
        known = getattr(context.command, "commands", None)
        listed = f"; commands: {', '.join(known)}" if known and message.startswith("No such command") else ""
        message = f"{message.rstrip('.')}{listed}; see {context.command_path} --help"
    _stop(message, error.exit_code)


def _stop(message: str, code: int) -> NoReturn:
    print("discodvt: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(code)
