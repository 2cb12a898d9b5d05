//! Placeholder of the floor `engine`, filled in by the commits that follow.
