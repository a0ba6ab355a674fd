"""Attempts to reach what is outside the process: files, other processes, networks and sockets."""

# ruff: noqa: ARG001, ARG005 - every attempt takes the targets

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct

from .seal_targets import (
    AT_FDCWD,
    Attempt,
    Targets,
    close,
    create,
    data,
    raw,
    read,
    text,
)

# ---------------------------------------------------------------- files


def stat_by_empty_path(t: Targets) -> None:
    at_empty_path = 0x1000
    raw(262, AT_FDCWD, text(f"{t.home}/secret"), ctypes.create_string_buffer(256), at_empty_path)


def openat2(t: Targets) -> None:
    close(raw(437, AT_FDCWD, text(f"{t.home}/secret"), data(bytes(24)), 24))


def name_to_handle(t: Targets) -> None:
    raw(303, AT_FDCWD, text("/"), data(struct.pack("Ii", 128, 0) + bytes(128)), data(bytes(8)), 0)


def mknod_device(t: Targets) -> None:
    path = f"{t.scratch}/device"
    os.mknod(path, 0o020600, os.makedev(1, 1))
    os.unlink(path)


def rename_decoy(t: Targets) -> None:
    os.rename(f"{t.scratch}/decoy", f"{t.scratch}/decoy2")
    os.rename(f"{t.scratch}/decoy2", f"{t.scratch}/decoy")


def link_secret(t: Targets) -> None:
    os.link(f"{t.home}/secret", f"{t.scratch}/link-{os.getpid()}")


def symlink(t: Targets) -> None:
    os.symlink("/etc", f"{t.scratch}/symlink-{os.getpid()}")


def inotify(t: Targets) -> None:
    descriptor = raw(294, 0)
    try:
        raw(254, descriptor, text(t.home), 2)
    finally:
        close(descriptor)


def fanotify(t: Targets) -> None:
    close(raw(300, 0, 0))


def write_shared_memory(t: Targets) -> None:
    path = f"/dev/shm/bc-seal-{t.supervisor}"
    create(path)
    os.unlink(path)


FILES = (
    Attempt("files.read-passwd", "reads a system file", lambda t: read("/etc/passwd")),
    Attempt("files.read-secret", "reads the user's file", lambda t: read(f"{t.home}/secret")),
    Attempt("files.list-home", "lists a folder", lambda t: str(len(os.listdir(t.home)))),
    Attempt("files.list-root", "lists /", lambda t: str(len(os.listdir("/usr")))),
    Attempt("files.stat-secret", "learns that a file exists", lambda t: str(os.stat(f"{t.home}/secret").st_size)),
    Attempt("files.stat-empty-path", "resolves a path through AT_EMPTY_PATH", stat_by_empty_path),
    Attempt("files.statx", "stats by the newer call", lambda t: raw(332, AT_FDCWD, text(t.home), 0, 0xFFF, data(bytes(256)))),
    Attempt("files.access", "probes a path", lambda t: raw(21, text(t.home), 0)),
    Attempt("files.readlink", "reads a link", lambda t: os.readlink("/proc/self/exe")),
    Attempt("files.open-path", "gets a path handle", lambda t: close(os.open(t.home, os.O_PATH))),
    Attempt("files.openat2", "opens by the newer call", openat2),
    Attempt("files.name-to-handle", "gets a file handle", name_to_handle),
    Attempt("files.read-runtime", "reads the interpreter's library", lambda t: read(t.runtime)),
    Attempt("files.write-tmp", "creates a file", lambda t: create(f"{t.scratch}/new-{os.getpid()}")),
    Attempt("files.write-shm", "creates shared memory", write_shared_memory),
    Attempt("files.mkdir", "creates a folder", lambda t: os.mkdir(f"{t.scratch}/folder-{os.getpid()}")),
    Attempt("files.truncate", "empties a file by path", lambda t: os.truncate(f"{t.scratch}/decoy", 0)),
    Attempt("files.chmod", "changes a mode", lambda t: os.chmod(f"{t.scratch}/decoy", 0o644)),
    Attempt("files.chown", "changes an owner", lambda t: os.chown(f"{t.scratch}/decoy", os.getuid(), -1)),
    Attempt("files.utime", "changes times", lambda t: os.utime(f"{t.scratch}/decoy")),
    Attempt("files.rename", "renames", rename_decoy),
    Attempt("files.link", "makes a hard link to the secret", link_secret),
    Attempt("files.symlink", "makes a symbolic link", symlink),
    Attempt("files.unlink-socket", "removes a neighbour's socket", lambda t: os.unlink(f"{t.scratch}/decoy.sock")),
    Attempt("files.mknod", "makes a device", mknod_device),
    Attempt("files.chdir", "changes the working directory", lambda t: os.chdir(t.home)),
    Attempt("files.inotify", "watches a folder", inotify),
    Attempt("files.fanotify", "watches the file system", fanotify),
)  # fmt: skip

