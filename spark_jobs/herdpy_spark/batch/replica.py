"""Rows as a server streams them: a plan of its service Partitions, mostly of one that follows.

Above ``rows``. The plan's state is in that one server: no other has the same, so when it goes, the DataFrame
is to be made again. "latest" has all that the leader had applied when the plan was made.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import pyarrow as pa

from herdpy.codec.arrow import ArrowStreamReader
from herdpy.log.lsn import LSN, START
from herdpy.rpc import common_pb2, partitions_pb2, partitions_pb2_grpc
from herdpy.rpc.address import GrpcAddress
from herdpy_spark.access import AccessError, Description, TablespaceServers, told
from herdpy_spark.access.servers import CALL_TIMEOUT_S, LEADS
from herdpy_spark.batch.rows import LapsedError

_PLAN_TIMEOUT_S = 600.0  # a large table's keys are gone through once
_MAX_MESSAGE_BYTES = 64 << 20
_FOLLOWS = "following"


@dataclass(frozen=True, slots=True)
class ReplicaRows:
    """See ``Rows``.

    Attributes:
        place: the server that holds the state.
        plan: its name there.
        tickets: of the partitions.
    """

    place: GrpcAddress
    plan: str
    lsn: LSN
    definitions: tuple[bytes, ...]
    tickets: tuple[str, ...]
    lease_s: float

    @property
    def count(self) -> int:
        """See ``Rows``."""
        return len(self.tickets)

    @contextmanager
    def held(self) -> Iterator[None]:
        """See ``Rows``. A reading under way holds the plan by itself, so it is renewed before and after."""
        self._renew()
        yield
        self._renew()

    def _renew(self) -> None:
        channel = self.place.blocking_channel()
        request = partitions_pb2.RenewPlanRequest(id=self.plan, lease_s=self.lease_s)
        try:
            with self._told():
                stub: Any = partitions_pb2_grpc.PartitionsStub(channel)
                stub.Renew(request, metadata=self.place.metadata, timeout=CALL_TIMEOUT_S)
        finally:
            channel.close()

    def read(
        self, number: int, columns: Sequence[str], low: bytes | None, high: bytes | None
    ) -> Iterator[pa.RecordBatch]:
        """See ``Rows``. As fast as the server sends, a few batches ahead of who takes them."""
        request = partitions_pb2.ReadPartitionRequest(
            ticket=self.tickets[number], columns=columns, low_key=low, high_key=high
        )
        reader = ArrowStreamReader(_MAX_MESSAGE_BYTES)
        channel = self.place.blocking_channel()
        try:
            with self._told():
                stub: Any = partitions_pb2_grpc.PartitionsStub(channel)
                for message in stub.Read(request, metadata=self.place.metadata):
                    yield from reader.feed(message.data)
            if not reader.is_ended:
                raise AccessError(f"{self.place.target}: the rows break off", is_transient=True)
        finally:
            channel.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            with told(self.place.target):
                yield
        except AccessError as error:
            if error.is_gone and error.sqlstate == "42704":
                raise LapsedError(f"the state at {self.lsn} is gone from {self.place.target}") from error
            if error.is_transient:
                raise AccessError(
                    f"{error}. The state that the DataFrame reads is in that server alone: when it does not "
                    "come back, make the DataFrame again",
                    sqlstate=error.sqlstate,
                    is_transient=True,
                ) from error
            raise


def plan_table(
    servers: TablespaceServers,
    table: str,
    *,
    partitions: int,
    bounds: tuple[str | None, str | None],
    keys: tuple[bytes | None, bytes | None],
    lease_s: float,
) -> ReplicaRows:
    """Hold a table's state, cut into ranges of about as many rows each.

    Args:
        bounds: of the first key column, as text.
        keys: encoded keys that bound it, too.

    Raises:
        AccessError: there is no such table, a bound is no value of the key, no server answers.
    """
    request = partitions_pb2.PlanRequest(
        table=table,
        partitions=partitions,
        low=bounds[0],
        high=bounds[1],
        low_key=keys[0],
        high_key=keys[1],
    )
    return _planned(servers, request, lease_s)


def plan_tables(servers: TablespaceServers, tables: Sequence[str], lease_s: float) -> ReplicaRows:
    """Hold several tables' state, one partition each. Errors as of :func:`plan_table`."""
    return _planned(servers, partitions_pb2.PlanRequest(tables=tables), lease_s)


def _planned(servers: TablespaceServers, request: Any, lease_s: float) -> ReplicaRows:
    described = servers.describe()
    request.tablespace = described.tablespace
    request.lease_s = lease_s
    newest = servers.newest(described)
    if newest > START:
        request.reached.CopyFrom(common_pb2.Lsn(ledger_id=newest.ledger_id, entry_id=newest.entry_id))

    def plan(channel: grpc.Channel, place: GrpcAddress) -> ReplicaRows:
        stub: Any = partitions_pb2_grpc.PartitionsStub(channel)
        made = stub.Plan(request, metadata=place.metadata, timeout=_PLAN_TIMEOUT_S)
        return ReplicaRows(
            place,
            made.id,
            LSN(made.lsn.ledger_id, made.lsn.entry_id),
            tuple(one.encode() for one in made.definitions),
            tuple(one.ticket for one in made.partitions),
            lease_s,
        )

    return servers.call(plan, candidates(described) or servers.places)


def candidates(described: Description) -> list[GrpcAddress]:
    """Who is asked to hold a state, in this order: those that follow, any of them first so that work spreads;
    then those that lead, or are alone.
    """
    following = [node.place for node in described.nodes if node.state == _FOLLOWS]
    random.shuffle(following)
    others = [node.place for node in described.nodes if node.state in (LEADS, "")]
    return [*following, *others]
