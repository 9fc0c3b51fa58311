"""``Znodes`` over kazoo: ZooKeeper's protocol in kazoo's threads, every result brought to the event loop.

Kazoo runs three threads (its connection, completions, watch events). Each request is handed to it with a
future of the loop, and what its threads find is posted to the loop (``zookeeper_bridge``,
``zookeeper_reads``, ``zookeeper_ending``). Nothing above knows of threads.

Lost connections: kazoo reconnects by itself, and opens a new session when the old one expired. Reads wait for
that and are repeated until their deadline. A change that was handed over and not answered is never repeated;
it raises with ``Outcome.UNKNOWN``. Persistent watches are in ``zookeeper_watch``.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import SessionExpiredError as KazooSessionExpiredError
from kazoo.protocol.states import KazooState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from herdpy.bookkeeper.errors import (
    ClosedClientError,
    MetadataError,
    Outcome,
    SessionExpiredError,
    ZooKeeperUnavailableError,
)
from herdpy.bookkeeper.metadata.listeners import Listeners
from herdpy.bookkeeper.metadata.znodes import (
    ANY_VERSION,
    NodeExistsError,
    NoNodeError,
    Watch,
    Znode,
    ZooKeeperState,
)
from herdpy.bookkeeper.metadata.zookeeper_bridge import LOST, AsyncResult, Bridge
from herdpy.bookkeeper.metadata.zookeeper_ending import KazooLog, end_session
from herdpy.bookkeeper.metadata.zookeeper_reads import Fire, ZnodeReads
from herdpy.bookkeeper.metadata.zookeeper_watch import PersistentWatch
from herdpy.zookeeper_access import IN_THE_CLEAR, ZooKeeperAccess

_log = logging.getLogger("herdpy.bookkeeper.zookeeper")

MAX_DATA_BYTES = 1_000_000
"""The most data of one znode: a server drops the connection of whoever sends more (jute.maxbuffer, 1 MiB)."""

T = TypeVar("T")

_MAX_PARENT_ROUNDS = 16
_STATES = {
    KazooState.CONNECTED: ZooKeeperState.CONNECTED,
    KazooState.SUSPENDED: ZooKeeperState.SUSPENDED,
    KazooState.LOST: ZooKeeperState.LOST,
}


class Acl(enum.Enum):
    """Who may do what with the znodes that are made."""

    OPEN = "open"
    """Anyone anything: BookKeeper's default."""
    CREATOR = "creator"
    """Only who authenticated as their creator (BookKeeper's zkEnableSecurity)."""