# ---------------------------------------------------------------- other processes


def ptrace_sibling(t: Targets) -> None:
    attach, detach, wall = 16, 17, 0x4000_0000
    raw(101, attach, t.sibling, 0, 0)
    os.waitpid(t.sibling, wall)
    raw(101, detach, t.sibling, 0, 0)


def read_sibling_memory(t: Targets) -> None:
    page = ctypes.create_string_buffer(16)
    here = data(struct.pack("QQ", ctypes.addressof(page), 16))
    there = data(struct.pack("QQ", t.sibling_address, 16))
    raw(310, t.sibling, here, 1, there, 1, 0)


def write_sibling_memory(t: Targets) -> None:
    page = ctypes.create_string_buffer(16)
    here = data(struct.pack("QQ", ctypes.addressof(page), 0))
    there = data(struct.pack("QQ", t.sibling_address, 0))
    raw(311, t.sibling, here, 1, there, 1, 0)


def steal_descriptor(t: Targets) -> None:
    pidfd = raw(434, t.sibling, 0)
    try:
        close(raw(438, pidfd, 0, 0))
    finally:
        close(pidfd)


def advise_sibling(t: Targets) -> None:
    madv_cold = 20
    pidfd = raw(434, t.sibling, 0)
    try:
        raw(440, pidfd, data(struct.pack("QQ", t.sibling_address, 4096)), 1, madv_cold, 0)
    finally:
        close(pidfd)


def queue_signal(t: Targets) -> None:
    si_queue = -1
    raw(129, t.sibling, 0, data(struct.pack("iii", 0, 0, si_queue) + bytes(116)))


def pidfd_signal(t: Targets) -> None:
    pidfd = raw(434, t.supervisor, 0)
    try:
        raw(424, pidfd, 0, None, 0)
    finally:
        close(pidfd)


def own_signal_target(t: Targets) -> None:
    fcntl.fcntl(0, fcntl.F_SETOWN, t.supervisor)


def seize_supervisor(t: Targets) -> None:
    # In the control this runs in a child, whose end detaches it again.
    raw(101, 0x4206, t.supervisor, 0, 0)


PROCESSES = (
    Attempt("processes.list", "lists processes", lambda t: str(sum(n.isdigit() for n in os.listdir("/proc")))),
    Attempt("processes.supervisor-cmdline", "reads the supervisor's arguments", lambda t: read(f"/proc/{t.supervisor}/cmdline")),
    Attempt("processes.supervisor-environ", "reads its environment", lambda t: read(f"/proc/{t.supervisor}/environ")),
    Attempt("processes.supervisor-fds", "lists its descriptors", lambda t: str(len(os.listdir(f"/proc/{t.supervisor}/fd")))),
    Attempt("processes.supervisor-memory", "opens its memory", lambda t: close(os.open(f"/proc/{t.supervisor}/mem", os.O_RDWR))),
    Attempt("processes.supervisor-root", "walks its root", lambda t: str(len(os.listdir(f"/proc/{t.supervisor}/root")))),
    Attempt("processes.sibling-environ", "reads a sibling's environment", lambda t: read(f"/proc/{t.sibling}/environ")),
    Attempt("processes.sibling-memory", "opens a sibling's memory", lambda t: close(os.open(f"/proc/{t.sibling}/mem", os.O_RDONLY))),
    Attempt("processes.own-memory", "writes own code through /proc", lambda t: close(os.open("/proc/self/mem", os.O_RDWR))),
    Attempt("processes.ptrace-sibling", "traces a sibling", ptrace_sibling),
    Attempt("processes.seize-supervisor", "traces the supervisor", seize_supervisor),
    Attempt("processes.read-sibling", "reads a sibling's memory", read_sibling_memory),
    Attempt("processes.write-sibling", "writes a sibling's memory", write_sibling_memory),
    Attempt("processes.steal-descriptor", "takes a sibling's descriptor", steal_descriptor),
    Attempt("processes.compare", "compares kernel objects", lambda t: raw(312, os.getpid(), t.sibling, 0, 0, 0)),
    Attempt("processes.madvise", "advises away a sibling's pages", advise_sibling),
    Attempt("signals.probe-supervisor", "signals the supervisor", lambda t: os.kill(t.supervisor, 0)),
    Attempt("signals.continue-supervisor", "signals the supervisor", lambda t: os.kill(t.supervisor, signal.SIGCONT)),
    Attempt("signals.continue-sibling", "signals a sibling", lambda t: os.kill(t.sibling, signal.SIGCONT)),
    Attempt("signals.everyone", "signals all it may", lambda t: os.kill(-1, 0)),
    Attempt("signals.own-group", "signals its group", lambda t: os.kill(0, 0)),
    Attempt("signals.thread-of-sibling", "signals a sibling's thread", lambda t: raw(234, t.sibling, t.sibling, 0)),
    Attempt("signals.tkill", "signals a thread by the old call", lambda t: raw(200, t.sibling, 0)),
    Attempt("signals.queue", "queues a signal with data", queue_signal),
    Attempt("signals.pidfd-open", "gets a handle on the supervisor", lambda t: close(raw(434, t.supervisor, 0))),
    Attempt("signals.pidfd-send", "signals through a handle", pidfd_signal),
    Attempt("signals.owner-of-descriptor", "makes the kernel signal the supervisor", own_signal_target),
    Attempt("control.limits-of-supervisor", "reads or sets the supervisor's limits", lambda t: raw(302, t.supervisor, 7, None, data(bytes(16)))),
    Attempt("control.priority-of-sibling", "renices a sibling", lambda t: os.setpriority(os.PRIO_PROCESS, t.sibling, 5)),
    Attempt("control.affinity-of-sibling", "moves a sibling", lambda t: raw(203, t.sibling, 8, data(struct.pack("Q", 1)))),
    Attempt("control.io-priority-of-sibling", "changes its disk priority", lambda t: raw(251, 1, t.sibling, 3 << 13)),
    Attempt("control.scheduler-of-sibling", "changes its scheduler", lambda t: raw(144, t.sibling, 3, data(bytes(4)))),
)  # fmt: skip

