//! Placeholder of the floor `directory`, filled in by the commits that follow.
