"""Attempts on the machine and on the seal: programs, resources, the kernel, undoing, leaks."""

# ruff: noqa: ARG001, ARG005 - every attempt takes the targets

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
import signal
import struct
import threading
import time

from .seal_targets import (
    AT_FDCWD,
    MIB,
    Attempt,
    Buffer,
    Targets,
    close,
    data,
    in_child,
    raw,
    text,
)

# ---------------------------------------------------------------- execution


def run_shell(t: Targets) -> None:
    in_child(lambda: os.execv("/bin/sh", ["sh", "-c", "exit 0"]))


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
            raise OSError(errno.EPERM, "no thread") from None
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
        return f"{sum(os.write(descriptor, bytes(MIB)) for _ in range(64)) // MIB} MiB"
    finally:
        close(descriptor)


def many_descriptors(t: Targets) -> str:
    asked, held = 500, []
    try:
        for _ in range(asked):
            held.append(raw(290, 0, 0))
    finally:
        for descriptor in held:
            close(descriptor)
    return f"{len(held)} descriptors"


def raise_descriptors(t: Targets) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    raw(302, 0, resource.RLIMIT_NOFILE, data(struct.pack("QQ", hard, hard)), None)


def make_pipe(t: Targets) -> None:
    for descriptor in os.pipe():
        close(descriptor)


def shared_segment(t: Targets) -> None:
    ipc_private, ipc_rmid = 0, 0
    raw(31, raw(29, ipc_private, MIB, 0o1600), ipc_rmid, None)


def semaphore(t: Targets) -> None:
    ipc_rmid = 0
    raw(66, raw(64, 0, 1, 0o1600), 0, ipc_rmid, 0)


def message_queue(t: Targets) -> None:
    ipc_rmid = 0
    raw(71, raw(68, 0, 0o1600), ipc_rmid, None)


def posix_queue(t: Targets) -> None:
    name = text(f"bc-seal-{t.supervisor}")
    close(raw(240, name, os.O_CREAT | os.O_RDWR, 0o600, None))
    raw(241, name)


def realtime(t: Targets) -> None:
    sched_fifo = 1
    raw(144, 0, sched_fifo, data(struct.pack("i", 1)))


