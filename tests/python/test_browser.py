"""The report in a real browser: headless Chromium lays it out, and what it shows is measured.

Skipped with the reason where there is no Chromium; with ``ONIONLAB_REQUIRE_BROWSER=1`` its absence is a failure.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import zlib
from collections import Counter
from pathlib import Path

import pytest

import onionlab
from fake_core import FakeCore
from onionlab.commands.carried_out.doctor import find_browser

pytestmark = pytest.mark.browser

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)

#: Measures what is visible; put into a copy of the page, because the page itself carries no script.
PROBE = """
<script>
const box = element => { const r = element.getBoundingClientRect(); return [r.width, r.height]; };
const probe = {
  charts: [...document.querySelectorAll("svg.chart")].map(svg => ({
    name: svg.id, size: box(svg), lines: [...svg.querySelectorAll("path")].filter(p => p.getTotalLength() > 200).length,
    ink: getComputedStyle(svg).color,
  })),
  rows: document.querySelectorAll("table.figures tbody tr").length,
  page: [document.documentElement.scrollWidth, window.innerWidth],
  background: getComputedStyle(document.body).backgroundColor,
};
const out = document.createElement("pre");
out.id = "probe";
out.textContent = JSON.stringify(probe);
document.body.append(out);
</script>
"""


def find() -> str:
    """Path of the browser; skips or fails the test where there is none."""
    found = find_browser()
    if found is None:
        if os.environ.get("ONIONLAB_REQUIRE_BROWSER") == "1":
            pytest.fail("ONIONLAB_REQUIRE_BROWSER=1, but there is no Chromium")
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    return found


@pytest.fixture(scope="module")
def browser() -> str:
    return find()


def chromium(browser: str, profile: Path, *words: str) -> str:
    command = [browser, *FLAGS, f"--user-data-dir={profile}", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
    return done.stdout


def probe(browser: str, report: Path, profile: Path, *words: str) -> dict[str, object]:
    page = report.read_text(encoding="utf-8")
    page = page.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';")
    copy = report.with_name("probed.html")
    copy.write_text(page.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    dump = chromium(browser, profile, *words, "--dump-dom", copy.as_uri())
    found = re.search(r'<pre id="probe">(.*?)</pre>', dump, re.DOTALL)
    assert found, "the page did not come to its end in the browser"
    result: dict[str, object] = json.loads(found[1].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
    return result


def pixels(png: Path) -> Counter[tuple[int, ...]]:
    """Count the colours of an 8-bit RGB or RGBA picture; enough of PNG for what Chromium writes."""
    data = png.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    position, packed, width, height, channels = 8, b"", 0, 0, 3
    while position < len(data):
        (length,) = struct.unpack(">I", data[position : position + 4])
        kind, body = data[position + 4 : position + 8], data[position + 8 : position + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8
            channels = {2: 3, 6: 4}[colour]
        elif kind == b"IDAT":
            packed += body
        position += 12 + length
    raw = zlib.decompress(packed)
    stride = width * channels
    previous = bytearray(stride)
    colours: Counter[tuple[int, ...]] = Counter()
    for line in range(height):
        at = line * (stride + 1)
        row = bytearray(raw[at + 1 : at + 1 + stride])
        _unfilter(raw[at], row, previous, channels)
        # Every fourth pixel of every fourth line is plenty.
        if line % 4 == 0:
            for x in range(0, stride, channels * 4):
                colours[tuple(row[x : x + 3])] += 1
        previous = row
    return colours


def _unfilter(kind: int, row: bytearray, above: bytearray, step: int) -> None:
    """Undo a PNG line filter in place."""
    for i in range(len(row)):
        left = row[i - step] if i >= step else 0
        corner = above[i - step] if i >= step else 0
        if kind == 1:
            row[i] = (row[i] + left) & 255
        elif kind == 2:
            row[i] = (row[i] + above[i]) & 255
        elif kind == 3:
            row[i] = (row[i] + (left + above[i]) // 2) & 255
        elif kind == 4:
            estimate = left + above[i] - corner
            by = [abs(estimate - left), abs(estimate - above[i]), abs(estimate - corner)]
            row[i] = (row[i] + (left, above[i], corner)[by.index(min(by))]) & 255
        else:
            return


@pytest.fixture
def report(core: FakeCore, experiment_file: Path) -> Path:
    results = onionlab.run(experiment_file, experiment_file.parent / "out")
    assert core.made
    return results.directory / "report.html"


def test_browser_shows_tables_and_charts(browser: str, report: Path, tmp_path: Path) -> None:
    seen = probe(browser, report, tmp_path / "profile", "--window-size=1200,2000")
    charts = seen["charts"]
    assert isinstance(charts, list)
    assert len(charts) == 7
    for chart in charts:
        width, height = chart["size"]
        assert width > 400, chart
        assert height > 200, chart
        assert chart["lines"] >= 2, chart
    # Two kinds of clients and the whole network, two treatments each.
    assert seen["rows"] == 6
    assert seen["page"] == [1200, 1200]


def test_narrow_screens_do_not_scroll_sideways(browser: str, report: Path, tmp_path: Path) -> None:
    seen = probe(browser, report, tmp_path / "profile", "--window-size=500,900")
    width, window = seen["page"]  # type: ignore[misc]
    assert width == window


def test_dark_mode_is_dark_with_light_ink(browser: str, report: Path, tmp_path: Path) -> None:
    dark = probe(browser, report, tmp_path / "dark", "--blink-settings=preferredColorScheme=0")
    light = probe(browser, report, tmp_path / "light", "--blink-settings=preferredColorScheme=1")

    def brightness(colour: str) -> int:
        return sum(int(part) for part in re.findall(r"\d+", colour)[:3])

    assert brightness(str(dark["background"])) < 150
    assert brightness(str(light["background"])) == 3 * 255
    assert brightness(dark["charts"][0]["ink"]) > 500  # type: ignore[index]


def test_screenshot_is_not_blank(browser: str, report: Path, tmp_path: Path) -> None:
    picture = tmp_path / "report.png"
    chromium(browser, tmp_path / "profile", "--window-size=1000,2600", f"--screenshot={picture}", report.as_uri())
    colours = pixels(picture)
    total = sum(colours.values())
    assert len(colours) > 100
    paper, count = colours.most_common(1)[0]
    assert paper == (255, 255, 255)
    assert 0.5 < count / total < 0.98
    # The colours of both treatments are there (their swatches and lines).
    assert colours[(0x00, 0x72, 0xB2)] > 3
    assert colours[(0xD5, 0x5E, 0x00)] > 3
