"""The escape list: what hostile code in a worker would try, as data.

Each attempt is a function of the targets that a real host prepared (`seal_host.py`). It returns a short note when it got
through and raises `OSError` or `MemoryError` when it was stopped. Every attempt is harmless to the machine and bounded:
writes go to decoys, signals are 0 or SIGCONT, what is opened is closed.

An attempt proves something only where it succeeds without a seal on the same account; the tests run that control and count
the others as vacuous, never as passed. `harmless` marks the ones a sealed worker may succeed at.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
Buffer = ctypes.Array[ctypes.c_char]

_MiB = 1 << 20
_AT_FDCWD = -100


class Targets(msgspec.Struct, frozen=True):
    """What the host put up for the attempts: own pid, a sibling process, listeners that answer, decoy files."""

    supervisor: int
    sibling: int
    sibling_address: int  # a readable page of the sibling
    home: str  # holds `secret`
    scratch: str  # holds `decoy`, `decoy.sock` and the folder `mount`; writable
    runtime: str  # a file of the interpreter's library
    link_path: str  # the worker's own page socket, as the host sees it
    tcp: int
    udp: int
    neighbour: str  # a stream socket of another worker, by path
    daemon: str  # a stream socket of some daemon, by path
    datagram: str  # a datagram socket by path
    abstract: str


class Attempt(NamedTuple):
    """`family.name`, what a success would prove, how to try it, and whether a success is harmless."""

    name: str
    proves: str
    run: Callable[[Targets], str | None]
    harmless: bool = False


def raw(number: int, *arguments: int | Buffer | None) -> int:
    """One x86-64 system call; raises OSError. Buffers stay referenced during the call."""
    result = int(
        _libc.syscall(
            ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
        )
    )
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def text(value: str) -> Buffer:
    """A C string."""
    return ctypes.create_string_buffer(os.fsencode(value))


def data(value: bytes) -> Buffer:
    """A buffer with this content."""
    return ctypes.create_string_buffer(value, len(value))


def _close(descriptor: int) -> None:
    os.close(descriptor)


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return f"{len(os.read(descriptor, 64))} bytes"
    finally:
        os.close(descriptor)


def _create(path: str) -> None:
    _close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def _child(action: Callable[[], None]) -> None:
    """Runs `action` in a forked child and raises what it raised."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        raise OSError(status if status > 0 else errno.EPERM, "in the child")


# ---------------------------------------------------------------- files


def stat_by_empty_path(t: Targets) -> None:
    at_empty_path = 0x1000
    raw(262, _AT_FDCWD, text(f"{t.home}/secret"), ctypes.create_string_buffer(256), at_empty_path)


def openat2(t: Targets) -> None:
    _close(raw(437, _AT_FDCWD, text(f"{t.home}/secret"), data(bytes(24)), 24))


def name_to_handle(t: Targets) -> None:
    raw(303, _AT_FDCWD, text("/"), data(struct.pack("Ii", 128, 0) + bytes(128)), data(bytes(8)), 0)


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
        _close(descriptor)


def fanotify(t: Targets) -> None:
    _close(raw(300, 0, 0))


