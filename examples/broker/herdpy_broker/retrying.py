"""Dead letters are taken up again: several, or all of a filter.

Layer 1: each in a transaction of its own, so an interruption leaves those that were taken up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from herdpy_broker import letters, listing
from herdpy_broker.errors import NoSuchTaskError
from herdpy_broker.listing import DeadFilter
from herdpy_broker.transactions import Connection


def retry_each(connection: Connection, ids: Sequence[int]) -> tuple[int, int]:
    """Take dead letters up again: how many were, and how many were no dead letters any more."""
    missed = 0
    for ident in ids:
        try:
            letters.retry(connection, ident)
        except NoSuchTaskError:
            missed += 1
    return len(ids) - missed, missed


def retry_chosen(
    connection: Connection,
    chosen: DeadFilter,
    most: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[int, int]:
    """Take up again the dead letters of a filter, the lowest ids first, as ``retry_each`` does.

    One that dies again meanwhile is not taken up twice.

    Args:
        most: so many at most; None for all.
        progress: is called with how many were looked at so far.
    """
    done, missed, last = 0, 0, 0
    while most is None or done + missed < most:
        left = listing.MOST if most is None else min(listing.MOST, most - done - missed)
        ids = listing.dead_ids(connection, chosen, last, left)
        if not ids:
            break
        last = ids[-1]
        more_done, more_missed = retry_each(connection, ids)
        done, missed = done + more_done, missed + more_missed
        progress(done + missed)
    return done, missed
