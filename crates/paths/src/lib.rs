//! Placeholder of the floor `paths`, filled in by the commits that follow.
