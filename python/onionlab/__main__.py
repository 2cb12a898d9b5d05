"""The command line's start: ``onionlab`` and ``python -m onionlab``."""

from onionlab.cli import main

if __name__ == "__main__":
    main()
