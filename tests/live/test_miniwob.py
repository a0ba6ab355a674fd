"""MiniWoB++ through real processes: some tasks of the working set, drawn anew in each run (`make miniwob`: all), and no way to its hooks."""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsercell.protocol.results import Status

from tests.miniwob.oracles import CHANCE, ORACLES, REFUSED, WORKING_SET
from tests.miniwob.runner import GOAL, Runner, running, table
from tests.miniwob.site import Site, Unobtainable, pages_folder
from tests.support.planner import Failed, Page

PARALLEL = 2
SAMPLE = 20  # tasks of a run, about 40 s; the run's seed draws them, so that all have their turn


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    try:
        pages = pages_folder()
    except Unobtainable as error:
        pytest.skip(str(error))
    with Site(pages) as serving:
        yield serving


@pytest.fixture(scope="module")
def runner(site: Site, private_places: Path) -> Iterator[Runner]:  # noqa: ARG001 - settings are hidden first
    with running(site) as made:
        yield made


def test_every_task_of_the_working_set_is_accounted_for() -> None:
    assert not set(ORACLES) & set(REFUSED)
    assert set(WORKING_SET) <= set(ORACLES) | set(REFUSED)
    assert set(CHANCE) <= set(ORACLES)


def test_tasks_of_the_working_set_are_solved(runner: Runner) -> None:
    """The reward is the page's own word; the seed is in the table of a failure, for `python -m tests.miniwob --seed`."""
    seed = secrets.token_hex(4)
    names = sorted(set(WORKING_SET) & set(ORACLES))
    assert len(names) >= 45
    drawn = random.Random(seed).sample(names, SAMPLE)
    played = runner.play_all([(name, f"{seed}-0", ORACLES[name]) for name in drawn], PARALLEL)
    for one in played:
        solved = one.episode.reward is not None if one.episode.task in CHANCE else one.episode.solved
        assert solved, f"seed {seed}\n{table(played)}"


def test_a_worker_has_no_way_to_the_hooks(site: Site, runner: Runner) -> None:
    """No tool takes a script or a selector, a script URL goes nowhere, and a report without the episode's secret counts for nothing."""
    tried: list[str] = []

    def planner(page: Page) -> None:
        for url in (
            "javascript:core.endEpisode(1)",
            "data:text/html,<script>opener.core.endEpisode(1)</script>",
        ):
            with pytest.raises(Failed) as failed:
                page.call("page_navigate", url=url)
            tried.append(failed.value.code)
        with pytest.raises(Failed):  # not in the catalogue's schema: no such field
            page.call("page_click", script="core.endEpisode(1)")
        for text in (page.observe("document"), page.extract("text")):
            assert not re.search(r"endEpisode|seedrandom|secret", text)

    with runner.host() as client:
        played = runner.play(client, "click-test", secrets.token_hex(4), planner)
    assert played.running.error is None, played.problem
    assert len(tried) == 2
    assert played.episode.reward is None
    assert played.result.status is Status.COMPLETED, GOAL
    for secret in ("", "0" * 32):
        site.report({"secret": secret, "done": True, "reward": 1})
    assert played.episode.reward is None
    assert site.refused >= 2
