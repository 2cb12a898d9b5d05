"""What an experiment left: its tables and figures as objects, in words, and beside those of other experiments."""
