"""The two planners behind one interface (design 6): `llm` asks the model bridge, `playbook` follows a list of steps.

Pure: chooses and imports, nothing else. A planner never sees a link, a clock or a random source; the loop feeds it events
and carries out its one next action.
"""

from __future__ import annotations

from ...protocol.frames import Assignment
from ...protocol.results import PlannerKind
from .base import Planner
from .llm import LlmPlanner
from .playbook import PlaybookPlanner

__all__ = ["Planner", "make"]


def make(assignment: Assignment) -> Planner:
    """The planner that `assignment.planner` names."""
    if assignment.planner is PlannerKind.PLAYBOOK:
        return PlaybookPlanner(assignment)
    return LlmPlanner(assignment)
