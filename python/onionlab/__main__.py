"""The command line's start: ``onionlab`` and ``python -m onionlab``."""

import sys


def main() -> None:
    """Load the command line and run it. Loading takes a good part of a second, in which an interrupt is no error either."""
    try:
        from onionlab.cli import main as command

        command()
    except KeyboardInterrupt:
        print("onionlab: stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
