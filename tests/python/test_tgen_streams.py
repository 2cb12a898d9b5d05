"""What `tools/shadow_113/tgen.py` says that tgen does, against what tgen 1.0.0 wrote into its logs."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from conftest import tool_called

MODELS = Path(__file__).resolve().parents[3] / "shared" / "data" / "network"

#: Streams of the third of eleven clients with seed 1, as its tgen told them: microseconds after the load began, bytes of payload
#: to the server and to the client. Most of those that began in the first minute and were over within half a minute.
LOGGED = (
    (12_865_793, 22_944, 934_968),
    (12_866_047, 1_434, 1_434),
    (12_866_476, 1_434, 4_302),
    (12_866_483, 28_680, 1_284_864),
    (12_866_499, 4_302, 764_322),
    (12_866_543, 0, 1_434),
    (13_148_032, 2_868, 14_340),
    (15_582_127, 1_434, 2_868),
    (16_765_943, 2_868, 1_434),
    (18_439_547, 57_360, 797_304),
    (20_312_417, 4_302, 30_114),
    (20_358_880, 4_302, 369_972),
    (21_792_913, 7_170, 5_736),
    (30_861_141, 14_340, 187_854),
    (33_281_177, 25_812, 385_746),
    (38_312_478, 0, 35_850),
    (38_314_734, 1_434, 40_152),
    (41_284_590, 2_868, 2_868),
)


@pytest.fixture
def tgen() -> ModuleType:
    return tool_called("shadow_113/tgen")


@pytest.mark.skipif(not MODELS.is_dir(), reason=f"no Markov models of tgen's at {MODELS}")
def test_streams_are_those_of_tgens_logs(tgen: ModuleType, tmp_path: Path) -> None:
    tool_called("shadow_113/make").tgenrcs(tmp_path, MODELS, 11, 8_053_692, 1)
    models = {kind: tgen.Model(tmp_path / f"{kind}.graphml") for kind in ("flow", "stream", "packet")}
    flows = tgen.client(tmp_path / "tgen.markov3.graphml", models, 60_000_000)
    found: dict[tuple[int, int], list[int]] = {}
    for stream in (stream for flow in flows for stream in flow["streams"]):
        sizes = [size for size, _ in stream["writes"]]
        both = (sum(-size for size in sizes if size < 0), sum(size for size in sizes if size > 0))
        found.setdefault(both, []).append(stream["at"])
    for at, up, down in LOGGED:
        assert any(abs(at - when) <= 600 for when in found.get((up, down), [])), (at, up, down)


def test_numbers_are_those_of_the_mersenne_twister(tgen: ModuleType) -> None:
    """The first and the ten thousandth of its authors' default seed."""
    random = tgen.Random(5489)
    numbers = [random.whole() for _ in range(10_000)]
    assert (numbers[0], numbers[-1]) == (3_499_211_612, 4_123_659_995)
