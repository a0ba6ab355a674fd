"""What tests of ops share: an opener of tabs, and the parts of a reply a test is sure of."""

from __future__ import annotations

from collections.abc import Callable

from browsercell.protocol.frames import Changes, PageReply, Rows

from .conftest import Tab

Open = Callable[[str], Tab]
ATTACHED = "chrome.debugger.getTargets().then(all => all.some(t => t.tabId === TAB && t.attached))"


def changed(reply: PageReply) -> Changes:
    """What an action says it changed."""
    assert reply.changes is not None
    return reply.changes


def table(reply: PageReply) -> Rows:
    """What an extraction gave."""
    assert reply.rows is not None
    return reply.rows
