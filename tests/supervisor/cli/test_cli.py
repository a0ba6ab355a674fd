"""The command line: one-line faults, exit codes, output as text and JSON, live progress."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsercell.protocol import frames as f
from browsercell.protocol.client import Client, DelegationInterrupted
from browsercell.protocol.errors import BlockerCode, Unavailable, UsageError
from browsercell.protocol.results import (
    Actions,
    BrowserDelegateResult,
    Delivery,
    FreeText,
    Policy,
    Status,
    Usage,
)
from browsercell.supervisor import cli, config
from browsercell.supervisor.cli import common, delegate, doctor, status
from browsercell.supervisor.settings import ChromiumSettings, SupervisorSettings
from rich.console import Console

from tests.support.hosts import Served, serving

FINISH = {"finish": {"status": "completed", "summary": "done"}}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with tempfile.TemporaryDirectory(prefix="bcc-") as short:  # a socket's path holds little
        monkeypatch.setenv("BROWSERCELL_RUNTIME_DIR", f"{short}/r")
        yield tmp_path


@pytest.fixture
def served(place: Path) -> Iterator[Served]:
    assert place
    with serving(Path(os.environ["BROWSERCELL_RUNTIME_DIR"])) as one:
        yield one


class Outcome:
    """What a command printed and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Outcome:
    monkeypatch.setattr(sys, "argv", ["supervisor", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    captured = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return Outcome(end.value.code, captured.out, captured.err)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["bogus"], cli.USAGE, "bogus"),
        (["delegate"], cli.USAGE, "goal"),
        (["status", "--what"], cli.USAGE, "--what"),
        (["status"], cli.UNAVAILABLE, "supervisor run"),
        (["config", "check", "--set", "network.mod=x"], cli.USAGE, "did you mean mode?"),
        (["config", "check", "--set", "nothing"], cli.USAGE, "SECTION.KEY=VALUE"),
        (["config", "check", "--config", "absent.toml"], cli.USAGE, "no configuration file"),
        (["delegate", "x", "--playbook", "absent.json"], cli.USAGE, "can't be read"),
        (["delegate", "x", "--deliver", "what"], cli.USAGE, "PURPOSE:KIND:PATH"),
        (["delegate", "x", "--var", "what"], cli.USAGE, "NAME=VALUE"),
        (["delegate", "x", "--answer", "absent.json"], cli.USAGE, "can't be read"),
        (["delegate", "x", "--answer", "{"], cli.USAGE, "not valid JSON"),
        (["delegate", "x", "--answer", "price:"], cli.USAGE, "NAME:KIND"),
        (["delegate", "x", "--answer", "price:money"], cli.USAGE, "not money"),
        (["delegate", "x", "--answer", '{"type": "array"}'], cli.USAGE, "answer schema"),
        (["delegate", "x", "--origin", "shop"], cli.USAGE, "delegation is not valid"),
        (["delegate", "x", "--browser", "firefox"], cli.USAGE, "delegation is not valid"),
        (["delegate", "x", "--seconds", "100000"], cli.USAGE, "delegation is not valid"),
    ],
)
def test_faults_are_one_line_with_a_code(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    outcome = run(capsys, monkeypatch, *arguments)
    assert outcome.code == code
    assert outcome.out == ""
    assert outcome.err.startswith("supervisor: ")
    assert outcome.err.count("\n") == 1
    assert words in outcome.err
    assert "Traceback" not in outcome.err


def test_help_and_version(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run(capsys, monkeypatch, "--help")
    assert outcome.code == cli.OK
    for command in ("run", "status", "doctor", "demo", "delegate", "config"):
        assert command in outcome.out
    assert run(capsys, monkeypatch, "--version").out.startswith("browsercell ")


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UsageError("a\n  b", next_step="c"), cli.USAGE, "a b. c"),
        (Unavailable("a"), cli.UNAVAILABLE, "a"),
        (KeyboardInterrupt(), 130, "cancelled"),
        (OSError(28, "No space left on device"), cli.UNAVAILABLE, "No space left"),
        (ValueError("sekret"), cli.UNAVAILABLE, "internal fault (ValueError)"),
    ],
)
def test_every_fault_becomes_one_line(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, words: str
) -> None:
    assert cli._explain(error) == code
    text = capsys.readouterr().err
    assert words in text
    assert "sekret" not in text
    assert text.count("\n") == 1