# ---------------------------------------------------------------- network


def _answer(family: int, kind: int, address: str | tuple[str, int]) -> str:
    """Connects and waits for the listener's word."""
    with socket.socket(family, kind) as connection:
        connection.settimeout(1)
        connection.connect(address)
        return f"{len(connection.recv(8))} bytes"


def ping_udp(t: Targets) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(1)
        sender.sendto(b"x", ("127.0.0.1", t.udp))
        return f"{len(sender.recv(8))} bytes"


def listen_tcp(t: Targets) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()


def _any_socket(family: int, kind: int, protocol: int = 0) -> None:
    close(raw(41, family, kind, protocol))


def datagram_by_path(t: Targets) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", t.datagram)


def datagram_from_pair(t: Targets) -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.sendto(b"x", t.datagram)


def pass_descriptor(t: Targets) -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", 0))])


def receive_message(t: Targets) -> None:
    one, other = socket.socketpair()
    with one, other:
        other.send(b"x")
        one.recvmsg(1)


NETWORK = (
    Attempt("network.tcp-loopback", "reaches a local service", lambda t: _answer(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", t.tcp))),
    Attempt("network.udp-loopback", "reaches a local service", ping_udp),
    Attempt("network.tcp-listen", "offers a service", listen_tcp),
    Attempt("network.tcp6", "gets an IPv6 socket", lambda t: _any_socket(socket.AF_INET6, socket.SOCK_STREAM)),
    Attempt("network.raw", "gets a raw socket", lambda t: _any_socket(socket.AF_INET, socket.SOCK_RAW, 1)),
    Attempt("network.packet", "gets a packet socket", lambda t: _any_socket(17, socket.SOCK_RAW)),
    Attempt("network.netlink", "talks to the kernel's network", lambda t: _any_socket(16, socket.SOCK_RAW)),
    Attempt("network.vsock", "reaches the hypervisor's host", lambda t: _any_socket(40, socket.SOCK_STREAM)),
    Attempt("network.crypto", "reaches the kernel's crypto", lambda t: _any_socket(38, socket.SOCK_SEQPACKET)),
    Attempt("unix.neighbour", "reaches another worker's socket", lambda t: _answer(socket.AF_UNIX, socket.SOCK_STREAM, t.neighbour)),
    Attempt("unix.daemon", "reaches a daemon by path", lambda t: _answer(socket.AF_UNIX, socket.SOCK_STREAM, t.daemon)),
    Attempt("unix.abstract", "reaches an abstract socket", lambda t: _answer(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{t.abstract}")),
    Attempt("unix.datagram", "sends to a log socket", datagram_by_path),
    Attempt("unix.datagram-from-pair", "sends by path without socket()", datagram_from_pair),
    Attempt("unix.second-link", "opens a second link to a bridge", lambda t: _answer(socket.AF_UNIX, socket.SOCK_STREAM, t.link_path)),
    Attempt("unix.pass-descriptor", "sends a descriptor", pass_descriptor),
    Attempt("unix.receive-message", "could receive a descriptor", receive_message),
)  # fmt: skip
