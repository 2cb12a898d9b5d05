"""Published results made again: an experiment file, the published numbers, and what comes out here beside them.

A reproduction lives in ``experiments/<name>/``: the experiment files, ``published.json`` (the numbers, with their source) and
``assumptions.toml`` (what the source does not say, and what was chosen). The module of the same name here runs them and writes the page.
"""

from onionlab.reproductions import shadow_tor

#: Name on the command line, and the module that makes it.
PAPERS = {"shadow-tor": shadow_tor}

__all__ = ["PAPERS", "shadow_tor"]
