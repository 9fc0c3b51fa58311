"""Which servers are to be asked: those of a URL, or those that ZooKeeper knows. Below ``leader``.

Connections of one process to one cluster share what ZooKeeper said: it is asked when a connection is made and
the answer is not new any more, and when the servers that are known have nobody who leads.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from herdpy.dbapi.errors import OperationalError
from herdpy.dbapi.remote.options import RemoteOptions
from herdpy.dbapi.url import ZooKeeper
from herdpy.dbapi.zookeeper import Host, ZooKeeperError, members

NEW_S = 5.0
"""What ZooKeeper said so long ago is good enough for another connection."""
ASK_S = 5.0
"""ZooKeeper is given up for now after so long; the servers that are known are asked again meanwhile."""
_MOST_CLUSTERS = 64


class Hosts(Protocol):
    """The servers of a tablespace."""

    can_change: bool

    def known(self, deadline: float) -> list[Host]:
        """Those to begin with. OperationalError 08001 when nobody can say."""

    def again(self, deadline: float) -> list[Host]:
        """Those that are there now. OperationalError 08001 when nobody can say."""


class NamedHosts:
    """Those that a URL names."""

    can_change = False

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._hosts = list(hosts)

    def known(self, deadline: float) -> list[Host]:
        """See Hosts."""
        return list(self._hosts)

    again = known


class ZooKeeperHosts:
    """Those that ZooKeeper knows; one object for all connections of a process to a tablespace."""

    can_change = True

    def __init__(self, place: ZooKeeper, tablespace: str) -> None:
        self._place = place
        self._tablespace = tablespace
        self._lock = threading.Lock()
        self._hosts: list[Host] = []
        self._asked = float("-inf")

    def known(self, deadline: float) -> list[Host]:
        """See Hosts."""
        return self._after(time.monotonic() - NEW_S, deadline)

    def again(self, deadline: float) -> list[Host]:
        """See Hosts."""
        return self._after(time.monotonic(), deadline)

    def _after(self, asked_after: float, deadline: float) -> list[Host]:
        """What ZooKeeper said after a moment: one asks, whoever else wants to know waits for its answer."""
        until = min(deadline, time.monotonic() + ASK_S)
        if not self._lock.acquire(timeout=max(0.0, until - time.monotonic())):
            raise ZooKeeperError(f"ZooKeeper at {self._place.hosts} does not answer")
        try:
            if self._asked < asked_after:
                asked = time.monotonic()
                self._hosts = list(members(self._place, self._tablespace, until).servers)
                self._asked = asked
            hosts = list(self._hosts)
        finally:
            self._lock.release()
        if not hosts:
            raise OperationalError(
                f"no server is there: none is registered under {self._place.root} in ZooKeeper at "
                f"{self._place.hosts}",
                sqlstate="08001",
            )
        return hosts


_clusters: dict[tuple[ZooKeeper, str], ZooKeeperHosts] = {}
_clusters_lock = threading.Lock()


def hosts_of(options: RemoteOptions) -> Hosts:
    """The servers that options lead to."""
    if options.zookeeper is None:
        return NamedHosts(options.hosts)
    key = (options.zookeeper, options.database or "")
    with _clusters_lock:
        found = _clusters.get(key)
        if found is None:
            if len(_clusters) >= _MOST_CLUSTERS:
                del _clusters[next(iter(_clusters))]
            found = _clusters[key] = ZooKeeperHosts(*key)
        return found


def _in_child() -> None:
    global _clusters_lock
    _clusters_lock = threading.Lock()
    _clusters.clear()


os.register_at_fork(after_in_child=_in_child)

__all__ = ["Host", "Hosts", "NamedHosts", "ZooKeeperHosts", "hosts_of"]