def test_a_full_output_is_one_exit_code_and_no_traceback(place: Path) -> None:
    assert place
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "browsercell.supervisor", "config", "schema"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert ended.returncode == cli.UNAVAILABLE
    assert b"Traceback" not in ended.stderr
    assert ended.stderr.count(b"\n") <= 1


def test_no_output_at_all_is_no_traceback(place: Path) -> None:
    assert place
    line = f"exec {shlex.quote(sys.executable)} -m browsercell.supervisor config check >&-"
    ended = subprocess.run(["/bin/sh", "-c", line], stderr=subprocess.PIPE, timeout=60, check=False)
    assert b"Traceback" not in ended.stderr


def test_arguments_are_text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run(capsys, monkeypatch, "delegate", "\udcff")
    assert outcome.code == cli.USAGE
    assert "UTF-8" in outcome.err


def test_a_terminated_command_ends_like_ctrl_c(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL)
    armed: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", armed.__setitem__)
    assert run(capsys, monkeypatch, "--version").code == cli.OK
    assert set(armed) == {signal.SIGTERM, signal.SIGHUP}
    with pytest.raises(KeyboardInterrupt):
        armed[signal.SIGTERM](signal.SIGTERM, None)


def test_an_interrupted_task_still_says_how_it_ended(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, served: Served
) -> None:
    def interrupted(*_: Any, **__: Any) -> BrowserDelegateResult:
        raise DelegationInterrupted(result(Status.FAILED, BlockerCode.CANCELLED))

    monkeypatch.setattr(Client, "delegate", interrupted)
    outcome = run(capsys, monkeypatch, "delegate", "x", "--set", "limits.steps=3")
    assert outcome.code == cli.INTERRUPTED
    assert "cancelled" in outcome.out
    assert "its own settings apply" in outcome.err
    assert not served.core.handles


def test_a_closed_pipe_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._explain(BrokenPipeError()) == cli.NOT_COMPLETED
    assert capsys.readouterr().err == ""


def test_config_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    (place / config.PROJECT_FILE).write_text("[limits]\nsteps = 5\n")
    outcome = run(capsys, monkeypatch, "config", "show", "--json", "--set", "limits.seconds=9")
    settings = {row["key"]: row for row in json.loads(outcome.out)["settings"]}
    assert settings["limits.steps"]["value"] == 5
    assert settings["limits.seconds"]["source"] == "--set limits.seconds"
    assert "limits.steps" in run(capsys, monkeypatch, "config", "show").out
    assert json.loads(run(capsys, monkeypatch, "config", "schema").out)["$defs"]
    assert json.loads(run(capsys, monkeypatch, "config", "check", "--json").out)["ok"]
    assert "valid" in run(capsys, monkeypatch, "config", "check").out


def test_status_as_table_and_as_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, served: Served
) -> None:
    assert served.core.stops == 0
    outcome = run(capsys, monkeypatch, "status")
    assert outcome.code == cli.OK
    assert "PROCESS" in outcome.out
    assert str(os.getpid()) in outcome.out
    answer = json.loads(run(capsys, monkeypatch, "status", "--json").out)
    assert answer["processes"][0]["role"] == "supervisor"
    assert answer["status"]["supervisor"]["state"] == "running"


def test_delegate_prints_the_result(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, served: Served, place: Path
) -> None:
    (place / "steps.json").write_text(json.dumps([FINISH]))
    (place / "steps.toml").write_text('[[steps]]\n[steps.finish]\nstatus = "completed"\nsummary = "done"\n')
    outcome = run(capsys, monkeypatch, "delegate", "a goal", "--playbook", "steps.json", "--var", "a=b=c")
    assert outcome.code == cli.OK
    assert "completed" in outcome.out
    assert "working" in outcome.err
    outcome = run(capsys, monkeypatch, "delegate", "a goal", "--json", "--playbook", "steps.toml")
    assert json.loads(outcome.out)["summary"] == "a goal"
    assert len(served.core.handles) == 2


