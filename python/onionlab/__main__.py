"""``python -m onionlab`` is the command line."""

from onionlab.cli import main

main()
