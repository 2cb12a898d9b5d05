"""Files from anywhere that are made to do harm: each is refused with one sentence, within bounds of time and memory."""

from __future__ import annotations

import gzip
import itertools
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from onionlab import cli, importing, unpacking, untrusted
from onionlab.errors import DocumentError, ResultsError, UntrustedError
from onionlab.files import write_text
from onionlab.importing import ImportedError, Options, gml, graphml, torrc
from onionlab.importing.common import Common
from onionlab.importing.options import Notes
from onionlab.importing.torrc import Line, Torrc

DATA = Path(__file__).parent / "testdata" / "importing"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of tornettools to break."""
    return Path(shutil.copytree(DATA / "tornettools", tmp_path / "tornettools"))


def sentence(error: pytest.ExceptionInfo[BaseException]) -> str:
    """What is said, which is one line that is not long."""
    said = str(error.value)
    assert "\n" not in said
    assert len(said) < 600
    return said


def configured(folder: Path, old: str, new: str) -> str:
    """What is said of a configuration with a change."""
    path = folder / "shadow.config.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ImportedError) as refused:
        importing.read(folder)
    return sentence(refused)


@pytest.mark.parametrize("nested", ["[" * 30_000, "{a: " * 30_000, "- " * 30_000])
def test_deep_yaml_does_not_end_the_process(nested: str, folder: Path) -> None:
    (folder / "shadow.config.yaml").write_text(nested)
    # In a process of its own, which a stack that overflows would kill.
    code = f"from onionlab import importing\nfrom pathlib import Path\nimporting.read(Path({str(folder)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("has objects and lists more than 50 deep within each other")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("!!bool x", "has YAML tags such as 'tag:yaml.org,2002:bool'"),
        ("!!timestamp foo", "has YAML tags such as"),
        ("!!int ''", "has YAML tags such as"),
        ("!!python/object/apply:os.system [true]", "has YAML tags such as"),
        ("! 5", "has YAML tags such as '!'"),
        # What YAML takes for a date, a number of base 60, and a number that Python does not write.
        ("2001-99-99", "`stop_time` is '2001-99-99', but must be a duration"),
        ("1" + ":1" * 400 + ".0", "`stop_time` is '1:1:1"),
        ("1" + ":1" * 2_000_000, "`stop_time` is '1:1:1"),
        ("0x" + "f" * 5000, "`stop_time` is '0xfff"),
        ("0b_", "`stop_time` is '0b_'"),
        ("9" * 5000, "`stop_time` is '999"),
        ("[" * 40 + "]" * 40, "`stop_time` is "),
        ("{[a]: b}", "a key is an object or a list"),
        ('"\\ud800"', "is no YAML"),
        ("5\n---\na: b", "more than one YAML document"),
    ],
)
def test_values_of_yaml_that_python_stumbles_over(value: str, said: str, folder: Path) -> None:
    assert said in configured(folder, "45 min", value)


def test_bombs_of_yaml(folder: Path) -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20))
    assert "has YAML aliases" in configured(folder, "general:", bomb + "general:")


def test_merged_objects_of_yaml_take_no_time(folder: Path) -> None:
    assert "`<<`" not in configured(folder, "45 min", "never\n" + "  <<: {}\n" * 200_000)


def test_nothing_is_said_by_nothing(folder: Path) -> None:
    path = folder / "shadow.config.yaml"
    path.write_text(path.read_text().replace("ip_addr: 203.0.113.1\n", "ip_addr: null\n"))
    assert importing.read(folder).relays[1].address == "11.0.0.2", "as if it had none"


def refused_torrc(folder: Path, text: str, host: str = "perfclient1exit") -> str:
    """What is said of a host's torrc."""
    (folder / "shadow.data.template/hosts" / host / "torrc").write_text(text)
    with pytest.raises(ImportedError) as refused:
        importing.read(folder)
    return sentence(refused)


def test_files_that_include_each_other_many_times(folder: Path) -> None:
    # Each includes the next one twice: 2^25 files.
    for number in range(25):
        (folder / f"conf/more{number}").write_text(f"%include /x/more{number + 1}\n" * 2)
    (folder / "conf/more25").write_text("Log info\n")
    assert "at most 1,000 files and 100,000 lines are taken in" in refused_torrc(folder, "%include /x/more0\n")


def test_long_files_that_are_included_many_times(folder: Path) -> None:
    (folder / "conf/long").write_text("\n" * 2**20)
    assert "at most 1,000 files and 100,000 lines" in refused_torrc(folder, "%include /x/long\n" * 200)


