"""Shell of deliveries: grant, open, hand the descriptor to the bridge, publish (design 2, rule 4; design 11).

Invariants: no byte of content is read here; a destination is published only if its size is the granted one; every
delivery ends within TIMEOUT with exactly one `Delivery`; a delivery that succeeded is never made again, it is recognised.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from ..protocol import limits as L
from ..protocol.frames import Deliver, Delivered, DeliveryFailed, Frame
from ..protocol.new_id import new_id
from ..protocol.results import Delivery, ResolvedArtifact
from ..protocol.tools import DeliverRequest
from . import delivery, messages
from .delivery import DirectoryGrant
from .grants import Grant, Grants
from .verdict import Wanted

log = logging.getLogger(__name__)

TIMEOUT: Final = 30.0  # seconds for one file: 64 MiB to a slow disk
Send = Callable[[Frame, Sequence[int]], bool]


class Deliveries:
    """All deliveries of one supervisor. `send`: to the bridge, False if it is not there. `ttl`: seconds a grant lives."""

    def __init__(self, grants: Grants, send: Send, ttl: int) -> None:
        self._grants = grants
        self._send = send
        self._ttl = ttl
        self._open: dict[str, asyncio.Future[Delivered | str]] = {}

    @property
    def under_way(self) -> int:
        return len(self._open)

    def received(self, frame: Frame) -> bool:
        """An answer of the bridge; False if it is about something else. Answers nobody waits for are dropped: they are late."""
        if not isinstance(frame, Delivered | DeliveryFailed):
            return False
        waiting = self._open.get(frame.delivery)
        if waiting is not None and not waiting.done():
            waiting.set_result(frame if isinstance(frame, Delivered) else frame.problem.value)
        return True

    def bridge_lost(self) -> None:
        """Every delivery under way fails."""
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_result("bridge-lost")

    async def after_task(
        self, task: str, session: str, items: Sequence[Wanted], directory: DirectoryGrant | None
    ) -> tuple[Delivery, ...]:
        """Grant every artifact of a task to its session and deliver those with a path, in order."""
        done = []
        with contextlib.suppress(sqlite3.Error):  # told below, by the grants themselves
            self._grants.expire(int(time.time()))
        for item in items:
            grant = self._grant(task, session, item, directory)
            try:
                self._grants.add(grant)
            except sqlite3.Error as error:
                log.error("a grant can't be written: %s", type(error).__name__)
                if item.path:
                    done.append(_failed(item.artifact, item.path, "grants-unavailable"))
                continue
            if item.path:
                done.append(await self._deliver(grant, item.path, directory))
        return tuple(done)

    async def again(
        self, request: DeliverRequest, session: str, directory: DirectoryGrant | None
    ) -> tuple[Delivery, ...]:
        """`browser_artifact_deliver`: retries for granted artifacts of this session."""
        done = []
        for item in request.items:
            try:
                grant = self._grants.find(item.artifact_id, session, int(time.time()))
            except sqlite3.Error as error:
                log.error("the grants can't be read: %s", type(error).__name__)
                done.append(_unknown(item.artifact_id, item.path, "grants-unavailable"))
                continue
            if grant is None:
                done.append(_unknown(item.artifact_id, item.path, "unknown-grant"))
                continue
            path = item.path or grant.path
            if not path:
                done.append(_failed(grant.artifact, "", "no-path"))
            else:
                done.append(await self._deliver(grant, path, directory))
        return tuple(done)

    def _grant(self, task: str, session: str, item: Wanted, directory: DirectoryGrant | None) -> Grant:
        expires = int(time.time()) + self._ttl
        if directory is None:
            return Grant(item.artifact, session, task, expires, item.path)
        return Grant(
            item.artifact,
            session,
            task,
            expires,
            item.path,
            directory.path,
            directory.device,
            directory.inode,
        )

    async def _deliver(self, grant: Grant, path: str, directory: DirectoryGrant | None) -> Delivery:
        code = "no-directory"
        if directory is not None:
            try:
                return await self._attempt(grant, path, directory)
            except delivery.Refusal as refusal:
                code = refusal.code
            except (
                sqlite3.Error
            ) as error:  # delivered, but not recorded: the next attempt says that the file exists
                log.error("a delivery can't be recorded: %s", type(error).__name__)
                code = "grants-unavailable"
        try:
            self._grants.failed(grant.artifact.artifact_id, code)
        except sqlite3.Error as error:
            log.error("a failed delivery can't be recorded: %s", type(error).__name__)
        return _failed(grant.artifact, path, code)

    async def _attempt(self, grant: Grant, path: str, directory: DirectoryGrant) -> Delivery:
        artifact = grant.artifact
        if grant.directory and (grant.device, grant.inode) != (directory.device, directory.inode):
            raise delivery.Refusal("directory-changed")
        if (
            grant.state == "delivered"
            and grant.path == path
            and delivery.is_delivered(directory, path, grant.file_device, grant.file_inode, artifact.size)
        ):
            return _delivered(artifact, path)
        token = new_id("d")
        destination = delivery.open_destination(directory, path, token)
        try:
            answer = await self._ask(token, artifact, destination.fd)
            if isinstance(answer, str):
                raise delivery.Refusal(answer)
            if answer.size != artifact.size or answer.sha256 != artifact.sha256:
                raise delivery.Refusal("size-mismatch")
            device, inode = destination.publish(artifact.size)
        finally:
            destination.abort()
        self._grants.delivered(artifact.artifact_id, path, device, inode)
        return _delivered(artifact, path)

    async def _ask(self, token: str, artifact: ResolvedArtifact, descriptor: int) -> Delivered | str:
        waiting: asyncio.Future[Delivered | str] = asyncio.get_running_loop().create_future()
        self._open[token] = waiting
        try:
            if not self._send(Deliver(token, artifact.artifact_id, artifact.size), (descriptor,)):
                return "bridge-lost"
            return await asyncio.wait_for(waiting, TIMEOUT)
        except TimeoutError:
            return "timeout"
        finally:
            del self._open[token]


def _delivered(artifact: ResolvedArtifact, path: str) -> Delivery:
    return Delivery(artifact.artifact_id, artifact.purpose, path, True, artifact.size, artifact.sha256)


def _failed(artifact: ResolvedArtifact, path: str, code: str) -> Delivery:
    return msgspec.structs.replace(_unknown(artifact.artifact_id, path, code), purpose=artifact.purpose)


def _unknown(artifact_id: str, path: str | None, code: str) -> Delivery:
    sentence = messages.DELIVERIES[code]
    text = f"{sentence.happened}. {sentence.next_step}" if sentence.next_step else f"{sentence.happened}."
    return Delivery(artifact_id, "", (path or "")[: L.MAX_PATH_CHARS], False, code=code, message=text)
