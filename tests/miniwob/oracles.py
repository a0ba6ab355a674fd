"""Which planner plays which task, and the working set that has to be solved whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.support.planner import Planner

from .planners_forms import FORMS
from .planners_marks import MARKS
from .planners_pages import PAGES

ORACLES: Final[Mapping[str, Planner]] = {**FORMS, **PAGES, **MARKS}

# Tasks whose goal is to type a password that the page shows: a worker's tools refuse that (sensitive fields).
REFUSED: Final[Mapping[str, str]] = dict.fromkeys(
    ("enter-password", "login-user", "login-user-popup"), "refused by rule: it asks to type a password"
)

# A game that no play wins every time: counted as played when it reaches an end.
CHANCE: Final[Mapping[str, str]] = {"tic-tac-toe": "the other player moves partly at random, and may begin"}

_WORKING: Final = """
click-test click-test-2 click-button click-button-sequence click-checkboxes click-checkboxes-soft click-collapsible click-color
click-dialog click-link click-menu click-option click-scroll-list click-tab click-tab-2 choose-date-easy choose-list copy-paste
email-inbox email-inbox-delete enter-date enter-password enter-text enter-text-dynamic enter-time find-word focus-text focus-text-2
guess-number login-user login-user-popup multi-layouts navigate-tree number-checkboxes phone-book read-table scroll-text search-engine
simple-algebra simple-arithmetic social-media tic-tac-toe unicode-test use-autocomplete use-spinner
drag-box drag-items drag-sort-numbers use-slider click-pie click-shape
"""
WORKING_SET: Final = tuple(_WORKING.split())