def test_all_hosts_of_an_import_have_one_budget(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert importing.read(folder)
    monkeypatch.setattr(torrc, "MOST_OF_ALL", 2_000)
    with pytest.raises(
        ImportedError, match="the torrcs of all hosts, with all that they include, have more than 2,000 char"
    ) as refused:
        importing.read(folder)
    sentence(refused)


def test_many_lines_of_one_option_take_no_time(tmp_path: Path) -> None:
    (tmp_path / "torrc").write_text("Log x\n" * 90_000)
    assert len(torrc.read(tmp_path, tmp_path, None).options["log"]) == 90_000
    (tmp_path / "torrc").write_text("Log x" + "\\\nyy" * 90_000)
    assert len(torrc.read(tmp_path, tmp_path, None).options["log"]) == 1
    assert len(torrc.read(tmp_path, tmp_path / "none", ["--Log", "x"] * 400_000).options["log"]) == 400_000


@pytest.mark.parametrize(
    ("name", "said"), [("\0", "embedded null byte"), ("y" * 300, "File name too long"), ("circle", "Symlink loop|symbolic links")]
)
def test_names_that_no_file_can_have(name: str, said: str, folder: Path) -> None:
    circle = folder / "conf/circle"
    circle.symlink_to(circle)
    graph = f'"/conf/{name}"'.replace("\0", r"\0")
    assert re.search(said, configured(folder, "/home/somebody/tornet/conf/small.gml", graph))
    shutil.copy(DATA / "tornettools/shadow.config.yaml", folder)
    assert re.search(said, refused_torrc(folder, f"%include /conf/{name}\n"))


def asking_for_memory(raw: bytes) -> bytes:
    """A small xz file whose header asks for a dictionary of 4 GiB."""
    packed = bytearray(lzma.compress(raw))
    assert packed[12:16] == b"\2\0\x21\1", "the header of the first block: its size, no flags, LZMA2 and a byte about it"
    packed[16] = 40
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    return bytes(packed)


@pytest.mark.parametrize("empty", [lzma.compress(b""), gzip.compress(b"")], ids=["xz", "gzip"])
def test_files_of_many_members(empty: bytes, tmp_path: Path) -> None:
    path = tmp_path / "many"
    path.write_bytes(empty * 600_000)
    with pytest.raises(UntrustedError, match="it consists of more than 10,000 packed files one after the other") as refused:
        untrusted.read_bytes(path)
    sentence(refused)
    member = lzma.compress(b"x") if empty.startswith(unpacking.XZ) else gzip.compress(b"x")
    path.write_bytes((member + bytes(4)) * 9_000)
    assert untrusted.read_bytes(path) == b"x" * 9_000


def test_unpacking_as_a_file_reads_all_or_as_much_as_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are smaller than what is there, as with any large file."""
    monkeypatch.setattr(unpacking, "PIECE_OUT", 1000)
    content = bytes(range(256)) * 40

    def file() -> unpacking.Unpacked:
        return unpacking.Unpacked([lzma.compress(content)], unpacking.XZ)

    assert file().read(-1) == file().read() == file().readall() == content
    one = file()
    assert one.read(300) == content[:300]
    assert b"".join(iter(lambda: one.read(77), b"")) == content[300:]
    assert one.read() == one.read(5) == b""


def test_what_follows_a_packed_file(tmp_path: Path) -> None:
    path = tmp_path / "more"
    for packed in (lzma.compress(b"x"), gzip.compress(b"x")):
        path.write_bytes(packed + bytes(8))
        assert untrusted.read_bytes(path) == b"x"
        path.write_bytes(packed + b"something else")
        with pytest.raises(UntrustedError, match="cannot be unpacked"):
            untrusted.read_bytes(path)


def test_a_graph_that_asks_for_memory(folder: Path) -> None:
    path = folder / "conf/small.gml"
    text = path.read_bytes()
    path.write_bytes(lzma.compress(text))
    plain = importing.read(folder)
    path.write_bytes(text)
    assert importing.read(folder) == plain
    path.write_bytes(asking_for_memory(text))
    with pytest.raises(ImportedError, match=r"cannot read .*Memory usage limit") as refused:
        importing.read(folder)
    sentence(refused)


@pytest.mark.parametrize("path", [".", "/", "folder"])
def test_files_that_are_folders(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ResultsError, match=f"^cannot write {path}: it is a folder, but the name of a file is needed$"):
        write_text(Path(path), "text")
    assert [file.name for file in tmp_path.rglob("*")] == ["folder"]


def test_a_command_that_is_to_write_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["onionlab", "synth", "--relays", "40", "-o", "."])
    with pytest.raises(SystemExit) as leave:
        cli.main()
    assert leave.value.code == cli.EXIT_REFUSED
    assert capsys.readouterr().err == "onionlab: cannot write .: it is a folder, but the name of a file is needed\n"


@pytest.mark.parametrize("out", [".", "../empty", "{cwd}"])
def test_no_import_takes_the_place_of_where_one_is(out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(ImportedError, match="is the folder that you are in"):
        importing.import_network(DATA / "small.network.json", Path(out.format(cwd=tmp_path / "empty")))
    assert not list((tmp_path / "empty").iterdir())
    assert (tmp_path / "empty").samefile(Path.cwd())


def published(folder: Path, **changes: Any) -> Path:
    """A published network with other values."""
    path = folder / "made.network.json"
    path.write_text(json.dumps(json.loads((DATA / "small.network.json").read_text()) | changes))
    return path


def test_halves_of_characters(tmp_path: Path) -> None:
    with pytest.raises(ImportedError, match=r"`source` is .*, but must be a text of whole characters") as refused:
        importing.import_network(published(tmp_path, source="\ud800"), tmp_path / "out")
    sentence(refused)


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.network.json")
    path.write_text(published(tmp_path, source=None).read_text())
    written = importing.import_network(path, tmp_path / "out")
    assert "caf\N{REPLACEMENT CHARACTER}.network" in written.network.read_text(encoding="utf-8")
    with pytest.raises(ImportedError, match="a name in it is no text in UTF-8"):
        importing.import_network(path, tmp_path / "other", options=Options(latency=path))
    assert not (tmp_path / "other").exists()


def test_what_a_terminal_would_obey_is_replaced(folder: Path) -> None:
    (folder / "shadow.data.template/hosts/perfclient1exit/torrc").write_text("NumEntryGuards 0\nStrange \x1b[2J\n")
    (note,) = (note for note in importing.read(folder).notes if "Strange" in note)
    assert note.startswith("torrc: `Strange \N{REPLACEMENT CHARACTER}[2J` of perfclient1exit")


@pytest.mark.parametrize("duration", ["1e400 s", "9" * 400 + " s", "inf", "nan s"])
def test_durations_without_end(duration: str, tmp_path: Path) -> None:
    with pytest.raises(ImportedError, match="is no duration such as") as refused:
        importing.import_network(DATA / "small.network.json", tmp_path / "out", options=Options(duration=duration))
    sentence(refused)


def test_elements_within_each_other_take_no_time(tmp_path: Path) -> None:
    path = tmp_path / "deep.graphml"
    inside = "<node><data key='k'>v</data>" * 30_000 + "</node>" * 30_000
    path.write_text(f"<graphml xmlns='http://graphml.graphdrawing.org/xmlns'><key id='k' attr.name='n'/>{inside}</graphml>")
    assert graphml.nodes(path) == [{"n": "v"}] * 30_000


def test_attributes_without_end_take_no_memory() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        lines = itertools.chain(["node ["], (f"more{number} {number}" for number in range(50_000)), ["id 7", "]"])
        tracemalloc.reset_peak()
        assert gml.read_vertices(lines, "graph") == {7: gml.Vertex(None, None, None)}
        assert tracemalloc.get_traced_memory()[1] - before < 2**20
    finally:
        tracemalloc.stop()


def test_a_flow_model_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(graphml, "edges", lambda path, edges=graphml.edges: read.append(path.name) or edges(path))
    assert sum(len(markov.hosts) for markov in importing.read(folder).markov) == 2
    assert read == ["flow.graphml"]


def read_lines(text: str) -> Torrc:
    """Lines as a torrc has them."""
    lines = (Line(*line.split(" ", 1), "torrc") for line in text.splitlines())
    return torrc._together([list(lines)])


def test_options_without_end_are_counted_only(tmp_path: Path) -> None:
    notes = Notes()
    for number in range(12):
        notes.look(read_lines("".join(f"Strange{number}x{value} 1\n" for value in range(1_000))), "relay", frozenset())
    assert notes.sentences()[-1] == "torrc: at least 9,960 more options or values are not modelled and left out."
    tracemalloc.start()
    try:
        more = read_lines("Strange0x0 1\n")
        for number in range(100_000):
            notes.look(more, f"relay{number % 10}", frozenset())
        assert tracemalloc.get_traced_memory()[1] < 2**18
    finally:
        tracemalloc.stop()
    assert "of 100001 hosts (relay, ...)" in notes.sentences()[0]


def test_parameters_and_authorities_without_end() -> None:
    many = read_lines("AuthoritativeDirectory 1\nConsensusParams " + " ".join(f"a{number}=1" for number in range(1_001)))
    with pytest.raises(ImportedError, match="votes for more than 1,000 parameters"):
        Common().relay(many, "4uthority1", exits=False)
    common, one = Common(), read_lines("AuthoritativeDirectory 1\nConsensusParams a=1")
    for number in range(100):
        common.relay(one, f"4uthority{number}", exits=False)
    assert common.params() == {"a": 1}
    with pytest.raises(ImportedError, match=r"^4uthority100 is the directory authority after the 100 that are taken in$"):
        common.relay(one, "4uthority100", exits=False)


def test_a_graph_of_empty_lines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gml, "MOST_LINES", 1000)
    path = folder / "conf/small.gml"
    path.write_bytes(b"\n" * 1001 + path.read_bytes())
    with pytest.raises(ImportedError, match="1,000 lines before its first edge") as refused:
        importing.read(folder)
    sentence(refused)


def test_a_file_of_others_is_called_a_network_only_where_it_should_be_one(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(UntrustedError, match="is no JSON") as refused:
        untrusted.read_json(path)
    assert refused.value.code == "document-untrusted"
    with pytest.raises(ImportedError, match="is no JSON") as imported:
        importing.import_network(path, tmp_path / "out")
    assert imported.value.code == "document-import"
    assert isinstance(imported.value, DocumentError)
