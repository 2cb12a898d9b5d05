"""How far a simulated Tor is from the live network: today's, and that of 2019 one parameter at a time.

Ours is `onionlab.live_network.calibrate`: a figure is the mean over sampled networks with Student's interval.
Theirs is whatever `onionlab.live_network.tor_metrics` can read: the reference's quantiles of 2019, or newer files that
``--reference`` names.
"""

from __future__ import annotations

from pathlib import Path

from onionlab.errors import ResultsError, RunError
from onionlab.files import write_text
from onionlab.live_network.tor_metrics import Metrics
from onionlab.reproductions.live import then
from onionlab.reproductions.live.page import page
from onionlab.reproductions.published import load_differences
from onionlab.reproductions.runs import Observe, watching
from onionlab.running import runner

#: What is known of the live network where nobody says otherwise, relative to the folder of references.
USUAL = Path("shadow-networks/targets.json")


def reproduce(
    experiments: Path, reference: Path | None, out: Path, docs: Path, observe: Observe | None = None
) -> tuple[Path, list[str]]:
    """Run the networks and write the page; return its path and no complaints.

    Parameters
    ----------
    experiments : path
        The folder with ``today.toml``, ``steps.toml`` and ``differences.toml``.
    reference : path or None
        A file, or a folder of files, with the live network's figures; else the quantiles of 2019 beside the other references.
        What is turned one parameter at a time is always held against those of 2019, and left out where they are not there.
    out, docs : path
        Results go below ``out``, the page into ``docs``. Finished runs are kept.
    observe : callable, optional
        Gives a context with an observer.
    """
    named = reference is not None and reference.exists()
    # References lie side by side, the one that was named among them.
    usual = (reference or Path()).parent / USUAL
    metrics = _metrics(reference, usual)
    file = experiments / "today.toml"
    reasons = load_differences(experiments / "differences.toml")
    asked = then.load(experiments / "steps.toml") if usual.is_file() else None
    with watching(observe) as observer:
        experiment = runner.run_once(file, out / "today", renew=True, observer=observer)
    if experiment.missing:
        raise RunError(f"{experiment.missing[0].label} did not finish")
    taken = []
    if asked is not None:
        with watching(observe) as observer:
            taken = then.run(asked, usual.parent, _metrics(None, usual), out / "then", observer)
    path = docs / "live.md"
    write_text(path, page(experiment, metrics, taken, reasons, reference if named else None))
    return path, []


def _metrics(reference: Path | None, usual: Path) -> Metrics:
    """The live network's figures: of the file, of all files of the folder, or where neither is there the usual ones."""
    metrics = Metrics()
    if reference is not None and reference.is_dir():
        files = sorted(path for path in reference.iterdir() if path.is_file())
    elif reference is not None and reference.exists():
        files = [reference]
    else:
        files = [usual]
    for path in files:
        metrics.add(path)
    if not metrics.times:
        raise ResultsError(f"{reference} has no times of the live network")
    return metrics
