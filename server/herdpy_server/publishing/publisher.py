"""One publication with all that belongs to it: the snapshot, what readers may begin from now on, what goes.

Top of the package. Who calls it says where leases are, and keeps the word about what is published.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from herdpy.log.lsn import LSN
from herdpy.log.published import Dated, Retention, SnapshotRef, choose
from herdpy_server.publishing.process import MomentOf, Order, Published, Snapshots, Told, publish

Leased = Callable[[], Awaitable[Collection[LSN]]]
"""The positions that readers hold now."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """What readers may begin from.

    Attributes:
        newest: what was published last.
        snapshots: all that stay, newest first, with their times; the newest too.
        floor: the log's entries after it are to be kept.
    """

    newest: Published
    snapshots: Sequence[tuple[LSN, int]]
    floor: LSN


Tell = Callable[[Shelf], Awaitable[object]]


async def publish_and_prune(
    order: Order, moment_of: MomentOf, retention: Retention, leased: Leased, tell: Tell, told: Told
) -> Published:
    """Publish, tell what readers may begin from now on, and only then remove the rest.

    A reader leases a snapshot first and looks after that whether it is still told of; here it is no longer
    told of first, and leases are looked at after that. Whichever comes second sees the other, so what a
    reader believes to hold is not removed. Raises as ``process.publish``, and as ``leased`` and ``tell``.
    """

    async def decide(done: Published, found: Snapshots) -> Collection[LSN]:
        shelf = _chosen(order, retention, done, found, await leased())
        await tell(shelf)
        return [lsn for lsn, _time in _chosen(order, retention, done, found, await leased()).snapshots]

    return await publish(order, moment_of, decide, told)


def _chosen(
    order: Order, retention: Retention, done: Published, found: Snapshots, leased: Collection[LSN]
) -> Shelf:
    """What stays of what was found."""
    times = {**dict(found), done.lsn: done.time_us}
    there = [
        Dated(SnapshotRef(order.url, order.tablespace, lsn), times[lsn])
        for lsn in sorted(times, reverse=True)
    ]
    kept, floor = choose(there, retention, leased=leased, now_us=time.time_ns() // 1000)
    lsns = {done.lsn, *(ref.lsn for ref in kept)}
    assert floor is not None
    return Shelf(done, [(lsn, times[lsn]) for lsn in sorted(lsns, reverse=True)], floor)


async def copy(order: Order, moment_of: MomentOf, told: Told) -> Published:
    """Publish to a place of the caller's own: nothing there is removed. Raises as ``process.publish``."""

    async def all_of_it(_done: Published, _found: Snapshots) -> Collection[LSN]:
        return ()

    return await publish(order, moment_of, all_of_it, told)
