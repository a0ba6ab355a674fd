"""The Django admin, a page nobody here wrote: sign in with a filled-in form, filter a list, change one record.

What happened is asked of its database. The password is the form's own; it must stay in the page.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from browsercell.protocol.client import Client
from browsercell.protocol.results import SideEffects, Status

from tests.support.apps.django_app import DjangoAdmin, django_admin
from tests.support.apps.django_site import ADMIN
from tests.support.live import (
    Live,
    Step,
    click,
    done,
    expect,
    navigate,
    observe,
    said,
    table_to,
    tool,
    type_in,
    wanted,
)

USERNAME = "Username"
SIGN_IN: list[Step] = [
    navigate("${site}/admin/login/?next=/admin/auth/user/"),
    type_in("textbox", "Username", ADMIN),
    click("button", "Log in"),
    expect(text="Select user to change"),
]


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DjangoAdmin]:
    with django_admin(tmp_path_factory.mktemp("django")) as running:
        yield running


def test_sign_in_with_a_filled_form_filter_and_export(host: Client, admin: DjangoAdmin, outbox: Path) -> None:
    result = host.delegate(
        "Export the staff",
        browser="private",
        deliverables=[wanted("staff", "staff.json")],
        playbook=[
            *SIGN_IN,
            click("link", "Yes", nth=1),
            expect(url="is_staff__exact=1"),
            observe("interactive"),
            table_to("staff", form="json"),
            done(),
        ],
        variables={"site": admin.url},
    )
    assert result.status is Status.COMPLETED, said(result)
    rows = json.loads((outbox / "staff.json").read_text())
    staff = admin.select("select username, first_name from auth_user where is_staff order by username")
    assert len(staff) == 42
    shown = [(row[USERNAME], row["First name"].replace("-", "")) for row in rows]  # - stands for nothing
    assert shown == staff


def test_the_password_is_neither_written_nor_seen(
    host: Client, admin: DjangoAdmin, live: Live, outbox: Path
) -> None:
    sessions = admin.select("select count(*) from django_session")
    result = host.delegate(
        "Type another password",
        browser="private",
        deliverables=[wanted("page", "page.md", "text"), wanted("form", "form.json", "list")],
        playbook=[
            navigate("${site}/admin/login/"),
            observe("document"),
            observe("interactive"),
            tool("page_extract", "page", kind="text", to_artifact="markdown"),
            type_in("textbox", "Password", "another one"),
            done(),
        ],
        variables={"site": admin.url},
    )
    assert result.status is Status.BLOCKED, said(result)
    assert "Step 5" in result.summary
    assert "sensitive-field" in result.summary
    assert admin.select("select count(*) from django_session") == sessions
    held = admin.password.encode()
    assert held not in msgspec.json.encode(result)
    kept = [path for path in live.state.rglob("*") if path.is_file() and path.name != "pairing-token"]
    delivered = [path for path in outbox.rglob("*") if path.is_file()]
    assert kept
    for path in (*kept, *delivered):
        assert held not in path.read_bytes(), path.name


def test_one_save_is_one_change(host: Client, admin: DjangoAdmin) -> None:
    log = "select count(*) from django_admin_log where object_repr = 'user007'"
    before = admin.select("select first_name, last_name from auth_user where username = 'user007'")
    assert before != [("Ada", "Lovelace")]
    assert admin.select(log) == [(0,)]
    result = host.delegate(
        "Rename user007",
        browser="private",
        playbook=[
            *SIGN_IN,
            click("link", "user007"),
            expect(text="Change user"),
            type_in("textbox", "First name:", "Ada"),
            type_in("textbox", "Last name:", "Lovelace"),
            click("button", "Save"),
            expect(text="was changed successfully"),
            done("Renamed"),
        ],
        variables={"site": admin.url},
    )
    assert result.status is Status.COMPLETED, said(result)
    assert admin.select("select first_name, last_name from auth_user where username = 'user007'") == [
        ("Ada", "Lovelace")
    ]
    assert admin.select(log) == [(1,)]
    assert result.side_effects in (SideEffects.POSSIBLE, SideEffects.CONFIRMED)


def test_a_delete_takes_one_record_and_asks_first(host: Client, admin: DjangoAdmin, outbox: Path) -> None:
    everyone = admin.select("select count(*) from auth_user")[0][0]
    result = host.delegate(
        "Delete user011",
        browser="private",
        deliverables=[wanted("left", "left.csv")],
        playbook=[
            *SIGN_IN,
            click("link", "user011"),
            expect(text="Change user"),
            click("link", "Delete"),
            expect(text="Are you sure"),
            click("button", "Yes, I’m sure"),
            expect(text="was deleted successfully"),
            table_to("left"),
            done("Deleted"),
        ],
        variables={"site": admin.url},
    )
    assert result.status is Status.COMPLETED, said(result)
    assert admin.select("select count(*) from auth_user where username = 'user011'") == [(0,)]
    assert admin.select("select count(*) from auth_user")[0][0] == everyone - 1
    with (outbox / "left.csv").open(newline="", encoding="utf-8") as stream:
        names = {row[USERNAME] for row in csv.DictReader(stream)}
    assert "user011" not in names
    assert "user012" in names
    assert result.side_effects in (SideEffects.POSSIBLE, SideEffects.CONFIRMED)
