"""The service Partitions (``herdpy/rpc/partitions.proto``)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor
from itertools import islice
from typing import Any

from herdpy.rpc import common_pb2, partitions_pb2, partitions_pb2_grpc
from herdpy_server.copy.arrow import ArrowWriter
from herdpy_server.service.errors import too_many
from herdpy_server.service.leases import finished
from herdpy_server.service.plans import Plans, Range, TablePlan
from herdpy_server.service.positions import reached
from herdpy_server.serving.tablespaces import Tablespaces
from herdpy_server.store.kept_columns import decoded

SLICE_ROWS = 4096
SLICE_BYTES = 1 << 20
_STEP = 256
MAX_READINGS = 64


class Partitions(partitions_pb2_grpc.PartitionsServicer):
    """Answers calls out of plans.

    Args:
        executor: of one thread, that of the plans.
    """

    def __init__(self, tablespaces: Tablespaces, plans: Plans, executor: Executor) -> None:
        self._tablespaces = tablespaces
        self._plans = plans
        self._executor = executor
        self._readings = 0

    async def Plan(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        served = self._tablespaces.find(request.tablespace)
        await reached(served, request)
        plan = await self._plans.make(
            served,
            request.table,
            list(request.columns),
            request.low if request.HasField("low") else None,
            request.high if request.HasField("high") else None,
            request.partitions,
            request.lease_s,
        )
        (schema,) = ArrowWriter().start(decoded(plan.table, plan.positions, []).schema)
        return partitions_pb2.PartitionPlan(
            id=plan.id,
            lsn=common_pb2.Lsn(ledger_id=plan.lsn.ledger_id, entry_id=plan.lsn.entry_id),
            lease=self._lease(plan),
            partitions=[
                partitions_pb2.Partition(ticket=plan.ticket(number), rows=one.rows)
                for number, one in enumerate(plan.ranges)
            ],
            arrow_schema=schema,
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
        plan, keys = self._plans.partition(request.ticket)
        if self._readings >= MAX_READINGS:
            raise too_many("partitions being read", MAX_READINGS)
        loop = asyncio.get_running_loop()
        writer = ArrowWriter()
        self._readings += 1
        plan.users += 1
        try:
            for data in writer.start(decoded(plan.table, plan.positions, []).schema):
                await context.write(partitions_pb2.PartitionData(data=data))
            slices = _slices(plan, keys)
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


def _slices(plan: TablePlan, keys: Range) -> Iterator[tuple[int, bytes]]:
    """The rows of a range: how many, and the message of their record batch; bounded in rows and bytes."""
    if keys.low is not None and keys.high is not None and keys.low >= keys.high:
        return
    items = plan.snapshot.scan(plan.table, keys.low, keys.high)
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
        (message,) = ArrowWriter().batch(decoded(plan.table, plan.positions, images))
        yield len(images), message
