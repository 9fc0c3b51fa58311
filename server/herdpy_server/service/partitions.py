"""The service Partitions (``herdpy/rpc/partitions.proto``), and the plans that cut tables for it.

A plan cuts a table into ranges of keys with about as many rows each, or has several tables whole, at one
moment. The state is a ``StoreSnapshot`` of what is applied, so it has a position of its own. Where to cut is
found in a thread, by the leaves of LMDB's tree where all rows are in it, else by going through all keys once,
keeping one in so many: the ranges fit the real distribution, and the counts of their rows are exact. All
snapshots are read in one thread: they are for one at a time.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from herdpy.log.lsn import LSN
from herdpy.rpc import common_pb2, partitions_pb2, partitions_pb2_grpc
from herdpy.rpc.positions import lsn_message
from herdpy_server.copy.arrow import ArrowWriter
from herdpy_server.service.calls import going_down, not_there, reached, too_many
from herdpy_server.service.leases import Leases, finished
from herdpy_server.serving.node import ServedNode
from herdpy_server.store import StoreSnapshot
from herdpy_server.store.pages import PageTree
from herdpy_server.store.segments import decoded
from herdpy_sql.catalog import Catalog, Table
from herdpy_sql.definitions import encode_table
from herdpy_sql.errors import SqlError
from herdpy_sql.partition_texts import partitions_hint
from herdpy_sql.values import from_text

if TYPE_CHECKING:
    from herdpy_server.serving.node import Served


MayRead = Callable[[Catalog, Table], None]
"""Raises SqlError 42501 unless the caller may read a table."""


MAX_PARTITIONS = 1024
_LONGEST_LEASE_S = 3600.0
_SAMPLES = 16_384
_CUT_STEP = 1024
_LEAVES = 16
"""So many leaves of each partition are enough to cut there."""
SLICE_ROWS = 16_384
SLICE_BYTES = 1 << 20
_STEP = 256
MAX_READINGS = 64


@dataclass(frozen=True, slots=True)
class Range:
    """Keys from ``low`` up to ``high`` and how many rows have them (-1: nobody counted); None is no bound."""

    low: bytes | None
    high: bytes | None
    rows: int

    def within(self, low: bytes | None, high: bytes | None) -> Range:
        """Those of its keys that are also between ``low`` and ``high``."""
        if low is high is None:
            return self
        lows = [bound for bound in (self.low, low) if bound is not None]
        highs = [bound for bound in (self.high, high) if bound is not None]
        return Range(max(lows, default=None), min(highs, default=None), -1)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a plan is asked for.

    Attributes:
        tables: their names.
        whole: each table is one partition, and nothing else is asked for; otherwise there is one to be cut.
        columns: of the one table, in order; none: all that are visible.
        low, high: values of the first key column, as text.
        low_key, high_key: encoded keys.
        partitions: at most as many.
    """

    tables: Sequence[str]
    whole: bool = False
    columns: Sequence[str] = ()
    low: str | None = None
    high: str | None = None
    low_key: bytes | None = None
    high_key: bytes | None = None
    partitions: int = 1


@dataclass(frozen=True, slots=True)
class TablePartition:
    """A partition: keys of a table, and the positions of the columns that are read."""

    table: Table
    positions: tuple[int, ...]
    range: Range


@dataclass(slots=True, eq=False)
class TablePlan:
    """One plan.

    Attributes:
        tables: what is planned.
        pieces: the partitions.
        leave: lets go of the store; see ``Use``.
        expires_s, users: see ``Leased``.
    """

    id: str
    snapshot: StoreSnapshot
    lsn: LSN
    tables: Sequence[Table]
    pieces: Sequence[TablePartition]
    leave: Callable[[], None]
    expires_s: float
    users: int = 0

    def ticket(self, number: int) -> str:
        """What names a partition."""
        return f"{self.id}.{number}"


