"""The files that lie beside a reproduction's experiments: assumptions, claims, published numbers, each written by hand."""

from __future__ import annotations

import io
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from onionlab.errors import ResultsError, UntrustedError
from onionlab.untrusted import clipped, read_bytes


@contextmanager
def checked(what: str) -> Iterator[None]:
    """Say in one sentence what is wrong with the files that are read within.

    Parameters
    ----------
    what : str
        What they should be and are not, as the beginning of that sentence.

    Raises
    ------
    ResultsError
        A file cannot be read, is no TOML or JSON, lacks something, or holds a value of another kind.
    """
    try:
        yield
    except OSError as error:
        raise ResultsError(
            f"cannot read {error.filename}: {error.strerror}; --experiments names the folder that holds it"
        ) from error
    except KeyError as error:
        raise ResultsError(f"{what}: {error} is missing") from error
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ResultsError(f"{what}: {error}") from error


def table(path: Path, columns: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The columns of a table in CSV that others published, packed or not.

    Raises
    ------
    ResultsError
        If it cannot be read, is too large, or has not these columns with values of these types.
    """
    try:
        return pl.read_csv(io.BytesIO(read_bytes(path))).select(pl.col(name).cast(kind) for name, kind in columns.items())
    except UntrustedError as error:
        raise ResultsError(str(error)) from error
    except pl.exceptions.PolarsError as error:
        asked = ", ".join(f"`{name}`" for name in columns)
        raise ResultsError(f"{path} is no table with the columns {asked}: {clipped(error, 160)}") from error


def toml(path: Path) -> dict[str, Any]:
    """A TOML file; raises `OSError` or `tomllib.TOMLDecodeError`, a `ValueError`."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def published(path: Path) -> dict[str, Any]:
    """A JSON file of numbers that others published; raises `OSError` or `json.JSONDecodeError`, a `ValueError`."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def rows(document: Mapping[str, Any], name: str, keys: Sequence[str]) -> list[dict[str, str]]:
    """The tables called ``name`` of a TOML file, as texts by these keys; raises `KeyError` for one that lacks any."""
    return [{key: str(row[key]) for key in keys} for row in document[name]]


def assumptions(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """What a paper leaves open: ``what``, ``chosen`` and ``why`` of each assumption."""
    return rows(document, "assumption", ("what", "chosen", "why"))
