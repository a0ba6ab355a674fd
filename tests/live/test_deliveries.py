"""Deliveries through the whole product: what is refused, and that a retry after the cause is gone needs no browser."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsercell.protocol.client import Client
from browsercell.protocol.errors import BlockerCode
from browsercell.protocol.results import BrowserDelegateResult, DeliveryStatus, Status
from browsercell.supervisor.demo.server import Bookshop

from tests.support.live import Live, done, navigate, said, table_to, tool, wanted


def once(change: Callable[[], object]) -> Callable[[object], None]:
    """A listener that makes `change` at the first progress: after the path was found good, before it is used."""
    left = [change]

    def listen(_progress: object) -> None:
        while left:
            left.pop()()

    return listen


def prices(host: Client, shop: Bookshop, path: str, **more: Any) -> BrowserDelegateResult:
    """Export the price table to `path`."""
    return host.delegate(
        "Export the prices",
        browser="private",
        deliverables=[wanted("prices", path)],
        playbook=[navigate("${site}/prices"), table_to("prices", "Prices"), done()],
        variables={"site": shop.url},
        **more,
    )


def test_a_delivered_file_is_what_the_result_says(host: Client, bookshop: Bookshop, outbox: Path) -> None:
    (outbox / "deep").mkdir()
    result = prices(host, bookshop, "deep/prices.csv")
    assert result.status is Status.COMPLETED, said(result)
    (delivery,) = result.deliveries
    data = (outbox / "deep" / "prices.csv").read_bytes()
    assert (delivery.size, delivery.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert [path.name for path in outbox.rglob("*")] == ["deep", "prices.csv"]


def test_an_existing_file_is_never_overwritten_and_a_retry_delivers(
    host: Client, bookshop: Bookshop, outbox: Path, live: Live
) -> None:
    target = outbox / "prices.csv"
    result = prices(host, bookshop, "prices.csv", on_progress=once(lambda: target.write_text("mine")))
    assert (result.status, result.execution_status) == (Status.PARTIAL, Status.COMPLETED), said(result)
    assert [delivery.code for delivery in result.deliveries] == ["exists"]
    assert target.read_text() == "mine"
    artifact = result.artifacts[0].artifact_id

    assert [again.code for again in host.deliver([artifact])] == ["exists"]
    with live.client(outbox) as stranger:  # a grant belongs to one session
        assert [again.code for again in stranger.deliver([artifact])] == ["unknown-grant"]
    target.unlink()
    bookshop.stop()  # a delivery that ran the browser again would fail now
    (again,) = host.deliver([artifact])
    assert again.delivered, again
    assert hashlib.sha256(target.read_bytes()).hexdigest() == result.artifacts[0].sha256


def test_a_link_in_the_path_is_not_followed(
    host: Client, bookshop: Bookshop, outbox: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (outbox / "sub").mkdir()

    def swap() -> None:
        (outbox / "sub").rmdir()
        (outbox / "sub").symlink_to(elsewhere)

    result = prices(host, bookshop, "sub/prices.csv", on_progress=once(swap))
    assert result.status is Status.PARTIAL, said(result)
    assert [delivery.code for delivery in result.deliveries] == ["symlink"]
    assert list(elsewhere.iterdir()) == []
    (outbox / "sub").unlink()
    (outbox / "sub").mkdir()
    (again,) = host.deliver([result.artifacts[0].artifact_id])
    assert again.delivered, again
    assert (outbox / "sub" / "prices.csv").exists()


def test_a_missing_folder_is_named_and_another_path_can_be_given(
    host: Client, bookshop: Bookshop, outbox: Path
) -> None:
    (outbox / "nowhere").mkdir()
    result = prices(host, bookshop, "nowhere/prices.csv", on_progress=once((outbox / "nowhere").rmdir))
    assert result.status is Status.PARTIAL, said(result)
    assert [delivery.code for delivery in result.deliveries] == ["no-such-directory"]
    (again,) = host.deliver([{"artifactId": result.artifacts[0].artifact_id, "path": "here.csv"}])
    assert again.delivered, again
    assert (outbox / "here.csv").stat().st_size == again.size


@pytest.mark.parametrize(
    "path", ["../prices.csv", "/prices.csv", "a/../../b.csv", "a//b.csv", "nowhere/prices.csv"]
)
def test_a_path_that_can_not_be_used_is_refused_before_anything_runs(
    host: Client, bookshop: Bookshop, outbox: Path, path: str
) -> None:
    result = prices(host, bookshop, path)
    assert (result.status, result.blocker_code) == (Status.FAILED, BlockerCode.INVALID_REQUEST), said(result)
    assert result.usage.generations == 0
    assert list(outbox.iterdir()) == []


def test_a_deliverable_that_was_never_made_is_missing(host: Client, bookshop: Bookshop) -> None:
    result = host.delegate(
        "Take a picture, or rather not",
        browser="private",
        deliverables=[wanted("picture", "picture.png", "screenshot")],
        playbook=[navigate("${site}/"), tool("page_extract", kind="text"), done()],
        variables={"site": bookshop.url},
    )
    assert (result.status, result.execution_status) == (Status.PARTIAL, Status.COMPLETED), said(result)
    assert any("picture" in missing for missing in result.unmet_requirements)
    assert result.delivery_status is not DeliveryStatus.COMPLETED
