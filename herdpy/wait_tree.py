"""Waits for locks as lines of a tree: holders first, under each the sessions that wait for it.

At the bottom: it imports nothing of ours and knows numbers only. Data passes so: a view of locks gives for
each session those that block it; the lines come out in the order in which they are shown. Locks are read one
after another while sessions go on, so a session may wait for one that has gone, and two may seem to wait for
each other; neither can make the walk endless.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class WaitLine(NamedTuple):
    """A session in the tree.

    Attributes:
        pid: the session's number.
        depth: 0 for one that holds what others wait for, one more than its blocker's for one that waits.
        is_repeated: it stands above already (it waits for two, or for itself by way of others), and those
            that wait for it are not shown again.
        waiting: how many sessions wait for it, by way of others too, each counted once.
    """

    pid: int
    depth: int
    is_repeated: bool
    waiting: int


def wait_tree(blocked_by: Mapping[int, Sequence[int]]) -> list[WaitLine]:
    """The lines of the tree; none where nobody waits.

    Args:
        blocked_by: for each session that waits, those that block it. Others may be there with none.
    """
    waiters: dict[int, list[int]] = {}
    waiting = {pid for pid, blockers in blocked_by.items() if blockers}
    for pid in sorted(waiting):
        for blocker in dict.fromkeys(blocked_by[pid]):
            waiters.setdefault(blocker, []).append(pid)
    lines: list[WaitLine] = []
    shown: set[int] = set()
    # Those in a cycle have no root above them: the first of each stands for one.
    for root in [*sorted(waiters.keys() - waiting), *sorted(waiting)]:
        if root not in shown:
            _walk(root, waiters, shown, lines)
    return lines


def _walk(root: int, waiters: Mapping[int, Sequence[int]], shown: set[int], lines: list[WaitLine]) -> None:
    ahead = [(root, 0)]
    while ahead:
        pid, depth = ahead.pop()
        is_repeated = pid in shown
        shown.add(pid)
        lines.append(WaitLine(pid, depth, is_repeated, _count(pid, waiters)))
        if not is_repeated:
            ahead += [(waiter, depth + 1) for waiter in reversed(waiters.get(pid, ()))]


def _count(pid: int, waiters: Mapping[int, Iterable[int]]) -> int:
    found = {pid}
    ahead = [pid]
    while ahead:
        for waiter in waiters.get(ahead.pop(), ()):
            if waiter not in found:
                found.add(waiter)
                ahead.append(waiter)
    return len(found) - 1
