"""One publication: a process writes the snapshot; what readers may begin from is recorded.

Top of the package, on the loop's thread; ``child`` is the process, which is started, answered, and killed
when nobody needs it any more. Who calls this says where leases are, and keeps the record of what is
published.

The process is started by ``subprocess``, which uses vfork. A loop's own way of starting processes forks,
and then threads of gRPC, which begin again in the copy, may end it by a signal before it has become another
program.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from herdpy.log.lsn import LSN
from herdpy.log.published import Dated, Retention, SnapshotRef, choose
from herdpy_server.child_process import ChildEndedError, Line, SilentChildError, heard_line, line_to
from herdpy_server.publishing.messages import (
    At,
    Failed,
    Holds,
    Progress,
    Removed,
    Start,
    Stay,
    Written,
    encode,
    from_child,
)
from herdpy_server.publishing.snapshot import Moment
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.publishing")

STALLED_AFTER_S = 900.0
"""A process that says nothing for so long is killed: a place that does not answer may hold it for ever."""

_MODULE = "herdpy_server.publishing.child"
_SQLSTATES = {"store": "XX001", "place": "58030", "other": "58000"}


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be published where.

    Attributes:
        store: the directory of LMDB's environment.
        niceness: how far the process stands back.
    """

    store: Path
    url: str
    tablespace: str
    niceness: int = 10


@dataclass(frozen=True, slots=True)
class Published:
    """A snapshot that is there now."""

    url: str
    lsn: LSN
    time_us: int
    rows: int
    size_bytes: int


Snapshots = Sequence[tuple[LSN, int]]
"""LSNs and times of the snapshots at a place, newest first."""

MomentOf = Callable[[LSN], Awaitable[Moment]]
Decide = Callable[[Published, Snapshots], Awaitable[Collection[LSN]]]
"""Is given what is there now; says what stays of it (nothing: all of it)."""
ReportProgress = Callable[[int, int, int], object]
"""Called with rows that are written, of how many (0: unknown), and their bytes."""


async def publish(
    order: Order,
    moment_of: MomentOf,
    decide: Decide,
    report: ReportProgress = lambda _rows, _total, _bytes: None,
) -> Published:
    """Publish the newest state of a store by a process of its own; cancelled, it leaves no snapshot.

    Raises:
        SqlError: XX001, the store is damaged; 58030, the place refused something; 58000, the process ended.
    """
    start = Start(
        store=str(order.store),
        url=order.url,
        tablespace=order.tablespace,
        niceness=order.niceness,
        parent=os.getpid(),
    )
    command = [sys.executable, "-m", _MODULE, encode(start).decode()]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        async with line_to(process) as line:
            return await _conversation(process, line, order, moment_of, decide, report)
    finally:
        process.kill()
        await asyncio.shield(asyncio.to_thread(process.wait))


async def _conversation(
    process: subprocess.Popen[bytes],
    line_to_child: Line,
    order: Order,
    moment_of: MomentOf,
    decide: Decide,
    report: ReportProgress,
) -> Published:
    output, answers = line_to_child
    total = 0
    published: Published | None = None
    held: LSN | None = None
    while True:
        try:
            line = await heard_line(process, output, STALLED_AFTER_S)
        except SilentChildError:
            raise SqlError(
                "58030", f"nothing was written to {order.url} for {STALLED_AFTER_S:g} s", hint="Is it there?"
            ) from None
        except ChildEndedError as error:
            raise SqlError("58000", f"the publishing process ended before it was done ({error})") from None
        answer: At | Stay | None = None
        match from_child.decode(line):
            case Holds(lsn, rows):
                held, total = lsn, rows
                moment = await moment_of(lsn)
                answer = At(moment.log_id, moment.crc, moment.time_us)
            case Progress(rows, written):
                report(rows, total, written)
            case Written() as done:
                assert held is not None
                for text in done.damaged:
                    logger.error("%s", text)
                report(done.rows, done.rows, done.bytes)
                published = Published(order.url, held, done.time_us, done.rows, done.bytes)
                answer = Stay(list(await decide(published, done.found)))
            case Removed(lsns):
                assert published is not None
                if lsns:
                    logger.info(
                        "snapshots removed", extra={"url": order.url, "lsns": [str(one) for one in lsns]}
                    )
                return published
            case Failed(kind, text):
                raise SqlError(_SQLSTATES[kind], text)
        if answer is not None:
            answers.write(encode(answer) + b"\n")
            with contextlib.suppress(ConnectionError):  # the next line finds that it has ended
                await answers.drain()


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


RecordShelf = Callable[[Shelf], Awaitable[object]]


async def publish_and_prune(
    order: Order,
    moment_of: MomentOf,
    retention: Retention,
    leased: Leased,
    record: RecordShelf,
    report: ReportProgress,
) -> Published:
    """Publish, record what readers may begin from now on, and only then remove the rest.

    A reader leases a snapshot first and looks after that whether it is still recorded; here its record
    is removed first, and leases are looked at after that. Whichever comes second sees the other, so what a
    reader believes to hold is not removed. Raises as ``process.publish``, and as ``leased`` and ``record``.
    """

    async def decide(done: Published, found: Snapshots) -> Collection[LSN]:
        shelf = _chosen(order, retention, done, found, await leased())
        await record(shelf)
        return [lsn for lsn, _time in _chosen(order, retention, done, found, await leased()).snapshots]

    return await publish(order, moment_of, decide, report)


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


async def copy(order: Order, moment_of: MomentOf, report: ReportProgress) -> Published:
    """Publish to a place of the caller's own: nothing there is removed. Raises as ``process.publish``."""

    async def all_of_it(_done: Published, _found: Snapshots) -> Collection[LSN]:
        return ()

    return await publish(order, moment_of, all_of_it, report)