RESOURCES = (
    Attempt("resources.threads", "starts threads without end", threads, harmless=True),
    Attempt("resources.map-4-gib", "maps 4 GiB", map_four_gib),
    Attempt("resources.heap-900-mib", "allocates 900 MiB", lambda t: str(len(bytearray(900 * MIB)))),
    Attempt("resources.memory-file", "fills memory outside the address space", file_in_memory),
    Attempt("resources.secret-memory", "pins memory", lambda t: close(raw(447, 0))),
    Attempt("resources.descriptors", "opens descriptors without end", many_descriptors),
    Attempt("resources.duplicate", "copies a descriptor", lambda t: close(os.dup(0))),
    Attempt("resources.pipe", "makes a pipe", make_pipe),
    Attempt("resources.timer", "makes a timer", lambda t: close(raw(283, 1, 0))),
    Attempt("resources.epoll", "makes an event queue", lambda t: close(raw(291, 0))),
    Attempt("resources.raise-descriptors", "raises its limit", raise_descriptors),
    Attempt("resources.lock-memory", "locks memory", lambda t: raw(151, 1)),
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
    close(raw(321, 0, data(struct.pack("IIII", array, 4, 4, 1) + bytes(112)), 128))


def perf(t: Targets) -> None:
    exclude_kernel_and_hypervisor = 1 | 1 << 5 | 1 << 6
    attributes = struct.pack("IIQ", 1, 128, 0) + bytes(24) + struct.pack("Q", exclude_kernel_and_hypervisor)
    close(raw(298, data(attributes + bytes(128 - len(attributes))), 0, -1, -1, 0))


def join_namespace(t: Targets) -> None:
    try:
        raw(308, -1, 0)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise


def lock_with_inheritance(t: Targets) -> None:
    futex_lock_pi = 6
    raw(202, data(bytes(4)), futex_lock_pi, 0, None, None, 0)


def same_host_name(t: Targets) -> None:
    name = os.uname().nodename
    raw(170, text(name), len(name))


KERNEL = (
    Attempt("kernel.mount", "mounts", mount),
    Attempt("kernel.fsopen", "mounts by the newer call", lambda t: close(raw(430, text("tmpfs"), 0))),
    Attempt("kernel.open-tree", "copies a mount", lambda t: close(raw(428, AT_FDCWD, text("/"), 0))),
    Attempt("kernel.unshare-user-child", "gets capabilities in a child", lambda t: in_child(lambda: raw(272, 0x1000_0000))),
    Attempt("kernel.unshare-user", "gets capabilities", lambda t: raw(272, 0x1000_0000)),
    Attempt("kernel.unshare-net", "makes a network", lambda t: raw(272, 0x4000_0000)),
    Attempt("kernel.setns", "joins a namespace", join_namespace),
    Attempt("kernel.chroot", "changes its root", lambda t: os.chroot("/")),
    Attempt("kernel.keyring", "uses the kernel's keys", lambda t: raw(250, 0, -3, 1)),
    Attempt("kernel.add-key", "stores a key", lambda t: raw(248, text("user"), text("d"), data(b"x"), 1, -2)),
    Attempt("kernel.io-uring", "gets the other system call path", lambda t: close(raw(425, 4, ctypes.create_string_buffer(256)))),
    Attempt("kernel.bpf", "loads kernel data", bpf_map),
    Attempt("kernel.perf", "opens the profiler", perf),
    Attempt("kernel.userfaultfd", "stalls the kernel at will", lambda t: close(raw(323, 1))),
    Attempt("kernel.personality", "changes how it is executed", lambda t: raw(135, 0xFFFF_FFFF)),
    Attempt("kernel.descriptor-table", "changes segment descriptors", lambda t: raw(154, 0, ctypes.create_string_buffer(64), 64)),
    Attempt("kernel.log", "reads the kernel's log", lambda t: raw(103, 10, None, 0)),
    Attempt("kernel.futex-inheritance", "uses the kernel's priority inheritance", lock_with_inheritance),
    Attempt("kernel.host-name", "sets the host name", same_host_name),
    Attempt("kernel.landlock", "uses Landlock", lambda t: raw(444, None, 0, 1)),
    Attempt("kernel.filter", "asks for a filter of its own", lambda t: raw(317, 2, 0, data(struct.pack("I", 0x7FFF_0000)))),
)  # fmt: skip

# ---------------------------------------------------------------- undoing the seal, and leaks


def leave_session(t: Targets) -> None:
    os.setsid()


UNDO = (
    Attempt("undo.death-signal", "outlives the supervisor", lambda t: raw(157, 1, 0, 0, 0, 0)),
    Attempt("undo.dumpable", "makes itself readable", lambda t: raw(157, 4, 1, 0, 0, 0)),
    Attempt("undo.session", "leaves the session", leave_session),
    Attempt("undo.group", "changes its group", lambda t: os.setpgid(0, 0)),
    Attempt("undo.root", "becomes root", lambda t: os.setuid(0)),
    Attempt("undo.umask", "changes its umask", lambda t: os.umask(os.umask(0o77))),
    Attempt("undo.child-reaper", "adopts others' orphans", lambda t: raw(157, 36, 1, 0, 0, 0)),
    Attempt("leaks.host-name", "learns the host's name", lambda t: os.uname().nodename[:1]),
    Attempt("leaks.groups", "learns its groups", lambda t: str(len(os.getgroups()))),
    Attempt("leaks.environment", "learns its own environment", lambda t: str(len(os.environ)), harmless=True),
)  # fmt: skip