class KazooZnodes:
    """A session with a ZooKeeper ensemble; the protocol ``Znodes`` says what its methods do."""

    def __init__(
        self,
        hosts: str,
        session_timeout_s: float = 10.0,
        *,
        operation_timeout_s: float | None = None,
        acl: Acl = Acl.OPEN,
        digest_auth: str | None = None,
        access: ZooKeeperAccess = IN_THE_CLEAR,
    ) -> None:
        """Args:
        hosts: "host:port,host:port"; a path behind them ("/chroot") is put before every path.
        session_timeout_s: asked of ZooKeeper, which may grant another.
        operation_timeout_s: how long one operation may take, waiting for the connection included; None:
            as long as the session time-out.
        acl: of the znodes made.
        digest_auth: "user:password" of ZooKeeper's digest scheme.
        access: whether TLS is used, and with which certificates.
        """
        self._hosts = hosts
        self._access = access
        self._session_timeout_s = session_timeout_s
        self._operation_timeout_s = session_timeout_s if operation_timeout_s is None else operation_timeout_s
        self._acl = CREATOR_ALL_ACL if acl is Acl.CREATOR else OPEN_ACL_UNSAFE
        self._auth = [("digest", digest_auth)] if digest_auth is not None else None
        self._client: Any = None
        self._log = KazooLog()
        self._reads: ZnodeReads  # once started
        self._connected = asyncio.Event()
        self._state = ZooKeeperState.LOST
        self._closing: asyncio.Task[None] | None = None
        self._bridge = Bridge()
        self._watches: set[PersistentWatch[Any]] = set()
        self._listeners: Listeners[[ZooKeeperState]] = Listeners()

    @property
    def state(self) -> ZooKeeperState:
        """The session's state as last heard."""
        return self._state

    async def start(self) -> None:
        self._refuse_closed()
        if self._client is not None:
            return
        self._bridge.open(asyncio.get_running_loop())
        self._client = KazooClient(
            hosts=self._hosts,
            timeout=self._session_timeout_s,
            default_acl=self._acl,
            auth_data=self._auth,
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0},
            logger=self._log,
            **self._access.keywords(self._hosts, self._session_timeout_s),
        )
        self._reads = ZnodeReads(self._client, self._bridge)
        self._client.add_listener(self._state_in_thread)
        self._client.start_async()
        try:
            async with asyncio.timeout(max(self._session_timeout_s, self._operation_timeout_s)):
                await self._connected.wait()
        except TimeoutError:
            await self.close()
            raise ZooKeeperUnavailableError(
                f"no session with ZooKeeper at {self._hosts}", outcome=Outcome.NOT_DONE
            ) from None
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        """End the session; what waits fails with ClosedClientError. May be repeated.

        A silent ZooKeeper holds this up for 2.5 s at most (``zookeeper_ending``); the session then ends with
        its time-out.
        """
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._end())
            for watch in tuple(self._watches):
                watch.cancel()
            self._bridge.fail_pending()
            self._connected.set()  # whoever waits for it finds the client closed
            self._listeners.clear()
        await asyncio.shield(self._closing)

    async def _end(self) -> None:
        self._log.is_over = True
        if self._client is not None:
            await end_session(self._client, self._bridge)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        for _ in range(_MAX_PARENT_ROUNDS):
            try:
                made: str = await self._change(
                    path,
                    lambda: self._client.create_async(path, data, ephemeral=ephemeral, sequence=sequence),
                    data,
                )
                return made
            except NoNodeError:
                parent = path.rpartition("/")[0]
                if not make_parents or not parent:
                    raise
            await self._make_parent(parent)
        raise NoNodeError(path)  # somebody removes the parents as fast as they are made

    async def _make_parent(self, parent: str) -> None:
        try:
            await self.create(parent, make_parents=True)
        except NodeExistsError:
            pass
        except (ZooKeeperUnavailableError, SessionExpiredError) as lost:
            # A parent made or not: what was asked for has not been.
            raise type(lost)(lost.message, outcome=Outcome.NOT_DONE) from lost

    async def get(self, path: str) -> Znode:
        return await self._read(path, lambda: self._reads.data(path))

    async def set(self, path: str, data: bytes, version: int) -> int:
        stat = await self._change(path, lambda: self._client.set_async(path, data, version), data)
        return int(stat.version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._change(path, lambda: self._client.delete_async(path, version))

    async def children(self, path: str) -> list[str]:
        return await self._read(path, lambda: self._reads.children(path))

    async def exists(self, path: str) -> Znode | None:
        try:
            return await self.get(path)
        except NoNodeError:
            return None

    def watch_data(self, path: str, callback: Callable[[Znode | None], None]) -> Watch:
        return self._watch(path, self._read_data_watched, callback)

    def watch_children(self, path: str, callback: Callable[[list[str] | None], None]) -> Watch:
        return self._watch(path, self._read_children_watched, callback)

    def _watch(
        self,
        path: str,
        read: Callable[[str, Fire], Awaitable[T]],
        callback: Callable[[T], None],
    ) -> Watch:
        self._refuse_closed()
        watch = PersistentWatch(path, read, callback, self._post_from_thread, self._watches.discard)
        self._watches.add(watch)
        watch.refresh()
        return watch

    def on_session(self, callback: Callable[[ZooKeeperState], None]) -> Watch:
        self._refuse_closed()
        return self._listeners.add(callback)

    # What the watches use.

    async def _read_data_watched(self, path: str, fire: Fire) -> Znode | None:
        """The znode, with kazoo's one-shot watch set on it, or on its creation when there is none."""
        return await self._read(path, lambda: self._reads.data_watched(path, fire))

    async def _read_children_watched(self, path: str, fire: Fire) -> list[str] | None:
        """The names of the children, watched as above."""
        return await self._read(path, lambda: self._reads.children_watched(path, fire))

    def _post_from_thread(self, call: Callable[..., object], *arguments: object) -> None:
        """Call something on the loop, from one of kazoo's threads, unless all is over."""
        if self._closing is None:
            self._bridge.post(call, *arguments)

    # Below: requests, and what kazoo's threads tell.

    async def _read(self, path: str, once: Callable[[], Awaitable[T]]) -> T:
        """Read, again after each lost connection, until there is an answer or the time is up."""
        try:
            async with asyncio.timeout(self._operation_timeout_s):
                while True:
                    await self._await_connection()
                    try:
                        return await once()
                    except LOST:
                        self._refuse_closed()
                        await asyncio.sleep(0.05)
        except TimeoutError:
            raise ZooKeeperUnavailableError(
                f"ZooKeeper did not answer a read of {path} in {self._operation_timeout_s} s",
                outcome=Outcome.NOT_DONE,
            ) from None

    async def _change(self, path: str, start: Callable[[], AsyncResult], data: bytes = b"") -> Any:
        """Ask for a change once; what is not answered is in doubt."""
        if len(data) > MAX_DATA_BYTES:
            raise MetadataError(f"{len(data)} bytes for {path}: a znode holds at most {MAX_DATA_BYTES}")
        outcome = Outcome.NOT_DONE
        try:
            async with asyncio.timeout(self._operation_timeout_s):
                await self._await_connection()
                outcome = Outcome.UNKNOWN
                return await self._bridge.request(path, start)
        except (TimeoutError, *LOST) as lost:
            if self._closing is not None:
                raise ClosedClientError(f"closed while {path} was changed", outcome=outcome) from lost
            if isinstance(lost, KazooSessionExpiredError):
                raise SessionExpiredError(
                    f"the session expired while {path} was changed", outcome=outcome
                ) from lost
            raise ZooKeeperUnavailableError(
                f"ZooKeeper did not answer a change of {path}", outcome=outcome
            ) from lost

    async def _await_connection(self) -> None:
        if self._client is None:
            raise ClosedClientError("the ZooKeeper client was not started", outcome=Outcome.NOT_DONE)
        await self._connected.wait()
        self._refuse_closed()

    def _refuse_closed(self) -> None:
        if self._closing is not None:
            raise ClosedClientError("the ZooKeeper client is closed", outcome=Outcome.NOT_DONE)

    def _state_in_thread(self, state: str) -> None:
        self._post_from_thread(self._state_changed, _STATES[state])

    def _state_changed(self, state: ZooKeeperState) -> None:
        if self._closing is not None:
            return
        self._state = state
        _log.info("ZooKeeper session", extra={"state": state.value, "hosts": self._hosts})
        if state is ZooKeeperState.CONNECTED:
            self._connected.set()
            for watch in tuple(self._watches):
                watch.refresh()  # kazoo forgets its watches with the connection
        else:
            self._connected.clear()
        self._listeners.tell(state)
