"""`python -m discodvt` is the `discodvt` program; an interrupt is answered with one line from the first moment."""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    signal.signal(signal.SIGINT, _interrupt)
    from discodvt.cli import main as program

    program()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Interrupt the work; leave at once where modules are being imported, which may swallow or wrap the exception."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
            print(f"{show_cursor}discodvt: interrupted", file=sys.stderr, flush=True)
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
