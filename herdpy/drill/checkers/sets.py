"""A set: no acknowledged element is lost, none that was refused is there, none is there twice."""

from __future__ import annotations

from herdpy.drill.checkers import members
from herdpy.drill.history import History
from herdpy.drill.judging import Verdict

NAME = "sets"


def check(history: History) -> Verdict:
    """Judge "add" and "members". Kinds: lost, undone, doubled and unexpected element; stale read."""
    return members.judge(history, name=NAME, add="add", read="members", noun="element")
