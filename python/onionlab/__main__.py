"""The command line's start: ``onionlab`` and ``python -m onionlab``."""

import sys

from onionlab.cli import main
from onionlab.running.huge_pages import start_again


def command() -> None:
    """Run the command line; what simulates starts itself again with huge pages first."""
    if sys.argv[1:2] in (["run"], ["reproduce"]):
        start_again()
    main()


if __name__ == "__main__":
    command()
