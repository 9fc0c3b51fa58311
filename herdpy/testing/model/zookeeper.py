"""A model ZooKeeper: a tree, sessions that expire, watches, and clients, who have `Znodes` in virtual time.

Above `network`, below `cluster`. The tree is pure: a znode's version counts the changes of its data, a parent
counts the sequence znodes made under it, an ephemeral znode has no children and belongs to a session.
ZooKeeper is the host "zookeeper" of the simulated network: a client cut off from it loses first its
connection, then its session. Requests and replies of one session keep their order. A request can be lost with
its connection before it takes effect, or its reply after: a change then raises ZooKeeperUnavailableError with
outcome UNKNOWN, a read is made again. Sessions are kept by the heartbeats of `ModelZnodes`; one expires when
its host is cut off for too long, or when the simulation says so. A new one follows by itself, and watches go
on.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from herdpy.bookkeeper.errors import (
    ClosedClientError,
    Outcome,
    SessionExpiredError,
    ZooKeeperUnavailableError,
)
from herdpy.bookkeeper.metadata.znodes import (
    ANY_VERSION,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionKey,
    Watch,
    Znode,
    ZnodeError,
    ZnodeVersionError,
    ZooKeeperState,
)
from herdpy.testing.model.loop import VirtualLoop
from herdpy.testing.model.network import SimulatedLinks


@dataclass(slots=True)
class _Node:
    data: bytes
    ctime_ms: int
    czxid: int
    session: int | None
    version: int = 0
    made: int = 0  # children ever made: the next sequence number
    children: dict[str, None] = field(default_factory=dict)


class ZnodeTree:
    """The tree. `on_data(path)` and `on_children(path)` are called after each change."""

    def __init__(self, on_data: Callable[[str], None], on_children: Callable[[str], None]) -> None:
        self._nodes = {"/": _Node(b"", 0, 0, None)}
        self._created = 0  # znodes ever made: their order is all that is asked of their numbers
        self._on_data = on_data
        self._on_children = on_children

    def create(
        self,
        path: str,
        data: bytes,
        *,
        now_ms: int,
        session: int | None = None,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        """Make a znode, ephemeral with a session; its path. Raises NodeExistsError, NoNodeError."""
        parent_path = _parent(path)
        parent = self._nodes.get(parent_path)
        if parent is None:
            if not make_parents:
                raise NoNodeError(path)
            self.create(parent_path, b"", now_ms=now_ms, make_parents=True)
            parent = self._nodes[parent_path]
        if sequence:
            path = f"{path}{parent.made:010d}"
        if path in self._nodes:
            raise NodeExistsError(path)
        parent.made += 1
        parent.children[path.rsplit("/", 1)[1]] = None
        self._created += 1
        self._nodes[path] = _Node(bytes(data), now_ms, self._created, session)
        self._on_data(path)
        self._on_children(path)
        self._on_children(parent_path)
        return path

    def get(self, path: str) -> Znode:
        """A znode. Raises NoNodeError."""
        node = self._node(path)
        return Znode(node.data, node.version, node.ctime_ms, node.czxid)

    def find(self, path: str) -> Znode | None:
        """A znode, or None."""
        return self.get(path) if path in self._nodes else None

    def set(self, path: str, data: bytes, version: int) -> int:
        """Replace the data at `version`; the new version. Raises NoNodeError, BadVersionError."""
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise ZnodeVersionError(path)
        node.data = bytes(data)
        node.version += 1
        self._on_data(path)
        return node.version

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a leaf. Raises NoNodeError, BadVersionError, NotEmptyError."""
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise ZnodeVersionError(path)
        if node.children:
            raise NotEmptyError(path)
        parent_path = _parent(path)
        del self._nodes[path]
        del self._nodes[parent_path].children[path.rsplit("/", 1)[1]]
        self._on_data(path)
        self._on_children(path)
        self._on_children(parent_path)

    def children(self, path: str) -> list[str]:
        """The sorted names of a znode's children. Raises NoNodeError."""
        return sorted(self._node(path).children)

    def delete_ephemerals(self, session: int) -> None:
        """Remove what belongs to a session."""
        for path in [path for path, node in self._nodes.items() if node.session == session]:
            self.delete(path)

    def _node(self, path: str) -> _Node:
        node = self._nodes.get(path)
        if node is None:
            raise NoNodeError(path)
        return node


