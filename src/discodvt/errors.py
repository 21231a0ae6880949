"""The two errors a user may see: each is one line that says what was found, where, and what to do."""


class DiscoError(Exception):
    """An error with a message for the user; the command line prints it without a traceback."""

    exit_code = 1


class WorkFailed(DiscoError):
    """The request was fine, the work could not be done (a full disk, a parser that does not answer)."""

    exit_code = 1


class BadRequest(DiscoError):
    """The request itself was wrong (a missing file, an unknown column, contradictory options)."""

    exit_code = 2
