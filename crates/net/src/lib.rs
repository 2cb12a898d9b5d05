//! Placeholder of the floor `net`, filled in by the commits that follow.