def _parent(path: str) -> str:
    return path.rsplit("/", 1)[0] or "/"


# Sessions.

UNKNOWN_STATE = object()
"""What was delivered last, before anything was."""


class ModelWatch:
    """A watch on data or children. `delivered`: the state delivered last; `has_fired`: it changed since."""

    def __init__(
        self, owner: list[ModelWatch], path: str, children: bool, callback: Callable[[Any], None]
    ) -> None:
        self.path = path
        self.children = children
        self.callback: Callable[[Any], None] | None = callback
        self.delivered: object = UNKNOWN_STATE
        self.has_fired = False
        self.is_due = False
        self._owner = owner

    def cancel(self) -> None:
        self.callback = None
        if self in self._owner:
            self._owner.remove(self)


class Listener:
    """A listener to the session."""

    def __init__(
        self, owner: list[Callable[[ZooKeeperState], None]], callback: Callable[[ZooKeeperState], None]
    ) -> None:
        self._owner = owner
        self._callback = callback

    def cancel(self) -> None:
        if self._callback in self._owner:
            self._owner.remove(self._callback)


ZOOKEEPER = "zookeeper"


class ModelZooKeeper:
    """The server. `lost_request_share` and `lost_reply_share` are the shares of requests whose connection
    breaks before they take effect, and after."""

    def __init__(self, loop: VirtualLoop, rng: random.Random, links: SimulatedLinks) -> None:
        self.loop = loop
        self.rng = rng
        self.links = links
        self.lost_request_share = 0.0
        self.lost_reply_share = 0.0
        self.clients: list[ModelZnodes] = []
        self.tree = ZnodeTree(self._data_changed, self._children_changed)
        self._next_session = 1
        self._heard_s: dict[int, float] = {}

    def now_ms(self) -> int:
        """Virtual time as znodes have it."""
        return 1_700_000_000_000 + int(self.loop.time() * 1000)

    def reaches(self, host: str) -> bool:
        """Whether a connection between the host and ZooKeeper works."""
        links = self.links
        return not (links.between(host, ZOOKEEPER).is_cut or links.between(ZOOKEEPER, host).is_cut)

    def new_session(self, timeout_s: float) -> int:
        """A session that ends when nothing is heard of it for `timeout_s`."""
        session = self._next_session
        self._next_session += 1
        self._heard_s[session] = self.loop.time()
        self.loop.call_later(timeout_s, self._look_at, session, timeout_s)
        return session

    def is_alive(self, session: int) -> bool:
        """Whether the session has neither expired nor been closed."""
        return session in self._heard_s

    def heartbeat(self, session: int) -> None:
        """The client lives."""
        if session in self._heard_s:
            self._heard_s[session] = self.loop.time()

    def end_session(self, session: int) -> None:
        """Closed or expired: its ephemeral znodes go."""
        if self._heard_s.pop(session, None) is not None:
            self.tree.delete_ephemerals(session)

    def _look_at(self, session: int, timeout_s: float) -> None:
        heard_s = self._heard_s.get(session)
        if heard_s is None:
            return
        if self.loop.time() >= heard_s + timeout_s:
            self.end_session(session)
        else:
            self.loop.call_at(heard_s + timeout_s, self._look_at, session, timeout_s)

    def _data_changed(self, path: str) -> None:
        for client in self.clients:
            client.changed(path, children=False)

    def _children_changed(self, path: str) -> None:
        for client in self.clients:
            client.changed(path, children=True)


class Lane:
    """One direction of a session: what is sent later arrives later."""

    def __init__(self, zookeeper: ModelZooKeeper, source: str, target: str) -> None:
        self._zookeeper = zookeeper
        self._ends = (source, target)
        self._last_s = 0.0

    def arrival_s(self) -> float:
        """When what is sent now arrives."""
        delay_s = self._zookeeper.links.between(*self._ends).delay.draw(self._zookeeper.rng)
        self._last_s = max(self._last_s + 1e-7, self._zookeeper.loop.time() + delay_s)
        return self._last_s

    async def cross(self) -> None:
        """Wait until what is sent now has arrived."""
        await asyncio.sleep(self.arrival_s() - self._zookeeper.loop.time())