def test_an_unsuccessful_task_is_an_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, served: Served
) -> None:
    monkeypatch.setattr(Client, "delegate", lambda *_, **__: result(Status.BLOCKED, BlockerCode.STEP_LIMIT))
    assert run(capsys, monkeypatch, "delegate", "x").code == cli.NOT_COMPLETED
    monkeypatch.setattr(
        Client, "delegate", lambda *_, **__: result(Status.FAILED, BlockerCode.INVALID_REQUEST)
    )
    assert run(capsys, monkeypatch, "delegate", "x", "--json").code == cli.USAGE
    assert not served.core.handles


@pytest.mark.parametrize("text", ["{", "{}", "\udcff", "[" * 5000])
def test_what_is_no_playbook(place: Path, text: str) -> None:
    path = place / "p.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match="playbook"):
        delegate.read_playbook(path)
    os.mkfifo(place / "pipe.json")
    with pytest.raises(UsageError, match="no regular file"):
        delegate.read_playbook(place / "pipe.json")
    (place / "big.json").write_text("[" + " " * 70_000 + "]")
    with pytest.raises(UsageError, match="over 64 KiB"):
        delegate.read_playbook(place / "big.json")
    (place / "p.toml").write_text("[")
    with pytest.raises(UsageError, match="playbook"):
        delegate.read_playbook(place / "p.toml")


def result(status_: Status, code: BlockerCode | None = None, **more: Any) -> BrowserDelegateResult:
    return BrowserDelegateResult(
        task_id="t", status=status_, execution_status=status_, blocker_code=code, **more
    )


@pytest.mark.parametrize(
    ("status_", "code", "exit_code"),
    [
        (Status.COMPLETED, None, cli.OK),
        (Status.PARTIAL, None, cli.NOT_COMPLETED),
        (Status.BLOCKED, BlockerCode.STEP_LIMIT, cli.NOT_COMPLETED),
        (Status.FAILED, BlockerCode.INVALID_REQUEST, cli.USAGE),
        (Status.FAILED, BlockerCode.SECRET_IN_GOAL, cli.USAGE),
        (Status.BLOCKED, BlockerCode.BROWSER_UNAVAILABLE, cli.UNAVAILABLE),
        (Status.FAILED, BlockerCode.BRIDGE_LOST, cli.UNAVAILABLE),
    ],
)
def test_exit_codes_of_results(status_: Status, code: BlockerCode | None, exit_code: int) -> None:
    assert delegate.exit_code(result(status_, code)) == exit_code


def test_a_result_for_a_person() -> None:
    text = io.StringIO()
    delegate.show(
        Console(file=text, width=100),
        result(
            Status.PARTIAL,
            summary="[bold]not markup[/]",
            question="which?",
            next_step="choose",
            deliveries=(
                Delivery("a", "p", "x.csv", True, 5000, "0" * 64),
                Delivery("b", "q", "y.csv", False, code="exists", message="there is one"),
            ),
            unmet_requirements=("r",),
            usage=Usage(1, 2, 3, 1, 4.5),
        ),
    )
    shown = text.getvalue()
    for part in (
        "[bold]not markup[/]",
        "which?",
        "choose",
        "x.csv",
        "4.9 KiB",
        "y.csv",
        "exists",
        "missing: r",
        "4.5 s",
    ):
        assert part in shown


def test_live_progress_on_a_terminal() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100, _environ={"TERM": "xterm"})
    with delegate.live(console, "a [goal]") as on_progress:
        on_progress(f.HostProgress(1, f.TaskPhase.QUEUED, 0, 0, 40))
        on_progress(f.HostProgress(1, f.TaskPhase.RUNNING, 3, 2, 40, "browser_page_click", False, 5))
    assert "browser_page_click" in text.getvalue()
    assert "step 3" in text.getvalue()


def test_plain_progress_says_each_phase_once() -> None:
    text = io.StringIO()
    with delegate.live(Console(file=text), "x") as on_progress:
        for _ in range(3):
            on_progress(f.HostProgress(1, f.TaskPhase.RUNNING, 0, 1, 40, "t"))
    assert text.getvalue() == "… working\n"


