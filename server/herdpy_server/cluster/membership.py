"""Which nodes there are: this one's registration, and the others'.

Above ``session`` and ``certain``. A node is there while its ephemeral znode under ``nodes`` is. It is made
anew after the session was lost. An id belongs to one process: who finds another's znode waits for as long as
a session of a dead process can last, and then gives up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from herdpy.bookkeeper.errors import BookKeeperError, ClosedClientError
from herdpy.bookkeeper.metadata.znodes import Watch, Znode, Znodes, ZooKeeperState
from herdpy_server.cluster.certain import GivenUpError, create_own, delete_own
from herdpy_server.cluster.errors import MalformedMetadataError, NodeIdInUseError
from herdpy_server.cluster.layout import Layout, NodeRecord, decode, encode
from herdpy_server.cluster.lease import Clock, boottime
from herdpy_server.cluster.session import ZooKeeperSession, watched_records

_log = logging.getLogger("herdpy.cluster")

_RETRY_S = 0.5
_LEFTOVER_SESSIONS = 2.5  # time-outs: a server ends a session up to a tick late, and not while it elects


class Membership:
    """Attributes:
    own: what this node registers.
    """

    def __init__(
        self,
        znodes: Znodes,
        session: ZooKeeperSession,
        layout: Layout,
        own: NodeRecord,
        *,
        refused: Callable[[NodeIdInUseError], None],
        clock: Clock = boottime,
    ) -> None:
        """Args:
        own: ``instance`` must be new with each start, ``session_timeout_s`` that of the session.
        refused: another process took the id after this one's session was lost; this one cannot go on.
        """
        self.own = own
        self._znodes = znodes
        self._session = session
        self._layout = layout
        self._path = layout.node(own.node)
        self._refused = refused
        self._clock = clock
        self._others = watched_records(znodes, layout.nodes, NodeRecord, self._node_changed)
        self._listeners: dict[object, Callable[[str, NodeRecord | None], None]] = {}
        self._away_since_s: dict[str, float] = {}
        self._began_s = clock()
        self._registered = 0  # the number of the session that has the znode
        self._work: asyncio.Task[None] | None = None
        self._watch: Watch | None = None

    # -- the nodes

    @property
    def nodes(self) -> Mapping[str, NodeRecord]:
        """The nodes that are there, as last heard, by id; this one among them once it is registered."""
        return self._others.records

    def away_s(self, node: str) -> float:
        """For how long a node has been away, as far as this process knows; 0 while it is there."""
        if node in self._others.records:
            return 0.0
        return self._clock() - self._away_since_s.get(node, self._began_s)

    def on_change(self, listener: Callable[[str, NodeRecord | None], None]) -> Callable[[], None]:
        """Call back with each node that comes, changes or goes (None); returns what ends that."""
        key = object()
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None

    def _node_changed(self, node: str, record: NodeRecord | None) -> None:
        if record is None:
            self._away_since_s[node] = self._clock()
        else:
            self._away_since_s.pop(node, None)
        for listener in tuple(self._listeners.values()):
            listener(node, record)

    # -- this one

    async def start(self) -> None:
        """Register, and learn who else is there.

        Raises:
            NodeIdInUseError: another process has the id.
            BookKeeperError: ZooKeeper refuses, or the client is closed.
        """
        await self._register()
        self._watch = self._session.on_change(self._session_changed)
        self._session_changed(self._session.state)
        self._others.start()
        await self._others.complete.wait()

    async def update(self, own: NodeRecord) -> None:
        """Register something else (an address that is known only now). Raises as ``start``."""
        self.own = own
        self._registered = 0
        await self._register()

    async def close(self) -> None:
        """Be there no more."""
        if self._watch is not None:
            self._watch.cancel()
        self._others.close()
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        number = self._session.number
        with contextlib.suppress(BookKeeperError, GivenUpError, TimeoutError):
            async with asyncio.timeout(_RETRY_S):
                await delete_own(
                    self._znodes, self._path, self._is_own, wanted=lambda: number == self._session.number
                )

    def _session_changed(self, state: ZooKeeperState) -> None:
        if state is not ZooKeeperState.CONNECTED or self._registered == self._session.number:
            return
        if self._work is None or self._work.done():
            self._work = asyncio.get_running_loop().create_task(self._again(), name="node registration")

    async def _again(self) -> None:
        while self._registered != self._session.number:
            try:
                await self._register()
                _log.info("registered again", extra={"node": self.own.node})
            except NodeIdInUseError as error:
                self._refused(error)
                return
            except ClosedClientError:
                return
            except BookKeeperError as error:
                _log.warning("not registered", extra={"node": self.own.node, "reason": str(error)})
                await asyncio.sleep(_RETRY_S)

    async def _register(self) -> None:
        """Make the znode in the session of now, however often that changes meanwhile."""
        while self._registered != (number := self._session.number):
            data = encode(self.own)
            try:
                other = await create_own(
                    self._znodes,
                    self._path,
                    data,
                    lambda found, data=data: found == data,  # type: ignore[misc]
                    ephemeral=True,
                    wanted=lambda number=number: self._session.number == number,  # type: ignore[misc]
                )
            except GivenUpError:
                continue
            if other is not None:
                await self._make_room(other)
            elif self._session.number == number:
                self._registered = number

    async def _make_room(self, other: Znode) -> None:
        """Remove what this process left there; wait for what a dead one did. Raises NodeIdInUseError."""
        number = self._session.number
        if self._is_own(other.data):
            with contextlib.suppress(GivenUpError):
                await delete_own(
                    self._znodes, self._path, self._is_own, wanted=lambda: number == self._session.number
                )
            return
        try:
            record = decode(NodeRecord, self._path, other.data)
        except MalformedMetadataError as error:
            raise NodeIdInUseError(self.own.node, str(error)) from error
        patience_s = _LEFTOVER_SESSIONS * max(record.session_timeout_s, self.own.session_timeout_s) + 1.0
        gone = asyncio.Event()
        watch = self._znodes.watch_data(
            self._path, lambda znode: gone.set() if znode is None or znode.data != other.data else None
        )
        try:
            async with asyncio.timeout(patience_s):
                await gone.wait()
        except TimeoutError:
            raise NodeIdInUseError(self.own.node, str(record.sql or record.instance)) from None
        finally:
            watch.cancel()

    def _is_own(self, data: bytes) -> bool:
        try:
            return decode(NodeRecord, self._path, data).instance == self.own.instance
        except MalformedMetadataError:
            return False
