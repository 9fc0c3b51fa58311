"""The service Partitions (``herdpy/rpc/partitions.proto``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import islice
from typing import Any

from herdpy.rpc import common_pb2, partitions_pb2, partitions_pb2_grpc
from herdpy_server.copy.arrow import ArrowWriter
from herdpy_server.service.errors import too_many
from herdpy_server.service.leases import finished
from herdpy_server.service.plans import PlanRequest, Plans, Range, TablePlan, positions
from herdpy_server.service.positions import reached
from herdpy_server.serving.tablespaces import Tablespaces
from herdpy_server.store import StoreSnapshot
from herdpy_server.store.columns import decoded
from herdpy_sql.catalog import Catalog, Table
from herdpy_sql.definitions import encode_table
from herdpy_sql.errors import SqlError

SLICE_ROWS = 16_384
SLICE_BYTES = 1 << 20
_STEP = 256
MAX_READINGS = 64


class PartitionsService(partitions_pb2_grpc.PartitionsServicer):
    """Answers calls out of plans.

    Args:
        executor: of one thread, that of the plans.
        may_read: raises 42501 unless the caller may read a table of a tablespace. A ticket is good for
            who has it.
    """

    def __init__(
        self,
        tablespaces: Tablespaces,
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
        may_read = partial(self._may_read, served.standing().name)
        plan = await self._plans.make(served, _wanted(request), request.lease_s, may_read)
        schema = b"" if request.tables else _schema(plan.pieces[0].table, plan.pieces[0].positions)
        return partitions_pb2.PartitionPlan(
            id=plan.id,
            lsn=common_pb2.Lsn(ledger_id=plan.lsn.ledger_id, entry_id=plan.lsn.entry_id),
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
    items = snapshot.scan(table, keys.low, keys.high)
    while True:
        images: list[bytes] = []
        size = 0
        while len(images) < SLICE_ROWS and size < SLICE_BYTES:
            taken = [image for _key, image in islice(items, _STEP)]
            if not taken:
                break
            images += taken
            size += sum(map(len, taken))
        if not images:
            return
        (message,) = ArrowWriter().batch(decoded(table, chosen, images))
        yield len(images), message
