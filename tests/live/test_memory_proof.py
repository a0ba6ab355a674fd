"""Page data is never in the supervisor: a page of unique markers is read, extracted and photographed, and every readable
mapping of the supervisor is searched meanwhile and afterwards.

The markers are made by the bookshop in this test's process after the supervisor was started, and the only thing this process
tells the supervisor is the page's address. Controls: the same search finds the markers in the bridge, and finds in the
supervisor what is planted there through a goal.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from browsercell.protocol.client import Client
from browsercell.protocol.errors import Unavailable
from browsercell.protocol.frames import HostProgress, TaskPhase
from browsercell.protocol.results import Status
from browsercell.supervisor.cli.demo import MAX_SEARCHED_FILE, Proof, prove
from browsercell.supervisor.demo import tasks
from browsercell.supervisor.demo.server import Bookshop
from browsercell.supervisor.memory_search import MarkerIndex, SearchReport, search_bytes, search_process

from tests.support.live import LOOPBACK, Live, done, expect, navigate, own_supervisor, said, wanted

PLANTED = "plantedplantedplanted123"  # 24 characters: in the shape of a marker


@pytest.fixture(scope="module")
def open_minded(private_places: Path) -> Iterator[Live]:  # noqa: ARG001 - the user's settings are hidden before it starts
    """A supervisor whose memory may be searched by the same user."""
    with own_supervisor({**LOOPBACK, "debug.inspection": "true"}) as live:
        yield live


@pytest.fixture(scope="module")
def proof(open_minded: Live) -> Proof:
    """What the demo's own proof finds."""
    with Bookshop() as shop, open_minded.client() as client:
        found, _ = prove(client, shop, str(open_minded.state))
        assert shop.counts.marker_pages == 1
    return found


def test_the_marker_page_leaves_nothing_in_the_supervisor(proof: Proof) -> None:
    assert proof.problems == []
    for report in (proof.while_running, proof.afterwards):
        assert report is not None
        assert report.total == 0, report
        # A real search: an interpreter has tens of megabytes, and none of them was refused.
        assert report.bytes > 20 << 20
        assert report.mappings > 50
        assert report.unreadable <= report.mappings // 20
    assert proof.holds


def test_the_same_search_finds_the_markers_in_the_bridge(proof: Proof) -> None:
    assert proof.control is not None
    # How much is left of it there depends on when its memory was used again; one token is found by chance never.
    assert proof.control.total > 100, "the search is blind, so the proof would be vacuous"


def test_logs_grants_state_and_result_hold_no_marker(proof: Proof, open_minded: Live) -> None:
    assert proof.files >= 3
    assert (proof.file_hits, proof.result_hits) == (0, 0)
    names = {path.name for path in open_minded.state.rglob("*") if path.is_file()}
    assert {"supervisor.log", "bridge.log", "grants.sqlite"} <= names


def test_a_delivered_table_passes_the_supervisor_by(open_minded: Live, outbox: Path) -> None:
    """Markers leave as a file on disk: the bridge writes it, the supervisor only opens and publishes it."""
    with Bookshop() as shop, open_minded.client(outbox) as client:
        result = client.delegate(
            "Deliver the marker page",
            browser="private",
            deliverables=[wanted("page", "page.md", "text")],
            playbook=[
                navigate("${site}/marker?n=50000"),
                {
                    "tool": "browser_page_extract",
                    "args": {"kind": "text", "to_artifact": "markdown"},
                    "purpose": "page",
                },
                done(),
            ],
            variables={"site": shop.url},
        )
        index = MarkerIndex(shop.marker_tokens(50_000))
    assert result.status is Status.COMPLETED, said(result)
    assert search_bytes((outbox / "page.md").read_bytes(), index).total() >= 1_990
    assert search_process(open_minded.pid, index).total == 0
    assert search_bytes(msgspec.json.encode(result), index).total() == 0
    for path in open_minded.state.rglob("*"):
        if path.is_file() and "artifacts" not in path.parts:
            assert search_bytes(path.read_bytes()[:MAX_SEARCHED_FILE], index).total() == 0, path.name


def test_the_search_of_the_supervisor_is_not_blind(open_minded: Live) -> None:
    """What does reach the supervisor is found there: a marker in the goal, while the task runs."""
    index = MarkerIndex([PLANTED])
    before = search_process(open_minded.pid, index)
    assert before.total == 0
    found: list[SearchReport] = []
    with Bookshop() as shop, open_minded.client() as client:

        def search() -> None:
            found.append(search_process(open_minded.pid, index))
            shop.release()

        searcher = threading.Thread(target=search)

        def watch(progress: HostProgress) -> None:
            if progress.phase is TaskPhase.RUNNING and progress.tool_calls and searcher.ident is None:
                searcher.start()

        result = client.delegate(
            f"Look for {PLANTED}",
            browser="private",
            playbook=[
                navigate(f"{shop.url}/marker?hold=1&n=1000"),
                expect(text="Released", timeout_ms=20_000),
                done(),
            ],
            on_progress=watch,
        )
        searcher.join(20)
    assert result.status is Status.COMPLETED, said(result)
    assert found
    assert found[0].total >= 1


def test_without_the_switch_nobody_of_the_same_user_may_search(live: Live, host: Client) -> None:
    assert host.status()["supervisor"]["inspection"] is False
    if os.geteuid() == 0:
        pytest.skip("root may read any process; the rule is about an ordinary user (.ci/as-user runs this)")
    with pytest.raises(Unavailable, match="can't be read"):
        search_process(live.pid, MarkerIndex([PLANTED]))


def test_the_proof_reads_what_the_demo_says_it_reads() -> None:
    assert tasks.MARKER_CHARS == 100_000
    tools = [step["tool"] for step in tasks.PROOF if "tool" in step]
    assert {"browser_page_observe", "browser_page_extract", "browser_page_screenshot"} <= set(tools)
