"""Where the rows of a DataFrame come from: one state, held, in partitions. The lowest module of ``batch``.

``ReplicaRows`` are streamed by a server (a plan of its service Partitions, mostly of a follower): when that
server goes, the DataFrame is to be made again. ``LogRows`` come from a published snapshot and the ledgers
after it, without any server; a lease, renewed by each task while it reads, keeps both until it is over.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import grpc
import pyarrow as pa

from herdpy.codec.arrow_stream import ArrowStreamReader
from herdpy.log.lsn import LSN, START
from herdpy.rpc import logs_pb2, logs_pb2_grpc, partitions_pb2, partitions_pb2_grpc
from herdpy.rpc.address import GrpcAddress
from herdpy.rpc.positions import lsn_message, lsn_of
from herdpy_spark import log
from herdpy_spark.access import (
    CALL_TIMEOUT_S,
    LEADS,
    AccessError,
    Description,
    TablespaceServers,
    access_errors,
)
from herdpy_spark.log import LogAddress, LogPlan
from herdpy_spark.options import OptionError
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import decode_table
from herdpy_sql.errors import SqlError
from herdpy_sql.values import from_text

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum


class BatchRows(Protocol):
    """A state of some tables; it can be pickled, and tasks read it side by side.

    Attributes:
        lsn: all of it is of this position.
        definitions: of the tables, as the catalog's JSON, in the order they were asked for.
    """

    @property
    def lsn(self) -> LSN: ...

    @property
    def definitions(self) -> tuple[bytes, ...]: ...

    @property
    def count(self) -> int:
        """How many partitions there are: of the one table, or one for each of several."""

    def held(self) -> AbstractContextManager[None]:
        """Keeps the state there while it is read, and for the lease's time after that.

        Raises:
            LapsedError: it is gone.
        """

    def release(self) -> None:
        """Nobody reads the state: it need not be kept until the lease is over. It raises nothing."""

    def read(
        self, number: int, columns: Sequence[str], low: bytes | None, high: bytes | None
    ) -> Iterator[pa.RecordBatch]:
        """Columns of a partition's rows, in the codec's Arrow types.

        Args:
            low, high: encoded keys; only rows from the first up to the second are needed.
        """


class StateKeeper(Protocol):
    """Who keeps a state of the log: a lease of a cluster, or a directory's snapshot. It can be pickled."""

    def held(self) -> AbstractContextManager[None]:
        """See ``BatchRows``."""

    def release(self) -> None:
        """See ``BatchRows``."""


