"""A policy that no test calls."""


class Mine:
    """It is only named."""
