"""Cycles of owners that wait for one another, found before the last edge is drawn. Beside ``locks``.

A session has locks in two tables: its transaction those of rows, itself the advisory ones. Each of the two
owners is the other's *partner*: whoever waits for the one waits for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.tablespace.lock import Lock, Owner
from herdpy_sql.lock_modes import CONFLICTS, UPDATE

if TYPE_CHECKING:
    from herdpy_server.tablespace.locks import LockTable


def would_deadlock(table: LockTable, owner: Owner, lock: Lock, mode: int) -> bool:
    """Whether ``owner``, if it waited for ``lock`` of ``table``, would wait for ever."""
    tables = (table,) if table.beside is None else (table, table.beside)
    mine = _both(owner)
    if not any(one.is_wanted_of(face) for one in tables for face in mine):
        return False  # nobody waits for it: it holds nothing that is wanted, and is queued nowhere yet
    seen: set[int] = set()
    frontier = _ahead(lock, owner, mode)
    while frontier:
        holder = frontier.pop()
        if holder in mine:
            return True
        if id(holder) in seen:
            continue
        seen.add(id(holder))
        for face in _both(holder):
            for one in tables:
                blocker = one.waited_for_by(face)
                if blocker is None:
                    continue
                if blocker is lock and owner in lock.holders and face not in lock.holders:
                    return True  # it would stand before that one in the queue
                frontier.extend(_ahead(blocker, face))
    return False


def _both(owner: Owner) -> tuple[Owner, ...]:
    partner = owner.partner
    return (owner,) if partner is None else (owner, partner)


def _ahead(lock: Lock, owner: Owner, mode: int | None = None) -> list[Owner]:
    """Whom ``owner`` waits for at this lock: holders that exclude it, and those queued before it.

    ``mode``: what it is about to wait for; None when it waits already.
    """
    ahead = []
    for queued, _wait, wanted in lock.queue:
        if queued is owner:
            mode = wanted
            break
        if mode is None or owner not in lock.holders or queued in lock.holders:
            ahead.append(queued)
    excluded = CONFLICTS[UPDATE if mode is None else mode]
    ahead += [one for one, mask in lock.holders.items() if mask & excluded and one is not owner]
    return ahead
