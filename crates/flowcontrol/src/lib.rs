//! Placeholder of the floor `flowcontrol`, filled in by the commits that follow.