def test_units_for_people() -> None:
    assert [common.size(n) for n in (5, 2048, 3 << 20, 5 << 30)] == ["5 B", "2.0 KiB", "3.0 MiB", "5.0 GiB"]
    assert [common.age(n) for n in (1500, 61_000, 3_660_000)] == ["1.5 s", "1 min 01 s", "1 h 01 min"]
    assert common.level("odd") == "odd"
    assert "red" in common.level("unsandboxed")


def test_settings_travel_to_a_started_supervisor(place: Path) -> None:
    arguments = common.start_arguments(Path("c.toml"), ["a.b=c=d"])
    assert arguments == ["--config", str(place / "c.toml"), "--set", "a.b=c=d"]


def test_nested_status_lines() -> None:
    lines = status._lines({"a": {"b": True}, "c": [{"d": 1, "e": ""}], "f": [], "g": ["x", "y"]})
    assert [line.replace("[bold]", "").replace("[/]", "") for line in lines] == [
        "a",
        "  b  yes",
        "c  d 1",
        "f  none",
        "g  x, y",
    ]
    layers = [
        {"name": "landlock", "on": False, "reason": "ENOSYS"},
        {"name": "seccomp", "on": True, "reason": ""},
    ]
    assert status._lines({"layers": layers, "ageMs": 1500}) == [
        "[bold]layers[/]  landlock off (ENOSYS), seccomp on",
        "[bold]age[/]  1.5 s",
    ]