class LapsedError(Exception):
    """The state that a DataFrame stands on is not held any more."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: the DataFrame was not read for longer than its lease, or the server that held its"
            f" state is gone. Make the DataFrame again, with a longer lease (option lease, at most 1h)"
            f" where tasks wait long"
        )

    def __reduce__(self) -> tuple[type[Exception], tuple[str]]:
        return Exception, (str(self),)


_PURPOSE = "a DataFrame"


@dataclass(frozen=True, slots=True)
class BatchLogLease:
    """A lease that the servers know by its id; it can be pickled."""

    servers: TablespaceServers
    id: str
    tablespace: str
    lease_s: float

    @contextmanager
    def held(self) -> Iterator[None]:
        """Renewed now, now and then, and at the end. LapsedError when it is over already."""
        try:
            self.renew()
        except AccessError as error:
            if error.is_gone:
                raise LapsedError("the lease on the log is over") from error
            if not error.is_transient:
                raise
        over = threading.Event()
        renewing = threading.Thread(target=self._renew_until, args=(over,), name="herdpy-lease", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            over.set()
            renewing.join()
        with suppress(AccessError):  # what was read was there
            self.renew()

    def renew(self) -> None:
        """Raises AccessError (``is_gone``: it is over)."""
        request = logs_pb2.RenewLogLeaseRequest(id=self.id, tablespace=self.tablespace, lease_s=self.lease_s)

        def renew(channel: grpc.Channel, place: GrpcAddress) -> None:
            stub: Any = logs_pb2_grpc.LogsStub(channel)
            stub.Renew(request, metadata=place.metadata, timeout=CALL_TIMEOUT_S)

        self.servers.call(renew)

    def release(self) -> None:
        """See ``BatchRows``."""

        def release(channel: grpc.Channel, place: GrpcAddress) -> None:
            stub: Any = logs_pb2_grpc.LogsStub(channel)
            lease = logs_pb2.LogLeaseId(id=self.id, tablespace=self.tablespace)
            stub.Release(lease, metadata=place.metadata, timeout=CALL_TIMEOUT_S)

        with suppress(AccessError):  # then the lease ends by itself
            self.servers.call(release)

    def _renew_until(self, over: threading.Event) -> None:
        while not over.wait(self.lease_s / 3):
            with suppress(AccessError):  # who reads finds out whether it is still there
                self.renew()


def lease_log(servers: TablespaceServers, at: LSN | int | None, lease_s: float) -> BatchLogLease | None:
    """Keep what a reading of the state ``at`` needs (None: the newest state).

    None when no server is there to keep it (nor one to remove it), and when there is nothing to keep: who
    plans finds the reason then.

    Raises:
        AccessError: the role may not.
    """
    request = logs_pb2.LeaseLogRequest(
        tablespace=servers.tablespace, lease_s=max(lease_s, 1.0), purpose=_PURPOSE
    )
    if isinstance(at, LSN):
        request.upto.CopyFrom(lsn_message(at))
    elif at is not None:
        request.upto_us = at

    def lease(channel: grpc.Channel, place: GrpcAddress) -> BatchLogLease:
        stub: Any = logs_pb2_grpc.LogsStub(channel)
        made = stub.Lease(request, metadata=place.metadata, timeout=CALL_TIMEOUT_S)
        return BatchLogLease(servers, made.id, made.tablespace, request.lease_s)

    for _try in range(2):
        try:
            return servers.call(lease)
        except AccessError as error:
            if error.is_transient:
                return None
            if error.sqlstate.startswith("42"):  # the role, or the tablespace
                raise
            # No snapshot is as old, but the log itself may be.
            request.after.CopyFrom(lsn_message(START))
    return None


@dataclass(frozen=True, slots=True)
class LogRows:
    """See ``BatchRows``.

    Attributes:
        plans: of the tables; of several, each has one partition.
        keeper: keeps the state while a task reads; None: nobody removes it.
    """

    plans: tuple[LogPlan, ...]
    keeper: StateKeeper | None

    @property
    def lsn(self) -> LSN:
        """See ``BatchRows``."""
        return self.plans[0].upto

    @property
    def definitions(self) -> tuple[bytes, ...]:
        """See ``BatchRows``."""
        return tuple(plan.definition for plan in self.plans)

    @property
    def count(self) -> int:
        """See ``BatchRows``."""
        return sum(len(plan.ranges) for plan in self.plans)

    @contextmanager
    def held(self) -> Iterator[None]:
        """See ``BatchRows``."""
        with nullcontext() if self.keeper is None else self.keeper.held():
            yield

    def release(self) -> None:
        """See ``BatchRows``."""
        if self.keeper is not None:
            self.keeper.release()

    def read(
        self, number: int, columns: Sequence[str], low: bytes | None, high: bytes | None
    ) -> Iterator[pa.RecordBatch]:
        """See ``BatchRows``."""
        plan, within = self._partition(number)
        bounds = narrowed(plan.ranges[within], (low, high))
        if bounds[0] is not None and bounds[1] is not None and bounds[0] >= bounds[1]:
            return
        ranges = tuple(bounds if at == within else one for at, one in enumerate(plan.ranges))
        yield from log.read_partition(replace(plan, ranges=ranges), within, columns)

    def _partition(self, number: int) -> tuple[LogPlan, int]:
        for plan in self.plans:
            if number < len(plan.ranges):
                return plan, number
            number -= len(plan.ranges)
        raise IndexError(number)


def narrowed(
    one: tuple[bytes | None, bytes | None], other: tuple[bytes | None, bytes | None]
) -> tuple[bytes | None, bytes | None]:
    """The keys that are in both ranges, each from the first up to the second; None: no bound."""
    lows = [bound for bound in (one[0], other[0]) if bound is not None]
    highs = [bound for bound in (one[1], other[1]) if bound is not None]
    return max(lows, default=None), min(highs, default=None)


def plan_log_table(
    address: LogAddress,
    table: str,
    at: LSN | int | None,
    *,
    partitions: int,
    bounds: tuple[str | None, str | None],
    keeper: StateKeeper | None,
    least: LSN = START,
) -> LogRows:
    """Plan a table at one position.

    Args:
        bounds: of the first key column, as text.
        least: as of ``herdpy_spark.log.plan_table``.

    Raises:
        OptionError: a bound is no value of the key.
        herdpy.log.LogError: as of ``herdpy_spark.log.plan_table``.
    """
    is_bounded = bounds != (None, None)
    plan = log.plan_table(address, table, at, 1 if is_bounded else partitions, least=least)
    if is_bounded:
        definition = decode_table(plan.definition)
        low, high = (bound(definition, text) for text in bounds)
        plan = log.plan_table(address, table, plan.upto, partitions, low=low, high=high)
    return LogRows((plan,), keeper)


def plan_log_tables(
    address: LogAddress,
    tables: Sequence[str],
    at: LSN | int | None,
    keeper: StateKeeper | None,
    least: LSN = START,
) -> LogRows:
    """Plan several tables at one position. Errors as of :func:`plan_table`."""
    return LogRows(tuple(log.plan_tables(address, tables, at, least=least)), keeper)


def bound(table: Table, text: str | None) -> tuple[Datum, ...] | None:
    """A value of the first key column. OptionError when the text is none, or there is no key."""
    if text is None:
        return None
    if table.has_hidden_key:
        raise OptionError(f"the options lowerBound, upperBound: table {table.name} has no primary key")
    column = table.columns[table.key[0].position]
    try:
        return (from_text(column.type)(text),)
    except SqlError as error:
        raise OptionError(f"the options lowerBound, upperBound: {error.message}") from error


_PLAN_TIMEOUT_S = 600.0  # a large table's keys are gone through once
_MAX_MESSAGE_BYTES = 64 << 20
_FOLLOWS = "following"


@dataclass(frozen=True, slots=True)
class ReplicaRows:
    """See ``BatchRows``.

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
        """See ``BatchRows``."""
        return len(self.tickets)

    @contextmanager
    def held(self) -> Iterator[None]:
        """See ``BatchRows``. A reading under way holds the plan, which is renewed before and after."""
        self._renew()
        yield
        self._renew()

    def _renew(self) -> None:
        self._call("Renew", partitions_pb2.RenewPlanRequest(id=self.plan, lease_s=self.lease_s))

    def release(self) -> None:
        """See ``BatchRows``."""
        with suppress(AccessError, LapsedError):  # then the lease ends by itself
            self._call("Release", partitions_pb2.PlanId(id=self.plan))

    def _call(self, method: str, request: Any) -> None:
        channel = self.place.blocking_channel()
        try:
            with self._read_errors():
                stub: Any = partitions_pb2_grpc.PartitionsStub(channel)
                getattr(stub, method)(request, metadata=self.place.metadata, timeout=CALL_TIMEOUT_S)
        finally:
            channel.close()

    def read(
        self, number: int, columns: Sequence[str], low: bytes | None, high: bytes | None
    ) -> Iterator[pa.RecordBatch]:
        """See ``BatchRows``. As fast as the server sends, a few batches ahead of who takes them."""
        request = partitions_pb2.ReadPartitionRequest(
            ticket=self.tickets[number], columns=columns, low_key=low, high_key=high
        )
        reader = ArrowStreamReader(_MAX_MESSAGE_BYTES)
        channel = self.place.blocking_channel()
        try:
            with self._read_errors():
                stub: Any = partitions_pb2_grpc.PartitionsStub(channel)
                for message in stub.Read(request, metadata=self.place.metadata):
                    yield from reader.feed(message.data)
            if not reader.is_ended:
                raise AccessError(f"{self.place.target}: the rows break off", is_transient=True)
        finally:
            channel.close()

    @contextmanager
    def _read_errors(self) -> Iterator[None]:
        try:
            with access_errors(self.place.target):
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


def plan_replica_table(
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


def plan_replica_tables(servers: TablespaceServers, tables: Sequence[str], lease_s: float) -> ReplicaRows:
    """Hold several tables' state, one partition each. Errors as of :func:`plan_table`."""
    return _planned(servers, partitions_pb2.PlanRequest(tables=tables), lease_s)


def _planned(servers: TablespaceServers, request: Any, lease_s: float) -> ReplicaRows:
    described = servers.describe()
    request.tablespace = described.tablespace
    request.lease_s = lease_s
    newest = servers.newest(described)
    if newest > START:
        request.reached.CopyFrom(lsn_message(newest))

    def plan(channel: grpc.Channel, place: GrpcAddress) -> ReplicaRows:
        stub: Any = partitions_pb2_grpc.PartitionsStub(channel)
        made = stub.Plan(request, metadata=place.metadata, timeout=_PLAN_TIMEOUT_S)
        return ReplicaRows(
            place,
            made.id,
            lsn_of(made.lsn),
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
