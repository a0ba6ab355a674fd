"""Scripted planners in the place of a model: a function that acts by what a worker is shown, and by nothing else.

    def solve(page: Page) -> None:
        button = page.find("Submit", role="button")
        page.click(button.ref)

    with Planners() as planners:
        planners.expect(url, solve)  # then delegate a task that starts at `url`

The product sees an OpenAI-compatible endpoint. Each request holds the goal, the start URL and the answers to the last calls; the function
runs in a thread of its own and gets exactly those answers. It is one delegated task, with the limits of one.
"""

from __future__ import annotations

import contextlib
import json
import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final

from tests.support.live import LOOPBACK, Live, own_supervisor, private_place
from tests.support.openai_server import OpenAIServer, Reply, Request, finish, tools

TURN_SECONDS: Final = 60.0  # a planner that says nothing for so long has failed
_START_URL: Final = re.compile(r"^Start URL: (\S+)", re.MULTILINE)
_MARKS: Final = re.compile(r"⟦[^⟧]*⟧\n?")
_ELEMENT: Final = re.compile(
    r"\[(?P<ref>(?:f\d+)?e\d+)\] (?P<role>[a-z]+)(?P<rest> \"(?:[^\"\\]|\\.)*\"[^\[\n]*)?"
)

Call = tuple[str, Mapping[str, Any]]
Planner = Callable[["Page"], None]


class Over(Exception):
    """The task ended while the planner still had something to do."""


class Failed(Exception):
    """A call failed. `code`: the product's code."""

    def __init__(self, answer: str) -> None:
        super().__init__(answer.splitlines()[0] if answer else "no answer")
        found = re.match(r"failed: ([a-z-]+)", answer)
        self.code = found.group(1) if found else "not-run"


class Element:
    """An element as a line of an answer tells it: `[e12] button "Send" disabled`."""

    __slots__ = ("at", "line", "name", "ref", "role", "state")

    def __init__(self, ref: str, role: str, name: str, state: str, line: str, at: int) -> None:
        self.ref, self.role, self.name, self.state, self.line, self.at = ref, role, name, state, line, at

    def __repr__(self) -> str:
        return f"[{self.ref}] {self.role} {self.name!r}{self.state}"

    def value(self, word: str = "value") -> str | None:
        """What the state says after `word=` or `word:`, without quotes."""
        found = re.search(rf'\b{word}[=:]? ?("(?:[^"\\]|\\.)*"|\S+)', self.state)
        return unquote(found.group(1)) if found else None


def unquote(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


def elements(text: str) -> list[Element]:
    """Every element of an answer, in its order."""
    found = []
    for match in _ELEMENT.finditer(text):
        rest = (match["rest"] or "").strip()
        name, state = "", ""
        if rest:
            quoted = re.match(r'"(?:[^"\\]|\\.)*"', rest)
            if quoted:
                name, state = unquote(quoted.group()), rest[quoted.end() :].rstrip()
        start = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.end())
        line = text[start : end if end >= 0 else None]
        found.append(Element(match["ref"], match["role"], name, state, line, match.start()))
    return found