FILES = (
    Attempt("files.read-passwd", "reads a system file", lambda t: _read("/etc/passwd")),
    Attempt("files.read-secret", "reads the user's file", lambda t: _read(f"{t.home}/secret")),
    Attempt("files.list-home", "lists a folder", lambda t: str(len(os.listdir(t.home)))),
    Attempt("files.list-root", "lists /", lambda t: str(len(os.listdir("/usr")))),
    Attempt("files.stat-secret", "learns that a file exists", lambda t: str(os.stat(f"{t.home}/secret").st_size)),
    Attempt("files.stat-empty-path", "resolves a path through AT_EMPTY_PATH", stat_by_empty_path),
    Attempt("files.statx", "stats by the newer call", lambda t: raw(332, _AT_FDCWD, text(t.home), 0, 0xFFF, data(bytes(256))) and None),
    Attempt("files.access", "probes a path", lambda t: raw(21, text(t.home), 0) and None),
    Attempt("files.readlink", "reads a link", lambda t: os.readlink("/proc/self/exe")),
    Attempt("files.open-path", "gets a path handle", lambda t: _close(os.open(t.home, os.O_PATH))),
    Attempt("files.openat2", "opens by the newer call", openat2),
    Attempt("files.name-to-handle", "gets a file handle", name_to_handle),
    Attempt("files.read-runtime", "reads the interpreter's library", lambda t: _read(t.runtime)),
    Attempt("files.write-tmp", "creates a file", lambda t: _create(f"{t.scratch}/new-{os.getpid()}")),
    Attempt("files.write-shm", "creates shared memory", lambda t: (_create(f"/dev/shm/bc-seal-{t.supervisor}"), os.unlink(f"/dev/shm/bc-seal-{t.supervisor}")) and None),
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
        _close(raw(438, pidfd, 0, 0))
    finally:
        _close(pidfd)


def advise_sibling(t: Targets) -> None:
    madv_cold = 20
    pidfd = raw(434, t.sibling, 0)
    try:
        raw(440, pidfd, data(struct.pack("QQ", t.sibling_address, 4096)), 1, madv_cold, 0)
    finally:
        _close(pidfd)


def queue_signal(t: Targets) -> None:
    si_queue = -1
    raw(129, t.sibling, 0, data(struct.pack("iii", 0, 0, si_queue) + bytes(116)))


def pidfd_signal(t: Targets) -> None:
    pidfd = raw(434, t.supervisor, 0)
    try:
        raw(424, pidfd, 0, None, 0)
    finally:
        _close(pidfd)


def own_signal_target(t: Targets) -> None:
    fcntl.fcntl(0, fcntl.F_SETOWN, t.supervisor)


def seize_supervisor(t: Targets) -> None:
    # In the control this runs in a child, whose end detaches it again.
    raw(101, 0x4206, t.supervisor, 0, 0)


PROCESSES = (
    Attempt("processes.list", "lists processes", lambda t: str(sum(n.isdigit() for n in os.listdir("/proc")))),
    Attempt("processes.supervisor-cmdline", "reads the supervisor's arguments", lambda t: _read(f"/proc/{t.supervisor}/cmdline")),
    Attempt("processes.supervisor-environ", "reads its environment", lambda t: _read(f"/proc/{t.supervisor}/environ")),
    Attempt("processes.supervisor-fds", "lists its descriptors", lambda t: str(len(os.listdir(f"/proc/{t.supervisor}/fd")))),
    Attempt("processes.supervisor-memory", "opens its memory", lambda t: _close(os.open(f"/proc/{t.supervisor}/mem", os.O_RDWR))),
    Attempt("processes.supervisor-root", "walks its root", lambda t: str(len(os.listdir(f"/proc/{t.supervisor}/root")))),
    Attempt("processes.sibling-environ", "reads a sibling's environment", lambda t: _read(f"/proc/{t.sibling}/environ")),
    Attempt("processes.sibling-memory", "opens a sibling's memory", lambda t: _close(os.open(f"/proc/{t.sibling}/mem", os.O_RDONLY))),
    Attempt("processes.own-memory", "writes own code through /proc", lambda t: _close(os.open("/proc/self/mem", os.O_RDWR))),
    Attempt("processes.ptrace-sibling", "traces a sibling", ptrace_sibling),
    Attempt("processes.seize-supervisor", "traces the supervisor", seize_supervisor),
    Attempt("processes.read-sibling", "reads a sibling's memory", read_sibling_memory),
    Attempt("processes.write-sibling", "writes a sibling's memory", write_sibling_memory),
    Attempt("processes.steal-descriptor", "takes a sibling's descriptor", steal_descriptor),
    Attempt("processes.compare", "compares kernel objects", lambda t: raw(312, os.getpid(), t.sibling, 0, 0, 0) and None),
    Attempt("processes.madvise", "advises away a sibling's pages", advise_sibling),
    Attempt("signals.probe-supervisor", "signals the supervisor", lambda t: os.kill(t.supervisor, 0)),
    Attempt("signals.continue-supervisor", "signals the supervisor", lambda t: os.kill(t.supervisor, signal.SIGCONT)),
    Attempt("signals.continue-sibling", "signals a sibling", lambda t: os.kill(t.sibling, signal.SIGCONT)),
    Attempt("signals.everyone", "signals all it may", lambda t: os.kill(-1, 0)),
    Attempt("signals.own-group", "signals its group", lambda t: os.kill(0, 0)),
    Attempt("signals.thread-of-sibling", "signals a sibling's thread", lambda t: raw(234, t.sibling, t.sibling, 0) and None),
    Attempt("signals.tkill", "signals a thread by the old call", lambda t: raw(200, t.sibling, 0) and None),
    Attempt("signals.queue", "queues a signal with data", queue_signal),
    Attempt("signals.pidfd-open", "gets a handle on the supervisor", lambda t: _close(raw(434, t.supervisor, 0))),
    Attempt("signals.pidfd-send", "signals through a handle", pidfd_signal),
    Attempt("signals.owner-of-descriptor", "makes the kernel signal the supervisor", own_signal_target),
    Attempt("control.limits-of-supervisor", "reads or sets the supervisor's limits", lambda t: raw(302, t.supervisor, 7, None, data(bytes(16))) and None),
    Attempt("control.priority-of-sibling", "renices a sibling", lambda t: os.setpriority(os.PRIO_PROCESS, t.sibling, 5)),
    Attempt("control.affinity-of-sibling", "moves a sibling", lambda t: raw(203, t.sibling, 8, data(struct.pack("Q", 1))) and None),
    Attempt("control.io-priority-of-sibling", "changes its disk priority", lambda t: raw(251, 1, t.sibling, 3 << 13) and None),
    Attempt("control.scheduler-of-sibling", "changes its scheduler", lambda t: raw(144, t.sibling, 3, data(bytes(4))) and None),
)  # fmt: skip

# ---------------------------------------------------------------- network


def _answer(family: int, kind: int, address: object) -> str:
    """Connects and waits for the listener's word."""
    with socket.socket(family, kind) as connection:
        connection.settimeout(1)
        connection.connect(address)  # type: ignore[arg-type]
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
    _close(raw(41, family, kind, protocol))


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

# ---------------------------------------------------------------- execution


def run_shell(t: Targets) -> None:
    _child(lambda: os.execv("/bin/sh", ["sh", "-c", "exit 0"]))


def exec_here(t: Targets) -> None:
    # A missing program: with exec allowed the kernel looks for it; the seal answers before.
    try:
        os.execv("/nonexistent", ["x"])
    except FileNotFoundError:
        return


def exec_descriptor(t: Targets) -> None:
    try:
        raw(322, -1, text(""), None, None, 0x1000)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise


def _raw_fork(number: int, *arguments: int | Buffer) -> None:
    pid = raw(number, *arguments)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def clone3_process(t: Targets) -> None:
    _raw_fork(435, data(struct.pack("8Q", 0, 0, 0, 0, int(signal.SIGCHLD), 0, 0, 0)), 64)


def fork_bomb(t: Targets) -> str:
    children: list[int] = []
    try:
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                time.sleep(5)
                os._exit(0)
            children.append(pid)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return f"{len(children)} processes"


def executable_page(t: Targets) -> None:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()


def make_executable(t: Targets) -> None:
    page = mmap.mmap(-1, 4096)
    view = ctypes.c_char.from_buffer(page)
    try:
        raw(10, ctypes.addressof(view), 4096, mmap.PROT_READ | mmap.PROT_EXEC)
    finally:
        del view
        page.close()


def make_executable_by_key(t: Targets) -> None:
    page = mmap.mmap(-1, 4096)
    view = ctypes.c_char.from_buffer(page)
    try:
        raw(329, ctypes.addressof(view), 4096, mmap.PROT_READ | mmap.PROT_EXEC, -1)
    finally:
        del view
        page.close()


def load_library(t: Targets) -> None:
    ctypes.CDLL("libresolv.so.2")  # part of glibc; the interpreter has no use for it, so it is not loaded yet


EXECUTION = (
    Attempt("execution.shell", "runs a program", run_shell),
    Attempt("execution.exec", "replaces itself", exec_here),
    Attempt("execution.exec-descriptor", "runs a program from a descriptor", exec_descriptor),
    Attempt("execution.fork", "makes a process", lambda t: _raw_fork(57)),
    Attempt("execution.vfork-flags", "makes a process that shares memory", lambda t: _raw_fork(56, int(signal.SIGCHLD) | 0x200, 0, 0, 0, 0)),
    Attempt("execution.clone3", "makes a process by the newer call", clone3_process),
    Attempt("execution.fork-bomb", "makes many processes", fork_bomb),
    Attempt("execution.library", "loads a library", load_library),
    Attempt("execution.rwx-page", "maps code it can write", executable_page),
    Attempt("execution.mprotect", "turns data into code", make_executable),
    Attempt("execution.pkey-mprotect", "turns data into code by the newer call", make_executable_by_key),
)  # fmt: skip

# ---------------------------------------------------------------- resources


def threads(t: Targets) -> str:
    asked = 200
    go = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(asked):
            thread = threading.Thread(target=go.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError:
        if not started:
            raise OSError(errno.EAGAIN, "no thread") from None
    finally:
        go.set()
        for thread in started:
            thread.join(5)
    return f"{len(started)} threads"


def map_four_gib(t: Targets) -> None:
    area = mmap.mmap(-1, 4 << 30)
    area[0] = 1
    area.close()


def file_in_memory(t: Targets) -> str:
    descriptor = raw(319, text("x"), 0)
    try:
        return f"{sum(os.write(descriptor, bytes(_MiB)) for _ in range(64)) // _MiB} MiB"
    finally:
        _close(descriptor)


def many_descriptors(t: Targets) -> str:
    asked, held = 500, []
    try:
        for _ in range(asked):
            held.append(raw(290, 0, 0))
    finally:
        for descriptor in held:
            _close(descriptor)
    return f"{len(held)} descriptors"


def raise_descriptors(t: Targets) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    raw(302, 0, resource.RLIMIT_NOFILE, data(struct.pack("QQ", hard, hard)), None)


def shared_segment(t: Targets) -> None:
    ipc_private, ipc_rmid = 0, 0
    raw(31, raw(29, ipc_private, _MiB, 0o1600), ipc_rmid, None)


def semaphore(t: Targets) -> None:
    ipc_rmid = 0
    raw(66, raw(64, 0, 1, 0o1600), 0, ipc_rmid, 0)


def message_queue(t: Targets) -> None:
    ipc_rmid = 0
    raw(71, raw(68, 0, 0o1600), ipc_rmid, None)


def posix_queue(t: Targets) -> None:
    name = text(f"bc-seal-{t.supervisor}")
    _close(raw(240, name, os.O_CREAT | os.O_RDWR, 0o600, None))
    raw(241, name)


def realtime(t: Targets) -> None:
    sched_fifo = 1
    raw(144, 0, sched_fifo, data(struct.pack("i", 1)))


RESOURCES = (
    Attempt("resources.threads", "starts threads without end", threads, harmless=True),
    Attempt("resources.map-4-gib", "maps 4 GiB", map_four_gib),
    Attempt("resources.heap-900-mib", "allocates 900 MiB", lambda t: str(len(bytearray(900 * _MiB)))),
    Attempt("resources.memory-file", "fills memory outside the address space", file_in_memory),
    Attempt("resources.secret-memory", "pins memory", lambda t: _close(raw(447, 0))),
    Attempt("resources.descriptors", "opens descriptors without end", many_descriptors),
    Attempt("resources.duplicate", "copies a descriptor", lambda t: _close(os.dup(0))),
    Attempt("resources.pipe", "makes a pipe", lambda t: [_close(fd) for fd in os.pipe()] and None),
    Attempt("resources.timer", "makes a timer", lambda t: _close(raw(283, 1, 0))),
    Attempt("resources.epoll", "makes an event queue", lambda t: _close(raw(291, 0))),
    Attempt("resources.raise-descriptors", "raises its limit", raise_descriptors),
    Attempt("resources.lock-memory", "locks memory", lambda t: raw(151, 1) and None),
    Attempt("resources.shared-segment", "makes SysV memory", shared_segment),
    Attempt("resources.semaphore", "makes a SysV semaphore", semaphore),
    Attempt("resources.message-queue", "makes a SysV queue", message_queue),
    Attempt("resources.posix-queue", "makes a POSIX queue", posix_queue),
    Attempt("resources.realtime", "takes the processor for itself", realtime),
)  # fmt: skip

# ---------------------------------------------------------------- kernel surface


def mount(t: Targets) -> None:
    place = text(f"{t.scratch}/mount")
    raw(165, text("none"), place, text("tmpfs"), 0, None)
    raw(166, place, 2)


def bpf_map(t: Targets) -> None:
    array = 2
    _close(raw(321, 0, data(struct.pack("IIII", array, 4, 4, 1) + bytes(112)), 128))


def perf(t: Targets) -> None:
    exclude_kernel_and_hypervisor = 1 | 1 << 5 | 1 << 6
    attributes = struct.pack("IIQ", 1, 128, 0) + bytes(24) + struct.pack("Q", exclude_kernel_and_hypervisor)
    _close(raw(298, data(attributes + bytes(128 - len(attributes))), 0, -1, -1, 0))


def join_namespace(t: Targets) -> None:
    try:
        raw(308, -1, 0)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise


def same_host_name(t: Targets) -> None:
    name = os.uname().nodename
    raw(170, text(name), len(name))


KERNEL = (
    Attempt("kernel.mount", "mounts", mount),
    Attempt("kernel.fsopen", "mounts by the newer call", lambda t: _close(raw(430, text("tmpfs"), 0))),
    Attempt("kernel.open-tree", "copies a mount", lambda t: _close(raw(428, _AT_FDCWD, text("/"), 0))),
    Attempt("kernel.unshare-user-child", "gets capabilities in a child", lambda t: _child(lambda: raw(272, 0x1000_0000) and None)),
    Attempt("kernel.unshare-user", "gets capabilities", lambda t: raw(272, 0x1000_0000) and None),
    Attempt("kernel.unshare-net", "makes a network", lambda t: raw(272, 0x4000_0000) and None),
    Attempt("kernel.setns", "joins a namespace", join_namespace),
    Attempt("kernel.chroot", "changes its root", lambda t: os.chroot("/")),
    Attempt("kernel.keyring", "uses the kernel's keys", lambda t: raw(250, 0, -3, 1) and None),
    Attempt("kernel.add-key", "stores a key", lambda t: raw(248, text("user"), text("d"), data(b"x"), 1, -2) and None),
    Attempt("kernel.io-uring", "gets the other system call path", lambda t: _close(raw(425, 4, ctypes.create_string_buffer(256)))),
    Attempt("kernel.bpf", "loads kernel data", bpf_map),
    Attempt("kernel.perf", "opens the profiler", perf),
    Attempt("kernel.userfaultfd", "stalls the kernel at will", lambda t: _close(raw(323, 1))),
    Attempt("kernel.personality", "changes how it is executed", lambda t: raw(135, 0xFFFF_FFFF) and None),
    Attempt("kernel.descriptor-table", "changes segment descriptors", lambda t: raw(154, 0, ctypes.create_string_buffer(64), 64) and None),
    Attempt("kernel.log", "reads the kernel's log", lambda t: raw(103, 10, None, 0) and None),
    Attempt("kernel.host-name", "sets the host name", same_host_name),
    Attempt("kernel.landlock", "uses Landlock", lambda t: raw(444, None, 0, 1) and None),
    Attempt("kernel.filter", "asks for a filter of its own", lambda t: raw(317, 2, 0, data(struct.pack("I", 0x7FFF_0000))) and None),
)  # fmt: skip

# ---------------------------------------------------------------- undoing the seal, and leaks


def leave_session(t: Targets) -> None:
    os.setsid()


UNDO = (
    Attempt("undo.death-signal", "outlives the supervisor", lambda t: raw(157, 1, 0, 0, 0, 0) and None),
    Attempt("undo.dumpable", "makes itself readable", lambda t: raw(157, 4, 1, 0, 0, 0) and None),
    Attempt("undo.session", "leaves the session", leave_session),
    Attempt("undo.group", "changes its group", lambda t: os.setpgid(0, 0)),
    Attempt("undo.root", "becomes root", lambda t: os.setuid(0)),
    Attempt("undo.umask", "changes its umask", lambda t: os.umask(os.umask(0o77)) and None),
    Attempt("undo.child-reaper", "adopts others' orphans", lambda t: raw(157, 36, 1, 0, 0, 0) and None),
    Attempt("leaks.host-name", "learns the host's name", lambda t: os.uname().nodename[:1]),
    Attempt("leaks.groups", "learns its groups", lambda t: str(len(os.getgroups()))),
    Attempt("leaks.environment", "learns its own environment", lambda t: str(len(os.environ)), harmless=True),
)  # fmt: skip

ATTEMPTS: tuple[Attempt, ...] = (
    *FILES, *PROCESSES, *NETWORK, *EXECUTION, *RESOURCES, *KERNEL, *UNDO,
)  # fmt: skip


class Outcome(msgspec.Struct, frozen=True):
    """How one attempt ended: "open", "blocked" (by an OSError or MemoryError), or "broken" (a bug of the attempt)."""

    name: str
    verdict: str
    detail: str = ""


def outcome(attempt: Attempt, targets: Targets) -> Outcome:
    """Tries one attempt in this process."""
    try:
        note = attempt.run(targets)
    except OSError as error:
        return Outcome(attempt.name, "blocked", errno.errorcode.get(error.errno or 0, type(error).__name__))
    except MemoryError:
        return Outcome(attempt.name, "blocked", "MemoryError")
    except Exception as error:
        return Outcome(attempt.name, "broken", f"{type(error).__name__}: {error}"[:200])
    return Outcome(attempt.name, "open", note or "")


def isolated(attempt: Attempt, targets: Targets) -> Outcome:
    """Tries one attempt in a child of its own, so that a success (a new session, another root) does not help the next one."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.write(writer, msgspec.msgpack.encode(outcome(attempt, targets)))
        os._exit(0)
    os.close(writer)
    signal.alarm(10)  # an attempt that hangs ends the control run, loudly
    try:
        with os.fdopen(reader, "rb") as stream:
            answer = stream.read()
        os.waitpid(pid, 0)
    finally:
        signal.alarm(0)
    if not answer:
        return Outcome(attempt.name, "broken", "the child died")
    return msgspec.msgpack.decode(answer, type=Outcome)
