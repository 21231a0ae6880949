"""The errors a user may see: each is one line that says what was found, where, and what to do.

Library code knows parameters, not flags. A message writes a parameter's name in backticks and passes the name along:

    raise BadRequest(f"`top_p` {top_p}: expected more than 0, at most 1", parameter="top_p")

The command line puts the flag of the command at work in its place (`--top-p 1.5: ...`), see `discodvt.cli`.
"""

from collections.abc import Sequence


class DiscoError(Exception):
    """An error with a message for the user; `parameter` names the parameters that the message has in backticks."""

    exit_code = 1

    def __init__(self, message: str, parameter: str | Sequence[str] = ()) -> None:
        super().__init__(message)
        self.parameters = (parameter,) if isinstance(parameter, str) else tuple(parameter)


class WorkFailed(DiscoError):
    """The request was fine, the work could not be done (a full disk, a parser that does not answer)."""

    exit_code = 1


class Interrupted(DiscoError):
    """Stopped by the user (Ctrl-C)."""

    exit_code = 130


class BadRequest(DiscoError):
    """The request itself was wrong (a missing file, an unknown column, contradictory options)."""

    exit_code = 2


def first_line(error: BaseException) -> str:
    """What a library says of its error, for a message of one line; where it says nothing, the error's name."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
