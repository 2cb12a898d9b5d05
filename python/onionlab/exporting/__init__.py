"""Results in the formats of other programs, so that these can draw ours beside their own."""

from onionlab.exporting.tornettools import Exported, export_tornettools

__all__ = ["Exported", "export_tornettools"]
