"""What the commands do with what they took; loaded when a command is given."""
