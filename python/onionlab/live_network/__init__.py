"""The Tor network as it is and was: its archived consensuses, its measured performance, and ours beside that."""
