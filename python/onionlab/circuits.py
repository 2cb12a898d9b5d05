"""Whose a circuit is."""

from __future__ import annotations

import polars as pl


def of_clients() -> pl.Expr:
    """Whether a row of the table ``circuits`` is a client's own circuit.

    A group whose loads come from onion services has these services' circuits among its rows too: their introduction points, and
    what they build to clients' rendezvous points. No client waits for the first, and no measurement of the network knows either.
    """
    return ~pl.col("purpose").str.starts_with("service-")
