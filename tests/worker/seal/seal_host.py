"""The supervisor's and the bridges' part for a harness worker: two bound routers, targets to attack, one worker at a time.

Run as a program, under the account to be tested: reads a job as JSON from stdin, writes one JSON line per run. A job is
`{"site": folder or "", "worker_uid": number or null, "targets": bool, "runs": [run, ...]}`; a run names the seal's options, the
calls a lesser host refuses, and the orders for the worker. Every wait has a deadline of `PATIENCE_S`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

job = json.load(sys.stdin)
if job["site"]:
    sys.path.insert(0, job["site"])

import msgspec  # noqa: E402 - found only now
import zmq  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE_S = 30
ARRIVAL_S = 0.5  # a loopback connection takes well under a millisecond


def serve(listener: socket.socket) -> None:
    """Answers every connection or datagram until the process ends."""

    def loop() -> None:
        with contextlib.suppress(OSError):  # the peer is gone: a worker was killed while it connected
            while True:
                if listener.type == socket.SOCK_DGRAM:
                    _, sender = listener.recvfrom(64)
                    if sender:
                        listener.sendto(b"here", sender)
                else:
                    connection, _ = listener.accept()
                    with connection:
                        connection.send(b"here")

    threading.Thread(target=loop, daemon=True).start()


def by_path(path: str, kind: int) -> str:
    """A listener at this path that everyone may use."""
    listener = socket.socket(socket.AF_UNIX, kind)
    listener.bind(path)
    os.chmod(path, 0o777)
    if kind == socket.SOCK_STREAM:
        listener.listen()
    serve(listener)
    return path


def by_port(kind: int) -> int:
    """A loopback listener."""
    listener = socket.socket(socket.AF_INET, kind)
    listener.bind(("127.0.0.1", 0))
    if kind == socket.SOCK_STREAM:
        listener.listen()
    serve(listener)
    return int(listener.getsockname()[1])


def write(path: str) -> None:
    """A file worth attacking."""
    with open(path, "w", encoding="ascii") as file:
        file.write("secret")


def make_targets(folder: str, sibling: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Everything the attempts aim at, owned by this account."""
    home, scratch = f"{folder}/home", f"{folder}/scratch"
    for place in (home, scratch, f"{scratch}/mount"):
        os.mkdir(place)
    write(f"{home}/secret")
    write(f"{scratch}/decoy")
    os.chmod(scratch, 0o777)  # so that nothing but the seal stands between a dropped uid and the decoys
    abstract = f"bc-seal-{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{abstract}")
    listener.listen()
    serve(listener)
    with open(f"/proc/{sibling.pid}/maps", encoding="ascii") as maps:
        address = int(maps.readline().split("-")[0], 16)
    return {
        "supervisor": os.getpid(),
        "sibling": sibling.pid,
        "sibling_address": address,
        "home": home,
        "scratch": scratch,
        "runtime": os.__file__,
        "link_path": "",
        "tcp": by_port(socket.SOCK_STREAM),
        "udp": by_port(socket.SOCK_DGRAM),
        "neighbour": by_path(f"{folder}/neighbour", socket.SOCK_STREAM),
        "daemon": by_path(f"{folder}/daemon", socket.SOCK_STREAM),
        "datagram": by_path(f"{folder}/log", socket.SOCK_DGRAM),
        "abstract": abstract,
    }


def statuses(pid: int | str) -> list[str]:
    """The status text of each thread, as the supervisor would read it."""
    texts = []
    for task in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii", errors="replace") as file:
            texts.append(file.read())
    return texts


class Link:
    """A bound router with one peer."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], path: str, uid: int | None) -> None:
        self.socket = context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, PATIENCE_S * 1000)
        self.socket.bind(f"ipc://{path}")
        if uid is not None:
            os.chown(path, uid, uid)
        self.peer = b""

    def receive(self) -> bytes:
        self.peer, body = self.socket.recv_multipart()
        return body

    def send(self, body: bytes) -> None:
        self.socket.send_multipart([self.peer, body])


class Died(Exception):
    """The worker ended before it answered."""


def receive(link: Link, process: subprocess.Popen[bytes]) -> bytes:
    """The next frame; `Died` if the worker ends first."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if link.socket.poll(50):
            return link.receive()
        if process.poll() is not None and not link.socket.poll(0):
            raise Died
    raise TimeoutError("the worker is silent")


