"""What keeps the log there for a stream that runs: a lease that moves on with it. Above ``access``."""

from __future__ import annotations

import logging
import threading
from typing import Any

import grpc

from herdpy.log.lsn import LSN
from herdpy.rpc import logs_pb2, logs_pb2_grpc
from herdpy.rpc.address import GrpcAddress
from herdpy.rpc.positions import lsn_message
from herdpy_spark.access import CALL_TIMEOUT_S, AccessError, TablespaceServers

_log = logging.getLogger("herdpy.spark.feed")


class FeedLease:
    """Keeps the entries after a position that moves on. Failures are logged: the stream may go well without.

    Args:
        purpose: for operators to see.
        lease_s: seconds without a renewal after which it is over.
    """

    def __init__(self, servers: TablespaceServers, purpose: str, lease_s: float) -> None:
        self._servers = servers
        self._purpose = purpose
        self._lease_s = max(lease_s, 1.0)
        self._after: LSN | None = None
        self._made: Any = None
        self._wake = threading.Event()
        self._over = False
        self._thread: threading.Thread | None = None

    def keep(self, after: LSN) -> None:
        """Nothing up to ``after`` is needed any more. The first call makes the lease, before it returns."""
        self._after = after
        if self._thread is None:
            self._renew()
            self._thread = threading.Thread(target=self._run, name="herdpy-feed-lease", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Renew no more. What was not read stays for the time of the lease."""
        self._over = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def release(self) -> None:
        """Renew no more, and end the lease: nothing of the log is needed any more."""
        self.close()
        made, self._made = self._made, None
        if made is None:
            return
        try:
            self._call("Release", logs_pb2.LogLeaseId(id=made.id, tablespace=made.tablespace))
        except AccessError as error:  # then it ends by itself
            _log.warning("the lease on the log is not released: %s", error)

    def _run(self) -> None:
        while not self._wake.wait(self._lease_s / 3):
            self._renew()
        self._renew()

    def _renew(self) -> None:
        after = self._after
        assert after is not None
        try:
            if self._made is not None:
                try:
                    self._call("Renew", self._renewal(self._made, after))
                except AccessError as error:
                    if not error.is_gone:
                        raise
                    self._made = None
            if self._made is None and not self._over:
                request = logs_pb2.LeaseLogRequest(
                    tablespace=self._servers.tablespace, lease_s=self._lease_s, purpose=self._purpose
                )
                request.after.CopyFrom(lsn_message(after))
                self._made = self._call("Lease", request)
        except AccessError as error:
            _log.warning("the log is not retained for the stream: %s", error, extra={"after": str(after)})

    def _renewal(self, made: Any, after: LSN) -> Any:
        request = logs_pb2.RenewLogLeaseRequest(id=made.id, tablespace=made.tablespace, lease_s=self._lease_s)
        request.after.CopyFrom(lsn_message(after))
        return request

    def _call(self, method: str, request: Any) -> Any:
        def do(channel: grpc.Channel, place: GrpcAddress) -> Any:
            stub: Any = logs_pb2_grpc.LogsStub(channel)
            return getattr(stub, method)(request, metadata=place.metadata, timeout=CALL_TIMEOUT_S)

        return self._servers.call(do)
