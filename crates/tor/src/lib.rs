//! Placeholder of the floor `tor`, filled in by the commits that follow.
