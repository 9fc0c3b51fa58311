"""A lease on a tablespace's log: entries, and the snapshot before them, stay until it is over.

The driver takes it before it plans; each task renews it while it reads, from a thread of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import grpc

from herdpy.log.lsn import LSN, START
from herdpy.rpc import common_pb2, logs_pb2, logs_pb2_grpc
from herdpy.rpc.address import GrpcAddress
from herdpy_spark.access import AccessError, TablespaceServers
from herdpy_spark.access.servers import CALL_TIMEOUT_S
from herdpy_spark.batch.rows import LapsedError

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
        request.upto.CopyFrom(common_pb2.Lsn(ledger_id=at.ledger_id, entry_id=at.entry_id))
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
            request.after.CopyFrom(common_pb2.Lsn(ledger_id=START.ledger_id, entry_id=START.entry_id))
    return None
