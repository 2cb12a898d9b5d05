"""Making the runs of an experiment: what there is to do, where it is done, what becomes of it on disk, and when it is enough."""