class Plans:
    """The plans of a process. For the loop's thread.

    Args:
        executor: of one thread, the only one that reads snapshots.
    """

    def __init__(self, limit: int, executor: Executor) -> None:
        self._limit = limit
        self._executor = executor
        self._making = 0
        self.is_closing = False
        self.leases: Leases[TablePlan] = Leases("plan of partitions", _LONGEST_LEASE_S, self._drop)

    async def make(
        self,
        served: Served,
        wanted: PlanRequest,
        lease_s: float,
        may_read: MayRead = lambda _catalog, _table: None,
    ) -> TablePlan:
        """Hold the state of now, and cut a table.

        Raises:
            SqlError: 42P01 no such table, 42703 no such column, 42701 a column twice, 22023 a wrong
                number of partitions, 22... bounds that are no values of the key, 53400 there are too many
                plans, 42501 ``may_read`` says no, 57P03 the tablespace cannot be read now.
        """
        if not 1 <= wanted.partitions <= MAX_PARTITIONS:
            raise SqlError("22023", f"partitions must be 1 to {MAX_PARTITIONS}, not {wanted.partitions}")
        if len(self.leases) + self._making >= self._limit:
            raise too_many("plans of partitions", self._limit)
        name = secrets.token_hex(16)
        ended = threading.Event()

        def give_up() -> None:
            ended.set()
            self.leases.release(name)

        use = served.use(give_up)
        snapshot, lsn = use.store.applied_snapshot()
        self._making += 1
        try:
            tables = [_table(snapshot.catalog, one) for one in wanted.tables]
            for table in tables:
                may_read(snapshot.catalog, table)
            if wanted.whole:
                pieces = [
                    TablePartition(table, tuple(table.visible), Range(None, None, -1)) for table in tables
                ]
            else:
                pieces = await self._cut_apart(snapshot, tables[0], wanted, ended)
        except BaseException:
            snapshot.close()
            use.leave()
            raise
        finally:
            self._making -= 1
        expires_s = self.leases.until(lease_s)
        plan = TablePlan(name, snapshot, lsn, tables, pieces, use.leave, expires_s)
        self.leases.add(plan)
        return plan

    async def _cut_apart(
        self, snapshot: StoreSnapshot, table: Table, wanted: PlanRequest, ended: threading.Event
    ) -> list[TablePartition]:
        chosen = positions(table, wanted.columns)
        bounds = Range(_bound(table, wanted.low), _bound(table, wanted.high), -1)
        keys = bounds.within(wanted.low_key, wanted.high_key)
        cut = _Cut(snapshot, table, keys.low, keys.high, wanted.partitions)
        work = asyncio.get_running_loop().run_in_executor(self._executor, self._cut, cut, ended)
        ranges = await finished(work, ended.set)
        if ended.is_set():
            raise SqlError("57P03", "the plan was cancelled: the store is being closed on this node")
        return [TablePartition(table, chosen, one) for one in ranges]

    def _cut(self, cut: _Cut, ended: threading.Event) -> list[Range]:
        for _step in cut.steps():
            if self.is_closing or ended.is_set():
                raise going_down()
            time.sleep(0)  # others may have the interpreter
        return cut.ranges()

    def partition(self, ticket: str) -> tuple[TablePlan, TablePartition]:
        """What a ticket stands for; SqlError 42704 when it is none, or not any more."""
        name, _, number = ticket.rpartition(".")
        if not (number.isascii() and number.isdecimal() and len(number) <= 4):
            raise not_there("ticket of a partition")
        plan = self.leases.get(name)
        if int(number) >= len(plan.pieces):
            raise not_there("ticket of a partition")
        return plan, plan.pieces[int(number)]

    def _drop(self, plan: TablePlan) -> None:
        plan.snapshot.close()
        plan.leave()

    def close(self) -> None:
        """Let go of every state. Nobody reads any more."""
        self.is_closing = True
        for plan in self.leases.clear():
            self._drop(plan)


