"""Making runs on other machines: a Dask cluster that is given by the address of its scheduler (docs/cluster.md).

The client sends each worker what an experiment rests on, once, and each run as an order of a few numbers; a worker answers with
the run's tables, which the client alone writes into the results directory. So a cluster needs no common file system, and what is
on disk is whole and locked as it is without one. Dask makes a run again whose worker is lost.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Generator, Sequence
from urllib.parse import urlsplit

from onionlab.errors import ClusterError
from onionlab.running.work import Ended, Task

#: How Dask's schedulers are reached.
PROTOCOLS = ("tcp", "tls")


def check(address: str) -> None:
    """Refuse what cannot be a cluster's address, and any where Dask is not installed.

    Raises
    ------
    ClusterError
        In one sentence.
    """
    try:
        parts = urlsplit(address)
        good = parts.scheme in PROTOCOLS and bool(parts.hostname) and parts.port is not None and not parts.path
    except ValueError:
        good = False
    if not good:
        raise ClusterError(f"{address!r} is no address of a cluster; it looks like tcp://HOST:PORT or tls://HOST:PORT")
    if importlib.util.find_spec("distributed") is None:
        raise ClusterError("a cluster needs Dask, which is not installed: pip install 'onionlab[cluster]'")


def make(tasks: Sequence[Task], address: str, jobs: int | None) -> Generator[Ended, None, None]:
    """Make runs on the cluster at ``address`` and give each when it is over; the others go on meanwhile.

    Parameters
    ----------
    tasks : sequence of Task
        What to make.
    address : str
        Of the scheduler, such as ``tcp://10.0.0.1:8786``.
    jobs : int, optional
        Most runs at a time; as many as the workers have threads by default.

    Raises
    ------
    ClusterError
        If the cluster cannot be reached, one of its workers has another onionlab, or it goes away; finished runs are kept.
    """
    from onionlab.running.cluster.client import Session

    with Session(tasks, address) as session:
        yield from session.make(jobs)
