"""Published results made again: an experiment file, the published numbers, and what comes out here beside them.

A reproduction lives in ``experiments/<name>/``: the experiment files, ``published.json`` (the numbers, with their source) and
``assumptions.toml`` (what the source does not say, and what was chosen). The module of the same name here runs them and writes
the page.
"""

from onionlab.reproductions import shadow_tor

#: Name on the command line, and what makes it. The function takes the folder of experiment files, that of the reference's own
#: measurements, those for results and for the page, and a maker of observers; it returns the page's path and a sentence for each
#: figure that should agree and does not.
PAPERS = {"shadow-tor": shadow_tor.reproduce}

__all__ = ["PAPERS", "shadow_tor"]