class _Cut:
    """Counts the keys of a range and finds where to cut it: by LMDB's leaves, or by all keys."""

    def __init__(
        self, snapshot: StoreSnapshot, table: Table, low: bytes | None, high: bytes | None, wanted: int
    ) -> None:
        self._snapshot, self._table = snapshot, table
        self._low, self._high, self._wanted = low, high, wanted
        self._rows = 0
        self._every = 1  # one key, or one leaf, in so many is kept
        self._kept: list[bytes] = []
        self._before: list[int] = []  # how many rows are before a kept leaf; of keys that is known

    def steps(self) -> Iterator[None]:
        """A bounded piece of the work at each step."""
        if self._low is not None and self._high is not None and self._low >= self._high:
            return
        tree = self._snapshot.tree(self._table) if self._low is self._high is None else None
        if tree is not None and tree.leaf_pages >= _LEAVES * self._wanted:
            with suppress(OSError):
                yield from self._by_leaves(tree)
            if self._rows == tree.entries:
                return
            self._rows, self._every, self._kept, self._before = 0, 1, [], []
        keys = self._snapshot.keys(self._table, self._low, self._high)
        while taken := list(islice(keys, _CUT_STEP)):
            self._kept += taken[-self._rows % self._every :: self._every]
            self._rows += len(taken)
            while len(self._kept) > _SAMPLES:
                self._kept = self._kept[::2]
                self._every *= 2
            yield

    def _by_leaves(self, tree: PageTree) -> Iterator[None]:
        for nth, (key, rows) in enumerate(tree.leaves()):
            if nth % self._every == 0:
                self._kept.append(key)
                self._before.append(self._rows)
                if len(self._kept) > _SAMPLES:
                    self._kept, self._before = self._kept[::2], self._before[::2]
                    self._every *= 2
            self._rows += rows
            if nth % _CUT_STEP == 0:
                yield

    def ranges(self) -> list[Range]:
        """The partitions, as even as the kept keys allow; one without rows when there are none."""
        count = max(1, min(self._wanted, len(self._kept)))
        before: Sequence[int] = self._before
        if before:
            places = {bisect_left(before, self._rows * number // count) for number in range(1, count)}
            cuts = sorted(places - {0, len(before)})
        else:
            cuts = [len(self._kept) * number // count for number in range(1, count)]
            before = range(0, len(self._kept) * self._every, self._every)
        keys = [self._low, *(self._kept[cut] for cut in cuts), self._high]
        rows = [0, *(before[cut] for cut in cuts), self._rows]
        return [Range(keys[n], keys[n + 1], rows[n + 1] - rows[n]) for n in range(len(cuts) + 1)]


def _table(catalog: Catalog, name: str) -> Table:
    found = catalog.table_named(name)
    if found is None:
        raise SqlError("42P01", f'relation "{name}" does not exist')
    if found.partition_key is not None:
        raise SqlError(
            "0A000",
            f'"{name}" is a partitioned table: read its partitions, or query it by SQL',
            hint=partitions_hint(catalog, found),
        )
    return found


def positions(table: Table, columns: Sequence[str]) -> tuple[int, ...]:
    """Of columns by name; none: of all that are visible. SqlError 42703, 42701."""
    if not columns:
        return tuple(table.visible)
    found = []
    for name in columns:
        position = table.positions.get(name)
        if position is None or position not in table.visible:
            raise SqlError("42703", f'column "{name}" of relation "{table.name}" does not exist')
        found.append(position)
    if len(set(found)) < len(found):
        raise SqlError("42701", "a column is requested more than once")
    return tuple(found)


def _bound(table: Table, text: str | None) -> bytes | None:
    """The least key whose first column is the value that ``text`` is."""
    if text is None:
        return None
    if table.has_hidden_key:
        raise SqlError("55000", f'relation "{table.name}" has no primary key to bound')
    column = table.columns[table.key[0].position]
    return table.key_codec.encode_prefix((from_text(column.type)(text),))


class PartitionsService(partitions_pb2_grpc.PartitionsServicer):
    """Answers calls out of plans.

    Args:
        executor: of one thread, that of the plans.
        may_read: raises 42501 unless the caller may read a table of a tablespace. A ticket is good for
            who has it.
    """

    def __init__(
        self,
        tablespaces: ServedNode,
        plans: Plans,
        executor: Executor,
        may_read: Callable[[str, Catalog, Table], None],
    ) -> None:
        self._may_read = may_read
        self._tablespaces = tablespaces
        self._plans = plans
        self._executor = executor
        self._readings = 0

    async def Plan(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        served = self._tablespaces.find(request.tablespace)
        await reached(served, request)
        may_read = partial(self._may_read, served.status().name)
        plan = await self._plans.make(served, _wanted(request), request.lease_s, may_read)
        schema = b"" if request.tables else _schema(plan.pieces[0].table, plan.pieces[0].positions)
        return partitions_pb2.PartitionPlan(
            id=plan.id,
            lsn=lsn_message(plan.lsn),
            lease=self._lease(plan),
            partitions=[
                partitions_pb2.Partition(ticket=plan.ticket(number), rows=one.range.rows)
                for number, one in enumerate(plan.pieces)
            ],
            arrow_schema=schema,
            definitions=[encode_table(table).decode() for table in plan.tables],
        )

    async def Renew(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        return self._lease(self._plans.leases.renew(request.id, request.lease_s))

    async def Release(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        self._plans.leases.release(request.id)
        return partitions_pb2.ReleasePlanResponse()

    async def Read(  # type: ignore[override]  # the stubs know generators only
        self, request: Any, context: Any
    ) -> None:
        """See the protocol. A slice is read only when gRPC has taken the one before."""
        plan, piece = self._plans.partition(request.ticket)
        chosen = positions(piece.table, request.columns) if request.columns else piece.positions
        keys = piece.range.within(*_keys(request))
        if self._readings >= MAX_READINGS:
            raise too_many("partitions being read", MAX_READINGS)
        loop = asyncio.get_running_loop()
        writer = ArrowWriter()
        self._readings += 1
        plan.users += 1
        try:
            for data in writer.start(decoded(piece.table, chosen, []).schema):
                await context.write(partitions_pb2.PartitionData(data=data))
            slices = _slices(plan.snapshot, piece.table, chosen, keys)
            while True:
                made = await finished(loop.run_in_executor(self._executor, next, slices, None))
                self._plans.leases.get(plan.id)
                if made is None:
                    break
                rows, data = made
                await context.write(partitions_pb2.PartitionData(data=data, rows=rows))
            for data in writer.end():
                await context.write(partitions_pb2.PartitionData(data=data))
        finally:
            self._readings -= 1
            self._plans.leases.left(plan)

    def _lease(self, plan: TablePlan) -> Any:
        return common_pb2.Lease(remaining_s=self._plans.leases.remaining_s(plan))


def _wanted(request: Any) -> PlanRequest:
    """SqlError 22023 when several tables are asked for with what only one can have."""
    if not request.tables:
        low = request.low if request.HasField("low") else None
        high = request.high if request.HasField("high") else None
        columns = list(request.columns)
        return PlanRequest([request.table], False, columns, low, high, *_keys(request), request.partitions)
    fields = ("low", "high", "low_key", "high_key")
    if request.table or request.columns or request.partitions > 1 or any(map(request.HasField, fields)):
        raise SqlError("22023", "a plan of several tables has no columns, bounds or partitions")
    return PlanRequest(list(request.tables), whole=True)


def _keys(request: Any) -> tuple[bytes | None, bytes | None]:
    low = request.low_key if request.HasField("low_key") else None
    return low, request.high_key if request.HasField("high_key") else None


def _schema(table: Table, chosen: Sequence[int]) -> bytes:
    (message,) = ArrowWriter().start(decoded(table, chosen, []).schema)
    return message


def _slices(
    snapshot: StoreSnapshot, table: Table, chosen: Sequence[int], keys: Range
) -> Iterator[tuple[int, bytes]]:
    """The rows of a range: how many, and the message of their record batch; bounded in rows and bytes."""
    if keys.low is not None and keys.high is not None and keys.low >= keys.high:
        return
    unread = snapshot.images(table, keys.low, keys.high, None if keys.rows < 0 else keys.rows)
    while True:
        images: list[bytes] = []
        size = 0
        while len(images) < SLICE_ROWS and size < SLICE_BYTES:
            taken = list(islice(unread, _STEP))
            if not taken:
                break
            images += taken
            size += sum(map(len, taken))
        if not images:
            return
        (message,) = ArrowWriter().batch(decoded(table, chosen, images))
        yield len(images), message
