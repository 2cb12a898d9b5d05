//! Placeholder of the floor `load`, filled in by the commits that follow.
