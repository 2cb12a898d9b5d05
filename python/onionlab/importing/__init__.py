"""Networks that were made elsewhere, as experiments: what ``onionlab import`` does.

`published` reads the networks of "Once is Never Enough" in their distilled form, `tornettools` a configuration that tornettools
generated for Shadow. Both give a `model.Network`; `write` makes of it a folder with an experiment file and a network document.
All of it is input from anywhere: what is read is bounded, and what is wrong is one sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onionlab.errors import ImportedError, UntrustedError
from onionlab.importing import published, tornettools
from onionlab.importing.model import Network, Options
from onionlab.importing.write import Written, write

__all__ = ["ImportedError", "Network", "Options", "Written", "import_network", "read"]


def read(source: Path, relay_info: Path | None = None) -> Network:
    """Read a network: a folder of tornettools, or a file ``*.network.json`` as it is, ``.xz`` or ``.gz``.

    Raises
    ------
    ImportedError
        If it is neither, or not as it should be.
    """
    with _as_imported():
        if source.is_dir():
            return tornettools.read(source, relay_info)
        if relay_info is not None:
            raise ImportedError(f"{source} is no folder of tornettools: staged relay information has no use beside it")
        return published.read(source)


def import_network(source: Path, out: Path, relay_info: Path | None = None, options: Options | None = None) -> Written:
    """Read the network at ``source`` and write an experiment into the folder ``out``, whole or not at all.

    Raises
    ------
    ImportedError
        If the network cannot be used, or the folder not be written.
    """
    with _as_imported():
        return write(read(source, relay_info), out, options if options is not None else Options())


@contextmanager
def _as_imported() -> Iterator[None]:
    """Whatever is wrong with a file of a network is wrong with the network."""
    try:
        yield
    except ImportedError:
        raise
    except UntrustedError as error:
        raise ImportedError(str(error)) from error
