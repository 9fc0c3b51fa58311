"""The servers of a tablespace: those that a URL names, or those that ZooKeeper knows. Below ``leader``.

ZooKeeper is read for a moment, on a session of its own, whose every wait has an end; a field that is not
there has its usual value. Connections of one process to one cluster share the answer: it is read again for
a connection made later than a few seconds after, and when the known servers have no leader.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import random
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from herdpy.dbapi.errors import InterfaceError, OperationalError
from herdpy.dbapi.options import RemoteOptions
from herdpy.dbapi.url import ZooKeeper
from herdpy.distribution import driver_line
from herdpy.zookeeper_access import IN_THE_CLEAR, ZooKeeperAccess

if TYPE_CHECKING:
    from kazoo.client import KazooClient

Host = tuple[str, int]

SESSION_S = 3.0
"""ZooKeeper ends a session that is silent for so long; a host that does not answer is given up as soon."""
MOST_SERVERS = 256
_END_PATIENCE_S = 2.0
_HEAD_START_S = 0.25
_SIDE_BY_SIDE = 4
"""So many hosts are tried at a time, each so long after the one before it."""
_ATTEMPTS = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 0.5}


class ZooKeeperError(OperationalError):
    """ZooKeeper does not answer, or does not know the cluster (08001)."""

    def __init__(self, message: str) -> None:
        hint = None
        if "does not answer" in message:
            hint = "Is ZooKeeper up, and is that its port? One with TLS needs zookeeper_tls=true."
        super().__init__(message, sqlstate="08001", hint=hint)


@dataclass(frozen=True, slots=True)
class Members:
    """Who is there.

    Attributes:
        leader: the SQL address of who was elected last; None: nobody was, or it tells no address.
        servers: SQL addresses of all nodes that are there, that of the leader first.
    """

    leader: Host | None
    servers: tuple[Host, ...]


def members(place: ZooKeeper, tablespace: str, deadline: float) -> Members:
    """The servers of a cluster as ZooKeeper knows them now; none is no error.

    Args:
        deadline: on time.monotonic.

    Raises:
        InterfaceError: kazoo is not installed.
        ZooKeeperError: it does not answer in time, or has no such tablespace.
    """
    with ZnodeReader(place.hosts, deadline, place.access) as znodes:
        info = znodes.read(f"{place.root}/tablespaces/{tablespace}")
        if info is None or info.get("dropped"):
            raise ZooKeeperError(
                f"there is no tablespace {tablespace} under {place.root} in ZooKeeper at {place.hosts}"
            )
        elected = znodes.read(f"{place.root}/tablespaces/{tablespace}/leader")
        nodes = znodes.read_all(
            f"{place.root}/nodes/{node}" for node in znodes.children(f"{place.root}/nodes")[:MOST_SERVERS]
        )
    leader = address((elected or {}).get("sql"))
    servers = [
        found for node in nodes if node is not None and (found := address(node.get("sql"))) is not None
    ]
    if leader in servers:  # an election's znode may outlive its node for a moment
        servers.remove(leader)
        servers.insert(0, leader)
    return Members(leader, tuple(dict.fromkeys(servers)))


def address(record: object) -> Host | None:
    """The host and port in a record; None where there is none."""
    if not isinstance(record, dict):
        return None
    host, port = record.get("host"), record.get("port")
    if (
        not isinstance(host, str)
        or not host
        or "," in host
        or not isinstance(port, int)
        or not 0 < port < 65536
    ):
        return None
    return host, port


class ZnodeReader:
    """A session for reading znodes whose data are JSON objects:
    ``with ZnodeReader(hosts, deadline) as znodes``.

    Several hosts are tried side by side, each a little after the one before it, so that one that is silent
    costs a moment only; a refusal is followed by the next at once.

    Raises:
        ZooKeeperError: no host answers by the deadline; from all its methods, too.
    """

    def __init__(self, hosts: str, deadline: float, access: ZooKeeperAccess = IN_THE_CLEAR) -> None:
        self._hosts = hosts
        self._deadline = deadline
        self._access = access
        self._client: KazooClient | None = None
        self._last_failure = _LastFailure()

    def __enter__(self) -> ZnodeReader:
        try:
            from kazoo.client import KazooClient
        except ImportError as error:
            raise InterfaceError(
                f"looking servers up in ZooKeeper needs kazoo: {driver_line('zk')} ({error})"
            ) from error
        hosts = self._hosts.split(",")
        random.shuffle(hosts)
        connected: queue.SimpleQueue[KazooClient] = queue.SimpleQueue()
        started: list[KazooClient] = []
        try:
            for first in range(count := min(len(hosts), _SIDE_BY_SIDE)):
                started.append(self._begin(KazooClient, hosts[first:] + hosts[:first], connected))
                left = max(0.0, self._deadline - time.monotonic())
                patience = left if first == count - 1 else min(left, _HEAD_START_S)
                with contextlib.suppress(queue.Empty):
                    self._client = connected.get(timeout=patience)
                    return self
        finally:
            for client in started:
                if client is not self._client:
                    _end_beside(client)
        raise ZooKeeperError(f"ZooKeeper at {self._hosts} does not answer{self._last_failure.last}")

    def _begin(
        self, make: type[KazooClient], hosts: list[str], connected: queue.SimpleQueue[KazooClient]
    ) -> KazooClient:
        """A session that begins with the first of some hosts; it tells when it is there."""
        named = ",".join(hosts)
        logger = logging.Logger("herdpy.zookeeper")  # kazoo's words stand in the error, and are not logged
        logger.addHandler(self._last_failure)
        client = make(
            named,
            timeout=SESSION_S,
            read_only=True,
            randomize_hosts=False,
            connection_retry=_ATTEMPTS,
            logger=logger,
            **self._access.keywords(named, SESSION_S),
        )
        client.add_listener(lambda state: connected.put(client) if state == "CONNECTED" else None)
        client.start_async()
        return client

    def __exit__(self, *_: object) -> None:
        client, self._client = self._client, None
        assert client is not None
        # kazoo waits for the server's farewell for ten seconds: no longer than this here.
        _end_beside(client).join(_END_PATIENCE_S)

    def read(self, path: str) -> dict[str, Any] | None:
        """What a znode has; None when there is none, and {} for what is no object."""
        return self.read_all([path])[0]

    def read_all(self, paths: Iterable[str]) -> list[dict[str, Any] | None]:
        """What each of several znodes has, asked for at once."""
        from kazoo.exceptions import NoNodeError

        assert self._client is not None
        asked = [self._client.get_async(path) for path in paths]
        found: list[dict[str, Any] | None] = []
        for one in asked:
            try:
                data, _stat = self._answer(one)
            except NoNodeError:
                found.append(None)
            else:
                found.append(_object(data))
        return found

    def children(self, path: str) -> list[str]:
        """The names of a znode's children in order; none when it is not there."""
        from kazoo.exceptions import NoNodeError

        assert self._client is not None
        try:
            return sorted(self._answer(self._client.get_children_async(path)))
        except NoNodeError:
            return []

    def _answer(self, asked: Any) -> Any:
        from kazoo.exceptions import KazooException, NoNodeError
        from kazoo.handlers.threading import KazooTimeoutError

        try:
            return asked.get(timeout=max(0.0, self._deadline - time.monotonic()))
        except NoNodeError:
            raise
        except (KazooException, KazooTimeoutError) as error:
            said = str(error) or type(error).__name__
            raise ZooKeeperError(f"ZooKeeper at {self._hosts} does not answer: {said}") from error


class _LastFailure(logging.Handler):
    """What kazoo said last of a connection that failed.

    Attributes:
        last: behind a colon; empty: nothing.
    """

    last = ""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage().partition(": ")[2].removeprefix("socket connection error: ")
        if record.msg.startswith("Connection") and said:
            self.last = f": {said[:200]}"


def _end_beside(client: Any) -> threading.Thread:
    ending = threading.Thread(target=_end, args=(client,), name="herdpy-zookeeper-end", daemon=True)
    ending.start()
    return ending


def _end(client: Any) -> None:
    from kazoo.exceptions import KazooException

    try:
        client.stop()
        client.close()
    except KazooException as stuck:  # its server fell silent: the session ends by its time-out
        logging.getLogger("herdpy.zookeeper").debug("kazoo did not stop", extra={"reason": str(stuck)})


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


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
