"""The error tree: blame, execution, and what a message says."""

from __future__ import annotations

from browsercell.protocol import errors as e


def test_a_message_carries_its_next_step() -> None:
    assert str(e.Unavailable("it is gone", next_step="Start it")) == "it is gone. Start it"
    assert str(e.Unavailable("it is gone")) == "it is gone"


def test_a_dead_worker_says_generation_and_status() -> None:
    error = e.WorkerDied(3, -9, execution=e.Execution.UNKNOWN)
    assert (error.generation, error.exit_status, error.execution) == (3, -9, e.Execution.UNKNOWN)
    assert str(error) == "the worker of generation 3 ended (status -9)"
    assert "unknown status" in str(e.WorkerDied(1, None, execution=e.Execution.NOT_STARTED))


def test_an_answer_with_an_error_has_run() -> None:
    assert e.ActorRaised("code", "what").execution is e.Execution.FINISHED


def test_a_sandbox_error_names_the_step() -> None:
    error = e.SandboxError("landlock", "EPERM")
    assert (error.step, error.errno_name) == ("landlock", "EPERM")
    assert "landlock" in str(error)


def test_blame_is_in_the_tree() -> None:
    for kind in (e.LocalMisuse, e.PeerViolation):
        assert issubclass(kind, e.ProtocolError)
    assert all(
        issubclass(kind, e.CallError)
        for kind in (e.CallTimeout, e.CallCancelled, e.WorkerDied, e.ActorRaised)
    )
    assert all(issubclass(kind, e.LinkError) for kind in (e.PeerUnreachable, e.Backpressure, e.FrameTooLarge))
    assert issubclass(e.SandboxError, e.SpawnError)
