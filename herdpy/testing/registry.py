"""The znodes of a BookKeeper cluster as the kit needs them: written for a new cluster, watched for bookies'
registrations.

Written by hand rather than by `bookie shell initnewcluster`, which costs the start of a Java machine.
Format: BookKeeper's discover/ZKRegistrationManager.java and meta/LedgerLayout.java.
"""

from __future__ import annotations

import logging
import uuid
from types import TracebackType
from typing import Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

LEDGERS_ROOT = "/ledgers"
_LAYOUT = b"2\norg.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory:1"
_CONNECT_TIMEOUT_S = 20.0

# kazoo warns of every connection that ends with the server, which here is what tests do.
_quiet = logging.getLogger("herdpy.testing.kazoo")
_quiet.setLevel(logging.ERROR)


class ClusterZnodes:
    """A short ZooKeeper session; context manager."""

    def __init__(self, hostport: str) -> None:
        self._client = KazooClient(hostport, timeout=10.0, logger=_quiet)

    def __enter__(self) -> Self:
        try:
            self._client.start(_CONNECT_TIMEOUT_S)
        except BaseException:
            self._client.stop()
            self._client.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.stop()
        self._client.close()

    def initialise(self) -> None:
        """Write what bookies expect of a cluster, unless it is there already."""
        if self._client.exists(f"{LEDGERS_ROOT}/LAYOUT") is not None:
            return
        whole = self._client.transaction()
        whole.create(LEDGERS_ROOT)
        whole.create(f"{LEDGERS_ROOT}/available")
        whole.create(f"{LEDGERS_ROOT}/available/readonly")
        whole.create(f"{LEDGERS_ROOT}/INSTANCEID", str(uuid.uuid4()).encode())
        whole.create(f"{LEDGERS_ROOT}/LAYOUT", _LAYOUT)
        for result in whole.commit():
            if isinstance(result, Exception):
                raise result

    def registration(self, bookie_id: str) -> int | None:
        """The transaction that created the registration of `bookie_id`, writable or read-only; None without
        one.
        """
        for parent in ("available", "available/readonly"):
            stat = self._client.exists(f"{LEDGERS_ROOT}/{parent}/{bookie_id}")
            if stat is not None:
                return int(stat.czxid)
        return None

    def forget_cookie(self, bookie_id: str) -> None:
        """Delete the cookie of `bookie_id`, so that it may come back with an empty disk."""
        try:
            self._client.delete(f"{LEDGERS_ROOT}/cookies/{bookie_id}")
        except NoNodeError:
            return
