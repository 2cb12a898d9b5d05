//! Placeholder of the floor `lab`, filled in by the commits that follow.
