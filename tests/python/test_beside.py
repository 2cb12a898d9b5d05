"""Files that are written by hand: what is wrong with one is said in one sentence."""

from pathlib import Path

import pytest

from onionlab.errors import ResultsError
from onionlab.reproductions import beside


def read(folder: Path) -> list[dict[str, str]]:
    with beside.checked(f"{folder} is no folder of a reproduction"):
        return beside.assumptions(beside.toml(folder / "assumptions.toml"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, r"cannot read .*assumptions\.toml: No such file.*--experiments names the folder"),
        ("[[assumption]]\nwhat = 'rates'\nchosen = '1'\n", "is no folder of a reproduction: 'why' is missing"),
        ("other = 1\n", "'assumption' is missing"),
        ("a = 1\n[[assumption", "is no folder of a reproduction: Expected"),
        ("assumption = 3\n", "is no folder of a reproduction: .*iterable"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str | None, sentence: str) -> None:
    if text is not None:
        (tmp_path / "assumptions.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ResultsError, match=sentence) as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)


def test_assumptions_are_texts(tmp_path: Path) -> None:
    (tmp_path / "assumptions.toml").write_text("[[assumption]]\nwhat = 'a'\nchosen = 3\nwhy = 'b'\nmore = 1\n", encoding="utf-8")
    assert read(tmp_path) == [{"what": "a", "chosen": "3", "why": "b"}]