class TestDoctor:
    """Each check on a place made for it."""

    @pytest.fixture
    def settings(self, place: Path) -> SupervisorSettings:
        loaded = config.load(
            directory=place,
            environment={},
            flags={"places.state_folder": str(place / "state"), "bridge.port": "0"},
        )
        return config.supervisor_settings(loaded.configuration)

    @staticmethod
    def with_(settings: SupervisorSettings, place: Path, **flags: str) -> SupervisorSettings:
        base = {"places.state_folder": settings.state_folder, "bridge.port": "0"}
        wanted = base | {key.replace("__", "."): value for key, value in flags.items()}
        return config.supervisor_settings(
            config.load(directory=place, environment={}, flags=wanted).configuration
        )

    def test_folders(self, settings: SupervisorSettings, place: Path) -> None:
        assert doctor._state(settings).verdict is doctor.Verdict.OK
        folder = place / "state"
        folder.mkdir(mode=0o755)
        os.chmod(folder, 0o755)
        check = doctor._state(settings)
        assert (check.verdict, check.remedy) == (doctor.Verdict.FAIL, "Close it with: chmod 700")
        os.chmod(folder, 0o700)
        assert doctor._state(settings).detail == "private"
        folder.rmdir()
        folder.write_text("")
        assert doctor._state(settings).verdict is doctor.Verdict.FAIL
        assert doctor._runtime(settings).verdict is doctor.Verdict.OK

    def test_token(self, settings: SupervisorSettings, place: Path) -> None:
        assert doctor._token(settings).verdict is doctor.Verdict.OK
        token = place / "state" / "pairing-token"
        token.parent.mkdir()
        token.write_text("x")
        token.chmod(0o644)
        assert doctor._token(settings).verdict is doctor.Verdict.FAIL
        token.chmod(0o600)
        assert doctor._token(settings).detail == "private file"

    def test_port(self, settings: SupervisorSettings, place: Path) -> None:
        assert doctor._port(settings).verdict is doctor.Verdict.OK
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            check = doctor._port(self.with_(settings, place, bridge__port=str(port)))
            assert check.verdict is doctor.Verdict.WARN
            assert f"pid {os.getpid()}, has it" in check.detail
        assert "is free" in doctor._port(self.with_(settings, place, bridge__port=str(port))).detail

    def test_model(self, settings: SupervisorSettings, place: Path) -> None:
        assert doctor._model(settings).verdict is doctor.Verdict.WARN
        base = {"model__model": "m", "model__base_url": "http://127.0.0.1:1/v1"}
        assert "without a key" in doctor._model(self.with_(settings, place, **base)).detail
        key = place / "key"
        keyed = self.with_(settings, place, **base, model__api_key_file=str(key))
        assert doctor._model(keyed).verdict is doctor.Verdict.FAIL
        key.write_text("k")
        key.chmod(0o644)
        assert "readable by others" in doctor._model(keyed).detail
        key.chmod(0o600)
        assert doctor._model(keyed).verdict is doctor.Verdict.OK

    def test_switches_are_loud(self, settings: SupervisorSettings, place: Path) -> None:
        assert doctor._inspection(settings).verdict is doctor.Verdict.OK
        assert (
            doctor._inspection(self.with_(settings, place, debug__inspection="true")).verdict
            is doctor.Verdict.WARN
        )
        assert doctor._network(settings).verdict is doctor.Verdict.OK
        loose = self.with_(settings, place, network__mode="unrestricted")
        assert doctor._network(loose).verdict is doctor.Verdict.WARN

    def test_chromium(self, settings: SupervisorSettings, place: Path) -> None:
        missing = self.with_(settings, place, chromium__executable="/nonexistent/chromium")
        assert doctor._chromium(missing).verdict is not doctor.Verdict.OK
        assert isinstance(settings.chromium, ChromiumSettings)

    def test_this_installation(self, settings: SupervisorSettings) -> None:
        for check in (doctor._python, doctor._packages, doctor._extension, doctor._disk):
            assert doctor._guarded(check, settings).verdict is doctor.Verdict.OK

    def test_a_check_that_breaks_is_a_failed_check(self, settings: SupervisorSettings) -> None:
        def broken(_: SupervisorSettings) -> doctor.Check:
            raise OSError(13, "Permission denied")

        def refused(_: SupervisorSettings) -> doctor.Check:
            raise Unavailable("no", next_step="do")

        assert doctor._guarded(broken, settings).verdict is doctor.Verdict.FAIL
        assert doctor._guarded(refused, settings) == doctor.Check("refused", doctor.Verdict.FAIL, "no", "do")

    @pytest.mark.parametrize(
        ("sandbox", "verdict"),
        [
            ({}, doctor.Verdict.FAIL),
            ({"level": "contained", "layers": []}, doctor.Verdict.OK),
            (
                {"level": "filtered", "layers": [{"name": "landlock", "on": False, "reason": "ENOSYS"}]},
                doctor.Verdict.WARN,
            ),
            ({"level": "unsandboxed", "layers": []}, doctor.Verdict.FAIL),
        ],
    )
    def test_sandbox_levels(self, sandbox: dict[str, Any], verdict: doctor.Verdict) -> None:
        check = doctor._sandbox({"sandbox": sandbox})
        assert check.verdict is verdict
        if sandbox.get("layers"):
            assert "landlock off (ENOSYS)" in check.detail

    def test_the_report_has_marks_and_remedies(self) -> None:
        line = doctor._line(doctor.Check("x", doctor.Verdict.FAIL, "broken [here]", "mend"))
        assert "✗" in line
        assert "mend" in line


def test_a_typed_answer_in_its_short_form_and_as_json(tmp_path: Path) -> None:
    made = delegate.read_answer(
        "found:boolean, price: number,n:integer,state:in stock|sold out,day:date,note:text"
    )
    assert made["required"] == ["found", "price", "n", "state", "day", "note"]
    assert made["properties"]["state"] == {"type": "string", "enum": ["in stock", "sold out"]}
    file = tmp_path / "answer.json"
    file.write_text(json.dumps(made))
    assert delegate.read_answer(str(file)) == delegate.read_answer(json.dumps(made)) == made
    for text, said in (("x" * 9_000, "over 8 KiB"), ("[]", "no JSON object")):
        file.write_text(text)
        with pytest.raises(UsageError, match=said):
            delegate.read_answer(str(file))


def test_the_policy_of_the_command_line() -> None:
    wanted = delegate.Wanted(
        "x",
        None,
        "auto",
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        "found:boolean",
        ["https://a.example"],
        True,
        True,
    )
    request = delegate.build(wanted)
    assert request.policy == Policy(
        origins=("https://a.example",), actions=Actions.READ, free_text=FreeText.NONE
    )
    assert request.answer is not None
