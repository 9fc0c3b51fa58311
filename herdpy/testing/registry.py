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
    """A short ZooKeeper session, made within `timeout_s`; context manager."""

    def __init__(self, hostport: str, *, timeout_s: float = _CONNECT_TIMEOUT_S) -> None:
        self._client = KazooClient(hostport, timeout=10.0, logger=_quiet)
        self._timeout_s = timeout_s

    def __enter__(self) -> Self:
        try:
            self._client.start(self._timeout_s)
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

    def is_registered(self, bookie_id: str) -> bool:
        """Whether the bookie says that it is there, writable or read-only."""
        return any(self._client.exists(path) is not None for path in _registrations(bookie_id))

    def forget_registration(self, bookie_id: str) -> None:
        """Delete the registration that a bookie that has ended left behind."""
        for path in _registrations(bookie_id):
            self._delete(path)

    def has_auditor(self) -> bool:
        """Whether an auto recovery process stands for election, so that the ledgers of lost bookies are
        looked after.
        """
        try:
            return bool(self._client.get_children(f"{LEDGERS_ROOT}/underreplication/auditorelection"))
        except NoNodeError:
            return False

    def forget_cookie(self, bookie_id: str) -> None:
        """Delete the cookie of `bookie_id`, so that it may come back with an empty disk."""
        self._delete(f"{LEDGERS_ROOT}/cookies/{bookie_id}")

    def read(self, path: str) -> bytes | None:
        """The data of a znode, None when it is not there."""
        try:
            data: bytes = self._client.get(path)[0]
        except NoNodeError:
            return None
        return data

    def children(self, path: str) -> list[str]:
        """The names of a znode's children, in order; none when it is not there."""
        try:
            return sorted(self._client.get_children(path))
        except NoNodeError:
            return []

    def _delete(self, path: str) -> None:
        try:
            self._client.delete(path)
        except NoNodeError:
            return


def _registrations(bookie_id: str) -> tuple[str, str]:
    return f"{LEDGERS_ROOT}/available/{bookie_id}", f"{LEDGERS_ROOT}/available/readonly/{bookie_id}"
