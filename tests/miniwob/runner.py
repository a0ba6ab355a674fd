"""Runs episodes through real processes and tells how they went: task, seeds solved, steps, seconds.

One supervisor for all; each episode is one delegated task in a private Chromium of its own. An episode counts as solved only when the
page itself posted a reward of 1.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from browsercell.protocol.client import Client
from browsercell.protocol.results import BrowserDelegateResult

from tests.support.live import Live
from tests.support.planner import Planner, Planners, Running, planned

from .site import Episode, Site

GOAL: Final = "Solve the task that the page states at its top."
REPORT_SECONDS: Final = 2.0  # after the task's end: the page's report was sent before


@dataclass(frozen=True, slots=True)
class Played:
    """One episode as it went."""

    episode: Episode
    running: Running
    result: BrowserDelegateResult
    seconds: float

    @property
    def problem(self) -> str:
        """Why it is not solved; "" when it is."""
        if self.episode.solved:
            return ""
        error = self.running.error
        parts = [
            self.episode.problem,
            "" if error is None else f"{type(error).__name__}: {error}",
            "" if self.result.blocker_code is None else str(self.result.blocker_code),
            "no reward" if self.episode.reward is None else f"reward {self.episode.reward:g}",
            self.episode.why,
        ]
        return "; ".join(part for part in parts if part)


class Runner:
    """Plays episodes one after another on one host session; several may share the supervisor."""

    def __init__(self, site: Site, planners: Planners, live: Live) -> None:
        self._site = site
        self._planners = planners
        self._live = live

    def host(self) -> Client:
        """A host session of this supervisor."""
        return self._live.client()

    def play(self, client: Client, task: str, seed: str, planner: Planner) -> Played:
        """One episode of `task`."""
        episode = self._site.episode(task, seed)
        running = self._planners.expect(episode.url, planner)
        client.new_turn()
        began = time.monotonic()
        result = client.delegate(GOAL, browser="private", url=episode.url)
        seconds = time.monotonic() - began
        episode.wait(REPORT_SECONDS)
        running.stop()
        return Played(episode, running, result, seconds)

    def play_all(
        self,
        wanted: Sequence[tuple[str, str, Planner]],
        parallel: int,
        done: Callable[[Played], None] = lambda _: None,
    ) -> list[Played]:
        """Every (task, seed, planner), `parallel` at a time, in that order as far as they end in it."""
        clients = [self.host() for _ in range(parallel)]
        free = list(clients)

        def one(item: tuple[str, str, Planner]) -> Played:
            client = free.pop()
            try:
                played = self.play(client, *item)
            finally:
                free.append(client)
            done(played)
            return played

        try:
            with ThreadPoolExecutor(parallel) as pool:
                return list(pool.map(one, wanted))
        finally:
            for client in clients:
                client.close()


@contextlib.contextmanager
def running(site: Site) -> Iterator[Runner]:
    """A supervisor whose model is this process."""
    with Planners() as planners, planned(planners) as live:
        yield Runner(site, planners, live)


def table(played: Sequence[Played]) -> str:
    """One line a task: seeds solved, mean turns and calls, mean seconds, and the first problem."""
    tasks: dict[str, list[Played]] = {}
    for one in played:
        tasks.setdefault(one.episode.task, []).append(one)
    width = max((len(task) for task in tasks), default=4)
    lines = [f"{'task':<{width}}  solved  turns  calls  seconds"]
    for task, many in tasks.items():
        solved = sum(one.episode.solved for one in many)
        turns = sum(one.running.turns for one in many) / len(many)
        calls = sum(one.result.usage.tool_calls for one in many) / len(many)
        seconds = sum(one.seconds for one in many) / len(many)
        problem = next((one.problem for one in many if one.problem), "")
        lines.append(
            f"{task:<{width}}  {solved:>2}/{len(many):<3}  {turns:>5.1f}  {calls:>5.1f}  {seconds:>7.1f}  {problem}".rstrip()
        )
    whole = sum(all(one.episode.solved for one in many) for many in tasks.values())
    solved = sum(one.episode.solved for one in played)
    lines.append(f"{whole} of {len(tasks)} tasks solved whole; {solved} of {len(played)} episodes")
    return "\n".join(lines)
