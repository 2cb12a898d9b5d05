"""When a download's request leaves: the moment from which OnionPerf, Tor Metrics and tornettools count.

Their clients are tgen's: a request is written when tor has said that the stream is connected, and what is measured is how long
the request and its answer take over a circuit that is there. A client here does the same without optimistic data. With optimistic
data the request leaves together with BEGIN, so that CONNECTED comes with the answer and says nothing of it. Over a Conflux set
nothing goes ahead of CONNECTED, whatever the client wishes.
"""

from __future__ import annotations

import polars as pl

#: What tells a circuit from all others of an experiment.
_CIRCUIT = ("treatment", "network", "seed", "circuit")


def with_requests(transfers: pl.DataFrame, circuits: pl.DataFrame, ahead: bool) -> pl.DataFrame:
    """Rows of ``transfers`` with ``leaves_ns``, when the request left.

    With optimistic data that is when the stream got its circuit: at its start, or when the circuit that it waited for was there.
    Of a stream that had to try another circuit this moment is not in the records: it counts from CONNECTED, a round trip late.

    Parameters
    ----------
    transfers, circuits : DataFrame
        Records; transfers that were never connected have no ``leaves_ns`` or one of no use.
    ahead : bool
        Whether their treatment has optimistic data.
    """
    if not ahead:
        return transfers.with_columns(leaves_ns=pl.col("connected_ns"))
    over = circuits.select(*_CIRCUIT, "purpose", there_ns=pl.max_horizontal(*({"built_ns", "joined_ns"} & set(circuits.columns))))
    found = transfers.join(over, on=_CIRCUIT, how="left", maintain_order="left", validate="m:1")
    with_begin = (pl.col("purpose") != "leg") & (pl.col("retries") == 0)
    leaves = pl.when(with_begin).then(pl.max_horizontal("start_ns", "there_ns")).otherwise(pl.col("connected_ns"))
    return found.with_columns(leaves_ns=leaves).drop("purpose", "there_ns")


def answered(transfers: pl.DataFrame) -> pl.Series:
    """When the first byte of each answer arrived, in ns, be it one of a header.

    Results of older versions have the first byte beyond it.
    """
    return transfers["answered_ns" if "answered_ns" in transfers.columns else "first_byte_ns"]


def on_time(circuits: pl.DataFrame) -> pl.DataFrame:
    """Circuits but for those that were late: for whoever asks tor these have failed.

    That such a circuit is built on, to measure how long it takes, nobody is told
    (``circuit_build_times_mark_circ_as_measurement_only``).
    Results of older versions do not say which they are.
    """
    return circuits.filter(pl.col("timed_out") != "yes") if "timed_out" in circuits.columns else circuits