T = TypeVar("T")
_RETRY_S = 0.2  # between attempts to connect


class ModelZnodes:
    """Znodes for a program on the host `host`; `timeout_s` is that of its session and its requests."""

    def __init__(self, zookeeper: ModelZooKeeper, host: str, *, timeout_s: float = 10.0) -> None:
        self.host = host
        self.timeout_s = timeout_s
        self.state = ZooKeeperState.LOST
        self._zookeeper = zookeeper
        self._loop = zookeeper.loop
        self._session = 0
        self._closed = False
        self._started = False
        self._frozen = False
        self._out = Lane(zookeeper, host, ZOOKEEPER)
        self._back = Lane(zookeeper, ZOOKEEPER, host)
        self._watches: list[ModelWatch] = []
        self._listeners: list[Callable[[ZooKeeperState], None]] = []
        self._beat: asyncio.TimerHandle | None = None
        self._connected = asyncio.Event()

    # -- the session

    @property
    def session(self) -> int:
        """The session of now; another number after an expiry, 0 before the first."""
        return self._session

    @property
    def session_key(self) -> SessionKey | None:
        return SessionKey(self._session, b"") if self._session else None

    async def start(self) -> None:
        if self._closed:
            raise ClosedClientError
        if not self._started:
            self._started = True
            self._zookeeper.clients.append(self)
            self._heartbeat()
        await self._until_connected(self._loop.time() + self.timeout_s)

    async def close(self) -> None:
        if self._closed:
            return
        self.abandon()
        self._connected.set()
        if self._zookeeper.reaches(self.host):
            self._zookeeper.end_session(self._session)

    def expire(self) -> None:
        """The server ends the session; the client finds out when it next speaks."""
        self._zookeeper.end_session(self._session)

    def abandon(self) -> None:
        """The process is gone: the server notices when the session times out."""
        self._closed = True
        self._watches.clear()
        self._listeners.clear()
        if self._beat is not None:
            self._beat.cancel()
        if self in self._zookeeper.clients:
            self._zookeeper.clients.remove(self)

    def freeze(self) -> None:
        """The client's process is stopped: no heartbeats."""
        self._frozen = True
        if self._beat is not None:
            self._beat.cancel()

    def thaw(self) -> None:
        """The client's process goes on."""
        self._frozen = False
        self._beat_in(0)

    def disconnect(self) -> None:
        """The connection breaks; the session lives on unless the client stays away for too long."""
        if self.state is ZooKeeperState.CONNECTED and not self._closed:
            self._connected.clear()
            self._notify(ZooKeeperState.SUSPENDED)
            self._beat_in(self._zookeeper.rng.uniform(0, _RETRY_S))

    def on_session(self, callback: Callable[[ZooKeeperState], None]) -> Watch:
        self._listeners.append(callback)
        return Listener(self._listeners, callback)

    def _heartbeat(self) -> None:
        if not self._zookeeper.reaches(self.host):
            if self.state is ZooKeeperState.CONNECTED:
                self.disconnect()
            else:
                self._beat_in(_RETRY_S)
            return
        if not self._zookeeper.is_alive(self._session):
            if self._session:
                self._connected.clear()
                self._notify(ZooKeeperState.LOST)
            self._session = self._zookeeper.new_session(self.timeout_s)
        self._zookeeper.heartbeat(self._session)
        if self.state is not ZooKeeperState.CONNECTED:
            self._connected.set()
            self._notify(ZooKeeperState.CONNECTED)
            for watch in list(self._watches):
                self._schedule(watch)
        self._beat_in(self.timeout_s / 3)

    def _beat_in(self, delay_s: float) -> None:
        if self._beat is not None:
            self._beat.cancel()
        if not self._closed and not self._frozen:
            self._beat = self._loop.call_later(delay_s, self._heartbeat)

    def _notify(self, state: ZooKeeperState) -> None:
        if state is not self.state:
            self.state = state
            for callback in list(self._listeners):
                callback(state)

    async def _until_connected(self, deadline_s: float) -> None:
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._connected.wait()
        except TimeoutError:
            raise ZooKeeperUnavailableError(outcome=Outcome.NOT_DONE) from None
        if self._closed:
            raise ClosedClientError

    # -- requests

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        return await self._change(
            lambda: self._zookeeper.tree.create(
                path,
                data,
                now_ms=self._zookeeper.now_ms(),
                session=self._session if ephemeral else None,
                sequence=sequence,
                make_parents=make_parents,
            )
        )

    async def get(self, path: str) -> Znode:
        return await self._read(lambda: self._zookeeper.tree.get(path))

    async def set(self, path: str, data: bytes, version: int) -> int:
        return await self._change(lambda: self._zookeeper.tree.set(path, data, version))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._change(lambda: self._zookeeper.tree.delete(path, version))

    async def children(self, path: str) -> list[str]:
        return await self._read(lambda: self._zookeeper.tree.children(path))

    async def exists(self, path: str) -> Znode | None:
        return await self._read(lambda: self._zookeeper.tree.find(path))

    async def _read(self, action: Callable[[], T]) -> T:
        deadline_s = self._loop.time() + self.timeout_s
        while True:
            try:
                return await self._attempt(action, deadline_s)
            except (ZooKeeperUnavailableError, SessionExpiredError):
                if self._loop.time() >= deadline_s:
                    raise ZooKeeperUnavailableError(outcome=Outcome.NOT_DONE) from None

    async def _change(self, action: Callable[[], T]) -> T:
        return await self._attempt(action, self._loop.time() + self.timeout_s)

    async def _attempt(self, action: Callable[[], T], deadline_s: float) -> T:
        if self._closed:
            raise ClosedClientError
        if not self._started:
            raise ZooKeeperUnavailableError("not started", outcome=Outcome.NOT_DONE)
        await self._until_connected(deadline_s)
        zookeeper, session = self._zookeeper, self._session
        await self._out.cross()
        if zookeeper.rng.random() < zookeeper.lost_request_share or not zookeeper.reaches(self.host):
            await self._lose_connection()
        if not zookeeper.is_alive(session):
            self._heartbeat()
            raise SessionExpiredError(outcome=Outcome.NOT_DONE)
        zookeeper.heartbeat(session)
        result: T | None = None
        refusal: ZnodeError | None = None
        try:
            result = action()
        except ZnodeError as error:
            refusal = error
        await self._back.cross()
        if zookeeper.rng.random() < zookeeper.lost_reply_share or not zookeeper.reaches(self.host):
            await self._lose_connection()
        if refusal is not None:
            raise refusal
        return result  # type: ignore[return-value]  # None only where T is None

    async def _lose_connection(self) -> None:
        if not self._zookeeper.reaches(self.host):
            await asyncio.sleep(self.timeout_s / 3)
        self.disconnect()
        raise ZooKeeperUnavailableError(outcome=Outcome.UNKNOWN)

    # -- watches

    def watch_data(self, path: str, callback: Callable[[Znode | None], None]) -> Watch:
        return self._watch(path, False, callback)

    def watch_children(self, path: str, callback: Callable[[list[str] | None], None]) -> Watch:
        return self._watch(path, True, callback)

    def _watch(self, path: str, children: bool, callback: Callable[[Any], None]) -> Watch:
        if self._closed:
            raise ClosedClientError
        watch = ModelWatch(self._watches, path, children, callback)
        self._watches.append(watch)
        self._schedule(watch)
        return watch

    def changed(self, path: str, *, children: bool) -> None:
        """Called by the server after a change."""
        for watch in self._watches:
            if watch.path == path and watch.children is children:
                watch.has_fired = True
                self._schedule(watch)

    def _schedule(self, watch: ModelWatch) -> None:
        if not watch.is_due and self.state is ZooKeeperState.CONNECTED:
            watch.is_due = True
            self._loop.call_at(self._back.arrival_s(), self._deliver, watch)

    def _deliver(self, watch: ModelWatch) -> None:
        watch.is_due = False
        if watch.callback is None or self.state is not ZooKeeperState.CONNECTED:
            return  # delivered after the reconnection
        if not self._zookeeper.reaches(self.host):
            self.disconnect()
            return
        tree = self._zookeeper.tree
        state: object
        if watch.children:
            try:
                state = tree.children(watch.path)
            except NoNodeError:
                state = None
        else:
            state = tree.find(watch.path)
        if watch.has_fired or watch.delivered is UNKNOWN_STATE or state != watch.delivered:
            watch.delivered, watch.has_fired = state, False
            watch.callback(state)
