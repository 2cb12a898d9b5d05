"""What a terminal shows: how far a run or a transfer is, and the summary at the end."""
