"""The memory search finds every encoding at every alignment, across chunks, and in a live process."""

from __future__ import annotations

import base64
import os
import subprocess
import sys

import pytest
from browsercell.protocol.errors import Unavailable
from browsercell.supervisor import memory_search as m

MARKER = "abcdefghijklmnopqrstuv42"
OTHER = "z" * 24
INDEX = m.MarkerIndex([MARKER, OTHER])


@pytest.mark.parametrize("lead", range(7))
@pytest.mark.parametrize("tail", range(4))
def test_every_alignment_of_base64(lead: int, tail: int) -> None:
    data = base64.b64encode(b"#" * lead + MARKER.encode() + b"#" * tail)
    assert m.search_bytes(b"<" + data + b">", INDEX) == {"base64": 1}


@pytest.mark.parametrize(
    ("name", "codec"), [("utf-8", "utf-8"), ("utf-16", "utf-16-le"), ("utf-16", "utf-16-be")]
)
@pytest.mark.parametrize("around", ["", " ", "é", "xyz"])
def test_every_encoding_inside_other_text(name: str, codec: str, around: str) -> None:
    assert m.search_bytes((around + MARKER + around).encode(codec), INDEX)[name] >= 1


def test_text_without_markers_has_no_hit() -> None:
    text = (MARKER[:-1] + "x").encode() + b" " + base64.b64encode(b"nothing here to be found, nothing at all")
    assert not m.search_bytes(text * 10, INDEX)


def test_each_occurrence_counts_once() -> None:
    assert m.search_bytes(f"{MARKER} {OTHER} {MARKER}".encode(), INDEX) == {"utf-8": 3}


@pytest.mark.parametrize("markers", [[], ["short"], ["A" * 24], ["a" * 25]])
def test_what_is_no_marker_is_refused(markers: list[str]) -> None:
    with pytest.raises(ValueError, match="marker"):
        m.MarkerIndex(markers)


CHILD = """
import sys
held = sys.stdin.readline().strip()
copies = [held.encode("utf-16-le"), ("#" + held).encode()]
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_live_process_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(m, "CHUNK", 4096)  # markers will lie across chunks
    with subprocess.Popen(
        [sys.executable, "-I", "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(MARKER + "\n")
        child.stdin.flush()
        assert child.stdout.readline() == "ready\n"
        report = m.search_process(child.pid, INDEX)
        none = m.search_process(child.pid, m.MarkerIndex(["q" * 24]))
        child.stdin.close()
    assert report.hits["utf-8"] >= 1
    assert report.hits["utf-16"] >= 1
    assert report.bytes > 1 << 20
    assert report.mappings > report.unreadable
    assert none.total == 0


def test_markers_across_chunks(monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]) -> None:
    monkeypatch.setattr(m, "CHUNK", 100)
    path = os.path.join(tmp_path, "memory")
    for lead in range(60, 130):
        with open(path, "wb") as stream:
            stream.write(b"." * lead + MARKER.encode("utf-16-le") + b"." * 300)
        fd = os.open(path, os.O_RDONLY)
        report = m.SearchReport(0)
        assert m._search_mapping(fd, 0, lead + 348, INDEX, report)
        os.close(fd)
        assert report.hits == {"utf-16": 1}, lead


def test_a_process_that_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with pytest.raises(Unavailable, match="can't be read"):
        m.search_process(child.pid, INDEX)
