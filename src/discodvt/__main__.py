"""`python -m discodvt` is the `discodvt` program."""

from discodvt.cli import main

if __name__ == "__main__":
    main()
