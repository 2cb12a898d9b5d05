"""What ``onionlab doctor`` looks at: whether this machine has what onionlab needs, and what is optional."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from onionlab import _core
from onionlab.quantity import format_bytes
from onionlab.running.threads import cores

#: Names under which Chromium is found; it only serves the browser test of the report.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's answer; ``fine`` is None for what is optional and absent."""

    what: str
    found: str
    fine: bool | None


def find_browser() -> str | None:
    """Path of a Chromium, if there is one; ``ONIONLAB_BROWSER`` names another."""
    wanted = os.environ.get("ONIONLAB_BROWSER")
    names = (wanted,) if wanted else BROWSERS
    return next((path for name in names if (path := shutil.which(name))), None)


def memory() -> int | None:
    """Memory that is available to new programs, in bytes, or None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    words = fields.get("MemAvailable", "").split()
    return int(words[0]) * 1024 if words else None


def needed(requirements: Iterable[str]) -> list[str]:
    """Names of the packages that are always needed, of a distribution's requirements.

    Examples
    --------
    >>> needed(["polars>=1.30", "distributed>=2025.1; extra == 'cluster'", "jinja2 >=3.1"])
    ['jinja2', 'polars']
    """
    always = [one for one in requirements if "extra" not in one.partition(";")[2]]
    return sorted(found[0] for one in always if (found := re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", one)) is not None)


def _packages() -> Finding:
    """Versions of the packages without which onionlab does not work."""
    missing = []
    versions = []
    try:
        requirements = importlib.metadata.requires("onionlab") or []
    except importlib.metadata.PackageNotFoundError:
        return Finding("packages", "onionlab is not installed here, so that what it needs is not known", fine=None)
    for name in needed(requirements):
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        return Finding("packages", f"missing: {', '.join(missing)}", fine=False)
    return Finding("packages", ", ".join(versions), fine=True)


def _cluster() -> Finding:
    """Whether runs can be made on a cluster."""
    try:
        return Finding("cluster", f"Dask {importlib.metadata.version('distributed')}, for --cluster", fine=True)
    except importlib.metadata.PackageNotFoundError:
        return Finding("cluster", "no Dask: only --cluster needs it, pip install 'onionlab[cluster]'", fine=None)


def _drawing() -> Finding:
    """Whether a chart can be turned into a picture."""
    try:
        import vl_convert

        svg = vl_convert.vegalite_to_svg(
            {"data": {"values": [{"x": 1}]}, "mark": "point", "encoding": {"x": {"field": "x", "type": "quantitative"}}}
        )
    except Exception as error:  # whatever goes wrong there is the finding
        return Finding("drawing charts", f"fails: {error}", fine=False)
    return Finding("drawing charts", f"works ({len(svg)} characters of SVG)", fine=True)


def examine() -> list[Finding]:
    """Look at everything."""
    free = memory()
    disk = shutil.disk_usage(Path.cwd()).free
    browser = find_browser()
    return [
        Finding("onionlab", _core.version(), fine=True),
        Finding("Python", f"{platform.python_version()} in {sys.prefix}", fine=sys.version_info >= (3, 11)),
        _packages(),
        Finding("cores", f"{cores()}; that many runs at a time unless --jobs says otherwise", fine=True),
        Finding(
            "memory",
            f"{format_bytes(free)} available" if free else "the system does not say",
            fine=True if free else None,
        ),
        Finding("disk", f"{format_bytes(disk)} free here", fine=disk > 100 * 1024**2),
        _drawing(),
        _cluster(),
        Finding(
            "browser",
            browser or "no Chromium: only the browser test of the report needs one",
            fine=True if browser else None,
        ),
    ]
