//! Placeholder of the floor `circuitmux`, filled in by the commits that follow.