def run_one(
    number: int,
    folder: str,
    run: dict[str, Any],
    context: zmq.Context[zmq.Socket[bytes]],
    targets: dict[str, Any] | None,
) -> dict[str, Any]:
    uid = job["worker_uid"] if run["mode"] == "sealed" else None
    root = f"{folder}/{number}"
    os.mkdir(root, 0o700)
    keeper = None if "privileges" in run["off"] else uid  # the folder belongs to whom the worker will be
    page, model = Link(context, f"{root}/page", keeper), Link(context, f"{root}/model", keeper)
    if keeper is not None:
        os.chown(root, keeper, keeper)
    if targets:
        write(
            f"{targets['scratch']}/decoy.sock"
        )  # anew for each run: an attempt that gets through removes it
    orders = {
        "site": job["site"],
        "root": root,
        "ppid": os.getpid() + run["wrong_parent"],
        "uid": uid,
        "targets": {**targets, "link_path": f"{root}/page"} if targets else None,
        **{key: run[key] for key in ("mode", "off", "attack", "threads", "memory", "cpu", "loop")},
    }
    argv = [sys.executable, "-I", f"{HERE}/seal_harness.py", json.dumps(orders)]
    if run["refused"]:
        argv = [
            *(sys.executable, "-I", f"{HERE}/seal_lesser_host.py", job["site"]),
            *(json.dumps(run["refused"]), *argv),
        ]
    process = subprocess.Popen(
        argv,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    result: dict[str, Any] = {"name": run["name"], "answers": [], "booted": False, "cut_off": False}
    try:
        for link in (page, model):
            receive(link, process)
            link.send(b"welcome")
        result.update(msgspec.msgpack.decode(receive(page, process)))
        result["booted"] = True
        result["statuses"] = statuses(process.pid)
        # A process that is not dumpable has its private files in /proc given to root.
        result["private_files_owner"] = os.stat(f"/proc/{process.pid}/environ").st_uid
        if run["hold"]:
            print(json.dumps({"pid": process.pid}), flush=True)
            time.sleep(PATIENCE_S)
        for order in run["orders"]:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                listener.settimeout(ARRIVAL_S)
                page.send(msgspec.msgpack.encode({**order, "port": listener.getsockname()[1]}))
                if order["do"] == "arrive":
                    result["arrived"] = False
                    with contextlib.suppress(TimeoutError):
                        listener.accept()[0].close()
                        result["arrived"] = True
            result["answers"].append(msgspec.msgpack.decode(receive(page, process)))
            if order["do"] == "echo":
                assert receive(model, process) == order["body"].encode()
    except Died:
        result["cut_off"] = True
    finally:
        dying = result["cut_off"] or (run["orders"] and run["orders"][-1]["do"] == "exit")
        if not dying:
            process.kill()
        try:
            output, _ = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        page.socket.close()
        model.socket.close()
    result["exit"] = process.returncode
    result["output"] = output.decode("utf-8", "replace")[-2000:]
    return result


def main() -> None:
    folder = tempfile.mkdtemp(prefix="bcs-")
    os.chmod(folder, 0o711)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    sibling = subprocess.Popen(["sleep", "60"], env={"SIBLING": "secret"}) if job["targets"] else None
    try:
        targets = make_targets(folder, sibling) if sibling else None
        print(json.dumps({"self": statuses("self")[0]}), flush=True)
        for number, run in enumerate(job["runs"]):
            print(json.dumps(run_one(number, folder, run, context, targets)), flush=True)
    finally:
        if sibling:
            sibling.kill()
            sibling.wait()
        shutil.rmtree(folder, ignore_errors=True)  # a control run may have left a file of another kind


main()