class Page:
    """The tools of a worker, as a planner calls them: every method is a call and returns the answer's text.

    `calls`: how many were made; `log`: calls and answers, for a look at what went wrong.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.goal = ""
        self.log: list[tuple[Call, str]] = []
        self._to_worker: queue.Queue[Reply] = queue.Queue(1)
        self._answers: queue.Queue[list[str] | None] = queue.Queue(1)

    # ------------------------------------------------------------ turns

    def turn(self, *calls: Call) -> list[str]:
        """Several calls in one turn: they run in order and stop at the first failure. Returns every answer."""
        self._to_worker.put(
            tools(*((f"browser_{name}", dict(args)) for name, args in calls)), timeout=TURN_SECONDS
        )
        answers = self._answers.get(timeout=TURN_SECONDS)
        if answers is None:
            raise Over
        if len(answers) != len(calls):  # a call whose arguments the schema refuses: the model is told so once
            raise Failed("; ".join(answers[len(calls) :]) or "no answer")
        self.log += zip(calls, answers, strict=True)
        return answers

    def all(self, *calls: Call) -> list[str]:
        """The same, but a failure raises Failed."""
        answers = self.turn(*calls)
        for answer in answers:
            if not answer.startswith("ok"):
                raise Failed(answer)
        return [_MARKS.sub("", answer.partition("\n")[2]).rstrip("\n") for answer in answers]

    def call(self, name: str, /, **args: Any) -> str:
        """One call; raises Failed."""
        return self.all((name, args))[0]

    # ------------------------------------------------------------ tools

    def observe(self, mode: str = "document", **args: Any) -> str:
        """The whole page, following cursors."""
        text = self.call("page_observe", mode=mode, max_chars=24_000, **args)
        while (more := re.search(r"\n… .*: cursor=(\S+)$", text)) is not None:
            further = self.call("page_observe", mode=mode, max_chars=24_000, cursor=more.group(1))
            text = text[: more.start()] + "\n" + further
        return text

    def controls(self) -> list[Element]:
        return elements(self.observe("interactive"))

    def hits(self, query: str, **args: Any) -> list[Element]:
        """What `find` gives, best first."""
        return elements(self.call("page_find", query=query, **args))

    def find(self, query: str, **args: Any) -> Element:
        found = self.hits(query, **args)
        if not found:
            raise LookupError(f"nothing is found for {query!r} {args}")
        return found[0]

    def click(self, ref: str | Element, **args: Any) -> str:
        return self.call("page_click", ref=_ref(ref), **args)

    def press_button(self, name: str, role: str = "button") -> str:
        return self.call("page_click", name=name, role=role)

    def type(self, ref: str | Element, text: str, **args: Any) -> str:
        return self.call("page_type", ref=_ref(ref), text=text, **args)

    def key(self, key: str, ref: str | Element | None = None) -> str:
        return self.call("page_press", key=key, **({} if ref is None else {"ref": _ref(ref)}))

    def extract(self, kind: str = "text", **args: Any) -> str:
        return self.call("page_extract", kind=kind, **args)

    # ------------------------------------------------------------ the endpoint's side

    def next_reply(self) -> Reply:
        return self._to_worker.get(timeout=TURN_SECONDS)

    def answered(self, answers: list[str] | None) -> None:
        self._answers.put(answers, timeout=TURN_SECONDS)

    def conclude(self, summary: str, status: str) -> None:
        self._to_worker.put(finish(summary, status=status), timeout=TURN_SECONDS)


def _ref(element: str | Element) -> str:
    return element if isinstance(element, str) else element.ref


class Running:
    """One planner in its thread. `error`: what ended it early."""

    def __init__(self, url: str, planner: Planner) -> None:
        self.page = Page(url)
        self.error: BaseException | None = None
        self.turns = 0
        self._planner = planner
        self._thread = threading.Thread(target=self._run, daemon=True)

    def answer(self, request: Request) -> Reply:
        if self.turns == 0:
            self.page.goal = request.body["messages"][1]["content"]
            self._thread.start()
        else:
            self.page.answered(
                [
                    message["content"] or ""
                    for message in request.body["messages"]
                    if message["role"] == "tool"
                ]
            )
        self.turns += 1
        return self.page.next_reply()

    def stop(self) -> None:
        """Wake a planner whose task ended."""
        if self._thread.is_alive():
            with contextlib.suppress(queue.Full):  # it has an answer to read, and ends by its next deadline
                self.page.answered(None)
            self._thread.join(1)

    def _run(self) -> None:
        try:
            self._planner(self.page)
        except Over:
            return
        except Exception as error:  # noqa: BLE001 - told in the table, whatever it was
            self.error = error
            self._conclude(f"The planner ended with {type(error).__name__}", "failed")
        else:
            self._conclude("Solved as far as the planner can tell", "completed")

    def _conclude(self, summary: str, status: str) -> None:
        try:
            self.page.conclude(summary, status)
        except queue.Full:
            return  # the task ended meanwhile


class Planners:
    """The endpoint; planners are known by the start URL of their task. A context manager."""

    def __init__(self) -> None:
        self._running: dict[str, Running] = {}
        self._server = OpenAIServer([self._answer])

    @property
    def url(self) -> str:
        return self._server.url

    def __enter__(self) -> Planners:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.__exit__(kind, error, trace)

    def expect(self, url: str, planner: Planner) -> Running:
        """The planner for the task that starts at `url`."""
        self._running[url] = Running(url, planner)
        return self._running[url]

    def _answer(self, request: Request) -> Reply:
        found = _START_URL.search(request.body["messages"][1]["content"])
        running = self._running.get(found.group(1)) if found else None
        if running is None:
            return finish("No planner is known for this task", status="failed")
        try:
            return running.answer(request)
        except queue.Empty:
            return finish("The planner said nothing", status="failed")
        except queue.Full:
            return finish("The planner took no answer", status="failed")


@contextlib.contextmanager
def planned(planners: Planners) -> Iterator[Live]:
    """A supervisor whose model is these planners."""
    with private_place() as place:
        key = place / "key"
        key.touch(mode=0o600)
        key.write_text("no-secret-on-loopback\n")
        model = {
            "model.base_url": planners.url,
            "model.model": "scripted",
            "model.api_key_file": str(key),
        }
        with own_supervisor({**LOOPBACK, **model}, place) as live:
            yield live
