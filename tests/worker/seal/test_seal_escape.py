"""The escape list in real sealed processes: every account, every degraded level, every simulated host.

Control first: an attempt counts only where it succeeds without a seal on the same account; the others are printed as
vacuous. Then at most the harmless ones may succeed, whatever layer the host lacks, and the report must name exactly what is missing.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from browsercell.protocol.frames import SandboxLevel, SealLayer, SealLayerName
from browsercell.protocol.seal_check import parse_thread_status, threads_sealed
from browsercell.worker.seal.levels import judge
from browsercell.worker.seal.steps import PRETENDED

from .seal_attempts import ATTEMPTS
from .seal_lab import ACCOUNTS, WORKER_UID, Place, Results, Run, conduct, probe

CLONE, MOUNT, CHROOT, UNSHARE, SETNS, SECCOMP, CLONE3, LANDLOCK = 56, 165, 161, 272, 308, 317, 435, 444
NEW_NAMESPACE = 0x7E02_0000
NEW_USER = 0x1000_0000

CONTAINER = (
    (UNSHARE, errno.EPERM, NEW_NAMESPACE),
    (CLONE, errno.EPERM, NEW_NAMESPACE),
    (CLONE3, errno.ENOSYS, 0),
    (MOUNT, errno.EPERM, 0),
    (SETNS, errno.EPERM, 0),
)
NO_LANDLOCK = ((LANDLOCK, errno.ENOSYS, 0),)
NO_CHROOT = ((CHROOT, errno.EPERM, 0),)

# name -> calls refused, layers lost by root, layers lost by a user (who needs the user namespace to change root).
Refusals = tuple[tuple[int, int, int], ...]
HOSTS: dict[str, tuple[Refusals, dict[str, str], dict[str, str]]] = {
    "plain": ((), {}, {}),
    "container": (CONTAINER, {"namespaces": "EPERM"}, {"namespaces": "EPERM", "empty_root": "EPERM"}),
    "no-user-namespaces": (
        ((UNSHARE, errno.ENOSPC, NEW_USER),),
        {},
        {"namespaces": "ENOSPC", "empty_root": "EPERM"},
    ),
    "chroot-refused": (NO_CHROOT, {"empty_root": "EPERM"}, {"empty_root": "EPERM"}),
    "landlock-missing": (NO_LANDLOCK, {"landlock": "ENOSYS"}, {"landlock": "ENOSYS"}),
    "landlock-disabled": (
        ((LANDLOCK, errno.EOPNOTSUPP, 0),),
        {"landlock": "EOPNOTSUPP"},
        {"landlock": "EOPNOTSUPP"},
    ),
    "container-without-landlock": (
        CONTAINER + NO_LANDLOCK,
        {"namespaces": "EPERM", "landlock": "ENOSYS"},
        {"namespaces": "EPERM", "empty_root": "EPERM", "landlock": "ENOSYS"},
    ),
    "filter-only": (
        CONTAINER + NO_LANDLOCK + NO_CHROOT,
        {"namespaces": "EPERM", "empty_root": "EPERM", "landlock": "ENOSYS"},
        {"namespaces": "EPERM", "empty_root": "EPERM", "landlock": "ENOSYS"},
    ),
}
# The level where nothing but the simulated refusal is missing: (root, user).
LEVELS = {
    "plain": ("contained", "contained"),
    "container": ("sealed", "sealed"),
    "no-user-namespaces": ("contained", "sealed"),
    "chroot-refused": ("sealed", "sealed"),
    "landlock-missing": ("sealed", "sealed"),
    "landlock-disabled": ("sealed", "sealed"),
    "container-without-landlock": ("sealed", "filtered"),
    "filter-only": ("filtered", "filtered"),
}
OFF: dict[str, tuple[str, ...]] = {
    "off-namespaces": ("namespaces",),
    "off-empty-root": ("empty_root",),
    "off-landlock": ("landlock",),
    "off-privileges": ("privileges",),
    "off-rlimits": ("rlimits",),
    "off-all-but-filter": ("namespaces", "empty_root", "landlock", "privileges"),
}
ATTACK = ({"do": "attempts"}, {"do": "echo", "body": "still here"})
# What each layer stops by itself, without the filter and without the others. For an ordinary user the empty root needs the
# user namespace; an ordinary user has no privilege to drop.
ALONE: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "alone-namespaces": (
        ("namespaces",),
        {"network.tcp-loopback", "network.udp-loopback", "unix.abstract"},
    ),
    "alone-empty-root": (
        ("namespaces", "empty_root"),
        {
            *(
                "files.read-passwd",
                "files.read-secret",
                "files.write-tmp",
                "files.stat-secret",
                "files.chmod",
            ),
            *("processes.list", "processes.supervisor-cmdline", "execution.shell"),
            *("unix.neighbour", "unix.daemon", "unix.datagram", "unix.second-link"),
        },
    ),
    "alone-privileges": (
        ("privileges",),
        {"signals.probe-supervisor", "control.limits-of-supervisor", "files.chmod", "undo.root"},
    ),
    "alone-rlimits": (
        ("rlimits",),
        {"resources.map-4-gib", "resources.heap-900-mib", "resources.memory-file", "resources.descriptors"},
    ),
    "alone-landlock": (
        ("landlock",),
        {"files.read-secret", "files.list-home", "files.write-tmp", "files.mkdir", "files.rename"},
    ),
}
FENCES = ("namespaces", "empty_root", "privileges", "rlimits", "landlock")
DROPPED_WITH_CAPABILITIES = {
    "kernel.mount",
    "kernel.chroot",
    "kernel.bpf",
    "kernel.unshare-net",
    "network.raw",
}
# How the filter and the limits answer. "No such file" or "nobody listens" would mean that an attempt was let through to the
# kernel and failed there for want of a target. The loader of libraries gives an OSError without a number.
REFUSALS = {"EPERM", "EACCES", "ENOSYS", "ENOTTY", "ENOMEM", "EMFILE", "MemoryError", "OSError"}


def without(*kept: str) -> tuple[str, ...]:
    return (*(layer for layer in FENCES if layer not in kept), "seccomp")


RUNS = (
    Run(name="control", mode="none", orders=ATTACK),
    *(Run(name=name, refused=host[0], orders=ATTACK) for name, host in HOSTS.items()),
    *(Run(name=name, off=off, orders=ATTACK) for name, off in OFF.items()),
    *(Run(name=name, off=without(*kept), orders=ATTACK) for name, (kept, _) in ALONE.items()),
    Run(name="no-fence", off=without(), orders=ATTACK),
    Run(name="no-threads", threads=False, orders=ATTACK),
    Run(name="no-seccomp", refused=((SECCOMP, errno.EINVAL, 0),)),
)
HARMLESS = {attempt.name for attempt in ATTEMPTS if attempt.harmless}
# What only the resource limits stop, when they are pretended missing.
LIMITED = {"resources.map-4-gib", "resources.heap-900-mib", "resources.descriptors"}
ENOUGH_REAL = 80
"""Attempts that must be real, of more than 120: fewer means that the control itself is locked in."""


@pytest.fixture(scope="module")
def seen(seal_places: dict[str, Place]) -> Iterator[dict[str, Results]]:
    """account -> results of all runs; the accounts run side by side."""
    with ThreadPoolExecutor(len(ACCOUNTS)) as pool:
        waiting = {
            account: pool.submit(conduct, account, seal_places[account], RUNS, targets=True)
            for account in ACCOUNTS
        }
        yield {account: future.result() for account, future in waiting.items()}


@pytest.fixture(scope="module")
def missing(seal_places: dict[str, Place]) -> dict[str, dict[str, str]]:
    """account -> layers this machine does not have."""
    return {account: probe(seal_places[account]) for account in ACCOUNTS}


def verdicts(result: dict[str, Any]) -> dict[str, tuple[str, str]]:
    assert len(result["answers"]) == 2, result["output"]
    return {outcome["name"]: (outcome["verdict"], outcome["detail"]) for outcome in result["answers"][0]}


def layers(result: dict[str, Any]) -> dict[str, str]:
    """Layer -> reason it is off."""
    return {layer["name"]: layer.get("reason", "") for layer in result["report"]["layers"] if not layer["on"]}


def expected_level(off: set[str]) -> SandboxLevel:
    return judge(SealLayer(name, name not in off) for name in SealLayerName)


def assert_stopped(result: dict[str, Any], permitted: set[str]) -> None:
    found = verdicts(result)
    assert set(found) == {attempt.name for attempt in ATTEMPTS}
    assert not {name: detail for name, (verdict, detail) in found.items() if verdict == "broken"}
    through = {name: detail for name, (verdict, detail) in found.items() if verdict == "open"}
    assert set(through) <= permitted, through
    assert {detail for verdict, detail in found.values() if verdict == "blocked"} <= REFUSALS
    assert result["answers"][1] == "still here"


def test_the_list_is_at_least_as_long_as_the_one_that_was_measured() -> None:
    assert len({attempt.name for attempt in ATTEMPTS}) == len(ATTEMPTS) >= 92
    assert len(HARMLESS) <= 3


@pytest.mark.parametrize("account", ACCOUNTS)
def test_control_attempts_succeed_without_a_seal(
    seen: dict[str, Results], account: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = verdicts(seen[account].runs["control"])
    broken = {name: detail for name, (verdict, detail) in found.items() if verdict == "broken"}
    vacuous = {name: detail for name, (verdict, detail) in found.items() if verdict == "blocked"}
    with capsys.disabled():
        print(f"\n{account}: {len(found) - len(vacuous)} attempts are real, {len(vacuous)} vacuous here:")
        print("  " + ", ".join(f"{name} ({detail})" for name, detail in sorted(vacuous.items())))
    assert not broken
    assert len(found) - len(vacuous) >= ENOUGH_REAL


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("host", HOSTS)
def test_only_harmless_attempts_get_through_on_any_host(
    seen: dict[str, Results], missing: dict[str, dict[str, str]], account: str, host: str
) -> None:
    result = seen[account].runs[host]
    assert_stopped(result, HARMLESS)
    _, lost_by_root, lost_by_user = HOSTS[host]
    simulated = lost_by_root if account == "root" else lost_by_user
    # Where the machine itself lacks a layer, the simulation can only add to it.
    assert set(layers(result)) == set(simulated) | set(missing[account])
    assert simulated.items() <= layers(result).items() or missing[account]
    assert result["report"]["level"] == expected_level(set(layers(result)))
    if not missing[account]:
        assert result["report"]["level"] == LEVELS[host][0 if account == "root" else 1]


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("name", OFF)
def test_only_harmless_attempts_get_through_without_any_one_layer(
    seen: dict[str, Results], account: str, name: str
) -> None:
    result = seen[account].runs[name]
    assert_stopped(result, HARMLESS | (LIMITED if "rlimits" in OFF[name] else set()))
    pretended = {layer for layer, reason in layers(result).items() if reason == PRETENDED}
    # An ordinary user has no ids to drop, so there is nothing to pretend.
    assert pretended == {layer for layer in OFF[name] if layer != "privileges" or account == "root"}


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("name", ALONE)
def test_each_fence_stops_its_share_by_itself(
    seen: dict[str, Results], missing: dict[str, dict[str, str]], account: str, name: str
) -> None:
    kept, share = ALONE[name]
    if missing[account].keys() & set(kept):
        pytest.skip("this machine does not have the layer: the plain host's report says so")
    if account == "user" and name == "alone-privileges":
        pytest.skip("an ordinary user has no ids to drop")
    runs = seen[account].runs
    real = {attempt for attempt, (verdict, _) in verdicts(runs["control"]).items() if verdict == "open"}
    found, without_any = verdicts(runs[name]), verdicts(runs["no-fence"])
    assert share & real
    assert {attempt for attempt in share & real if found[attempt][0] != "blocked"} == set()
    # Only the layer itself can be the reason.
    assert {attempt for attempt in share & real if without_any[attempt][0] != "open"} == set()
    assert runs[name]["report"]["level"] == "unsandboxed"


@pytest.mark.parametrize("account", ACCOUNTS)
def test_no_capability_and_no_group_is_left_whatever_is_off(seen: dict[str, Results], account: str) -> None:
    found = verdicts(seen[account].runs["no-fence"])
    assert {found[name][0] for name in DROPPED_WITH_CAPABILITIES} == {"blocked"}
    for name in ("plain", "no-fence"):
        for text in seen[account].runs[name]["statuses"]:
            lines = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
            assert {lines[key] for key in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
            if account == "root":
                assert lines["CapBnd"] == "0" * 16
            if account == "root" and name == "plain":
                assert lines["Groups"].split() == []
                assert set(lines["Uid"].split()) == set(lines["Gid"].split()) == {str(WORKER_UID)}


@pytest.mark.parametrize("account", ACCOUNTS)
def test_others_of_the_same_user_can_not_read_a_worker(seen: dict[str, Results], account: str) -> None:
    assert seen[account].runs["plain"]["private_files_owner"] == 0


@pytest.mark.parametrize("account", ACCOUNTS)
def test_bombs_end_as_expected_and_the_worker_lives(seen: dict[str, Results], account: str) -> None:
    found = verdicts(seen[account].runs["plain"])
    expected = {
        "resources.map-4-gib": "ENOMEM",
        "resources.heap-900-mib": "MemoryError",
        "resources.memory-file": "EPERM",
        "resources.descriptors": "EMFILE",
        "execution.fork": "EPERM",
        "execution.fork-bomb": "EPERM",
    }
    assert {name: found[name] for name in expected} == {name: ("blocked", e) for name, e in expected.items()}
    verdict, count = found["resources.threads"]
    assert verdict == "open"
    assert 0 < int(count.split()[0]) < 100


@pytest.mark.parametrize("account", ACCOUNTS)
def test_threads_can_be_switched_off(seen: dict[str, Results], account: str) -> None:
    result = seen[account].runs["no-threads"]
    assert_stopped(result, HARMLESS - {"resources.threads"})


@pytest.mark.parametrize("account", ACCOUNTS)
def test_without_seccomp_the_report_says_unsandboxed(seen: dict[str, Results], account: str) -> None:
    result = seen[account].runs["no-seccomp"]
    assert result["report"]["level"] == "unsandboxed"
    assert {"seccomp": "EINVAL", "canaries": "EINVAL"}.items() <= layers(result).items()
    assert result["report"].get("instructions", 0) == 0


@pytest.mark.parametrize("account", ACCOUNTS)
def test_the_check_from_outside_tells_sealed_from_unsealed(seen: dict[str, Results], account: str) -> None:
    judge_status = parse_thread_status(seen[account].host_status)
    for name, sealed in (("plain", True), ("off-all-but-filter", True), ("control", False)):
        threads = [parse_thread_status(text) for text in seen[account].runs[name]["statuses"]]
        assert len(threads) >= 3  # the main thread and libzmq's two
        assert threads_sealed(threads, judge_status).ok is sealed, name


@pytest.mark.parametrize("account", ACCOUNTS)
def test_report_numbers(seen: dict[str, Results], account: str) -> None:
    report = seen[account].runs["plain"]["report"]
    assert 200 < report["instructions"] < 1000
    assert report.get("landlock_abi", 0) <= 7
    assert ("landlock" in layers(seen[account].runs["plain"])) == (report.get("landlock_abi", 0) == 0)
