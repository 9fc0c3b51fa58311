"""A publishing process as its server sees it: started, answered, and killed when nobody wants it any more.

Above ``messages``; ``child`` is the other end. On the loop's thread.

It is started by ``subprocess``, which uses vfork. A loop's own way of starting processes forks, and then
threads of gRPC, which begin again in the copy, may end it by a signal before it has become another program.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from asyncio.streams import FlowControlMixin
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from herdpy.log.lsn import LSN
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

_Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_LINE_BYTES = 16 << 20
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
"""Told of what is there now; says what stays of it (nothing: all of it)."""
Told = Callable[[int, int, int], object]
"""Called with rows that are written, of how many (0: unknown), and their bytes."""


async def publish(
    order: Order,
    moment_of: MomentOf,
    decide: Decide,
    told: Told = lambda _rows, _total, _bytes: None,
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
        async with _line_to(process) as line:
            return await _conversation(process, line, order, moment_of, decide, told)
    finally:
        process.kill()
        await asyncio.shield(asyncio.to_thread(process.wait))


@asynccontextmanager
async def _line_to(process: subprocess.Popen[bytes]) -> AsyncIterator[_Line]:
    """Its output and its input."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LINE_BYTES)
    output, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
    feed, protocol = await loop.connect_write_pipe(FlowControlMixin, process.stdin)
    try:
        yield reader, asyncio.StreamWriter(feed, protocol, None, loop)
    finally:
        feed.close()
        output.close()


async def _conversation(
    process: subprocess.Popen[bytes],
    line_to: _Line,
    order: Order,
    moment_of: MomentOf,
    decide: Decide,
    told: Told,
) -> Published:
    output, answers = line_to
    total = 0
    published: Published | None = None
    held: LSN | None = None
    while True:
        try:
            async with asyncio.timeout(STALLED_AFTER_S):
                line = await output.readline()
        except TimeoutError:
            raise SqlError(
                "58030", f"nothing was written to {order.url} for {STALLED_AFTER_S:g} s", hint="Is it there?"
            ) from None
        if not line.endswith(b"\n"):
            status = await asyncio.to_thread(process.wait)
            raise SqlError("58000", f"the publishing process ended before it was done (status {status})")
        answer: At | Stay | None = None
        match from_child.decode(line):
            case Holds(lsn, rows):
                held, total = lsn, rows
                moment = await moment_of(lsn)
                answer = At(moment.log_id, moment.crc, moment.time_us)
            case Progress(rows, written):
                told(rows, total, written)
            case Written() as done:
                assert held is not None
                for text in done.damaged:
                    logger.error("%s", text)
                told(done.rows, done.rows, done.bytes)
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
            with contextlib.suppress(ConnectionError):  # that it has ended is told by the next line
                await answers.drain()
