"""Rows with known ids: each acknowledged insert is there, exactly once, and no refused one is."""

from __future__ import annotations

from herdpy.drill.checkers import members
from herdpy.drill.history import History
from herdpy.drill.judging import Verdict

NAME = "inserts"


def check(history: History) -> Verdict:
    """Judge "insert" and "rows". Kinds: lost, undone, doubled and unexpected insert; stale read."""
    return members.judge(history, name=NAME, add="insert", read="rows", noun="insert")
