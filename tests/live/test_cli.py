"""The command line as a person uses it: playbooks from files, deliveries, JSON, progress, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from browsercell.supervisor.demo import catalogue
from browsercell.supervisor.demo.server import TABLE_ROWS, Bookshop

from tests.support.live import Live, cli, done, expect, navigate, own_settings, private_place, sets, table_to

NO_TRACE = "Traceback"
PRICES = [navigate("${site}/prices"), table_to("prices", "Prices"), done("Prices exported")]
PRICES_TOML = """
[[steps]]
tool = "browser_page_navigate"
args = { url = "${site}/prices" }

[[steps]]
tool = "browser_page_extract"
args = { kind = "table", target = { role = "table", name = "Prices", nth = 1 }, to_artifact = "csv" }
purpose = "prices"

[[steps]]
[steps.finish]
status = "completed"
summary = "Prices exported"
"""


@pytest.fixture
def playbook(tmp_path: Path) -> Path:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(PRICES))
    return path


def delegate(live: Live, *arguments: str) -> list[str]:
    """Arguments of a private delegation through the running supervisor."""
    del live
    return ["delegate", "Export the prices", "--browser", "private", *arguments]


def test_a_playbook_and_a_delivery_in_json(
    live: Live, bookshop: Bookshop, playbook: Path, outbox: Path
) -> None:
    done = cli(
        *delegate(live, "--playbook", str(playbook), "--var", f"site={bookshop.url}"),
        *("--deliver", "prices:table:prices.csv", "--directory", str(outbox), "--json"),
        runtime=live.runtime,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["status"], result["summary"]) == ("completed", "Prices exported")
    assert result["deliveries"][0]["path"] == "prices.csv"
    lines = (outbox / "prices.csv").read_text().splitlines()
    assert len(lines) == TABLE_ROWS + 1
    # Not a terminal: one plain line a phase on standard error, nothing but the document on standard output.
    remarks = done.stderr.splitlines()
    assert all(line.startswith("… ") for line in remarks), remarks
    assert len(remarks) == len(set(remarks))
    assert "\x1b" not in done.stderr + done.stdout


def test_a_toml_playbook_and_text_for_a_person(
    live: Live, bookshop: Bookshop, tmp_path: Path, outbox: Path
) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(PRICES_TOML)
    done = cli(
        *delegate(live, "--playbook", str(path), "--var", f"site={bookshop.url}"),
        *("--deliver", "prices:table:prices.csv", "--directory", str(outbox)),
        runtime=live.runtime,
    )
    assert done.returncode == 0, done.stderr
    assert "completed" in done.stdout
    assert "prices.csv" in done.stdout
    first = catalogue.ordered(catalogue.BOOKS[:TABLE_ROWS], catalogue.Column.TITLE, descending=False)[0]
    assert first.title in (outbox / "prices.csv").read_text()


def test_it_starts_a_supervisor_where_none_runs(bookshop: Bookshop, playbook: Path) -> None:
    with private_place() as place:
        settings = own_settings(place, {"network.mode": "allowlist", "network.allow_hosts": "127.0.0.1"})
        done = cli(
            *("delegate", "Export", "--browser", "private", "--playbook", str(playbook)),
            *("--var", f"site={bookshop.url}", "--json", *sets(settings)),
            runtime=f"{place}/run",
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["status"] == "completed"
        gone = cli("status", runtime=f"{place}/run")
        assert (gone.returncode, gone.stdout) == (3, "")  # it has ended with its client


def test_a_task_that_does_not_complete_is_exit_code_1(live: Live, bookshop: Bookshop, tmp_path: Path) -> None:
    path = tmp_path / "never.json"
    path.write_text(
        json.dumps([navigate("${site}/"), expect(timeout_ms=300, text="no page says this"), done()])
    )
    done_ = cli(
        *delegate(live, "--playbook", str(path), "--var", f"site={bookshop.url}", "--json"),
        runtime=live.runtime,
    )
    assert done_.returncode == 1, done_.stderr
    assert json.loads(done_.stdout)["blockerCode"] == "expectation-failed"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--playbook", "/nonexistent.json"], "can't be read"),
        (["--var", "site"], "NAME=VALUE"),
        (["--deliver", "prices"], "PURPOSE:KIND:PATH"),
        (["--deliver", "prices:picture:a.csv"], "deliverables"),
        (["--browser", "netscape"], "browser"),
        (["--steps", "900"], "steps"),
        (["--no-such-option"], "--no-such-option"),
        (["--set", "network.mood=strict"], "did you mean mode"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(live: Live, arguments: list[str], words: str) -> None:
    done = cli(*delegate(live, *arguments), runtime=live.runtime)
    assert done.returncode == 2, done
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stdout == ""
    assert NO_TRACE not in done.stderr


def test_a_missing_variable_and_a_secret_are_exit_code_2(live: Live, playbook: Path) -> None:
    missing = cli(*delegate(live, "--playbook", str(playbook), "--json"), runtime=live.runtime)
    assert missing.returncode == 2, missing
    assert "${site}" in json.loads(missing.stdout)["summary"]
    secret = cli(
        "delegate",
        "Log in with password: hunter2hunter2",
        "--browser",
        "private",
        "--json",
        runtime=live.runtime,
    )
    assert secret.returncode == 2, secret
    assert json.loads(secret.stdout)["blockerCode"] == "secret-in-goal"
    assert "hunter2" not in secret.stdout + secret.stderr


def test_a_goal_without_a_model_is_exit_code_3(live: Live) -> None:
    done = cli("delegate", "Think", "--browser", "private", runtime=live.runtime)
    assert done.returncode == 3, done
    assert "model-unconfigured" in done.stdout
    assert "base_url" in done.stdout


def test_status_names_every_process(live: Live) -> None:
    done = cli("status", "--json", runtime=live.runtime)
    assert done.returncode == 0, done.stderr
    processes = json.loads(done.stdout)["processes"]
    by_role = {process["role"]: process for process in processes}
    assert {"supervisor", "bridge", "model-bridge", "worker"} <= set(by_role)
    assert by_role["supervisor"]["pid"] == live.pid
    assert all(process["memory"] > 0 for process in processes)
    assert by_role["worker"]["sandbox"] in ("contained", "sealed", "filtered")
    said = cli("status", runtime=live.runtime)
    assert said.returncode == 0
    assert "model-bridge" in said.stdout
    token = (live.state / "pairing-token").read_text().strip()
    assert token not in done.stdout + said.stdout
    assert str(live.place) not in done.stdout
