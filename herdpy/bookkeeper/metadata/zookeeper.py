"""``Znodes`` over kazoo: ZooKeeper's protocol in kazoo's threads, every result brought to the event loop.

Kazoo runs three threads (its connection, completions, watch events). Each request is handed to it with a
future of the loop, and what its threads find is posted to the loop with ``call_soon_threadsafe``, and
dropped when the loop is closed (``Bridge``). Nothing above knows of threads.

Lost connections: kazoo reconnects by itself, and opens a new session when the old one expired. Reads wait
for that and are repeated until their deadline. A change that was handed over and not answered is never
repeated; it raises with ``Outcome.UNKNOWN``. Losing the connection comes out of the bridge as kazoo's own
errors (``LOST``): what they mean depends on whether the request was a read or a change.

Watches that last (``PersistentWatch``) are made of ZooKeeper's, which fire once and die with the
connection. A watch reads the state and leaves a one-shot watch in the same request, tells the state, and
does so again each time the one-shot watch fires and each time the session is (re)connected. At most one
read is under way; what changes meanwhile causes another one after it, so the last state delivered is the last
state there was.

A session ends in a bounded time (``end_session``), also when ZooKeeper is silent. Kazoo's ``stop`` waits
for the server's answer, or until its own time-outs have found out that none comes, which takes longer than
a session. Here a connection whose server does not answer in time is shut down, which wakes kazoo's thread;
the server then ends the session by itself when it times out.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from kazoo import exceptions as kz
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.exceptions import SessionExpiredError as KazooSessionExpiredError
from kazoo.protocol.states import KazooState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from herdpy.bookkeeper.errors import (
    BookKeeperError,
    ClosedClientError,
    MetadataError,
    Outcome,
    SessionExpiredError,
    ZooKeeperUnavailableError,
)
from herdpy.bookkeeper.metadata.znodes import (
    ANY_VERSION,
    Listeners,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionKey,
    Watch,
    Znode,
    ZnodeVersionError,
    ZooKeeperState,
)
from herdpy.zookeeper_access import IN_THE_CLEAR, ZooKeeperAccess

_log = logging.getLogger("herdpy.bookkeeper.zookeeper")

LOST = (kz.ConnectionLoss, kz.ConnectionClosedError, kz.SessionExpiredError, kz.OperationTimeoutError)
"""Kazoo's errors that say nothing of what became of a request."""


class AsyncResult(Protocol):
    """What kazoo's asynchronous calls return."""

    exception: BaseException | None
    value: Any

    def rawlink(self, callback: Callable[[AsyncResult], None]) -> None:
        """Call back in kazoo's completion thread."""


class Bridge:
    """Requests handed to kazoo and not yet answered."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: set[asyncio.Future[Any]] = set()

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Bring results to this loop."""
        self._loop = loop

    async def request(self, path: str, start: Callable[[], AsyncResult]) -> Any:
        """Hand one request to kazoo and wait for its result."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending.add(future)
        try:
            start().rawlink(lambda result: self.post(_settle, future, result))
            return await future
        except kz.NoNodeError:
            raise NoNodeError(path) from None
        except kz.NodeExistsError:
            raise NodeExistsError(path) from None
        except kz.BadVersionError:
            raise ZnodeVersionError(path) from None
        except kz.NotEmptyError:
            raise NotEmptyError(path) from None
        except LOST:
            raise
        except kz.KazooException as refused:
            raise MetadataError(
                f"ZooKeeper refused an operation on {path}: {type(refused).__name__} {refused}"
            ) from refused
        finally:
            self._pending.discard(future)

    def post(self, call: Callable[..., object], *arguments: object) -> None:
        """Call something on the loop, from any thread, unless the loop is closed."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            _log.debug("the loop was closed before the ZooKeeper client")

    def fail_pending(self) -> None:
        """Answer what waits: kazoo's threads are about to end and will not."""
        for future in tuple(self._pending):
            if not future.done():
                future.set_exception(kz.ConnectionClosedError("closed"))


def _settle(future: asyncio.Future[Any], result: AsyncResult) -> None:
    if future.done():
        return
    if result.exception is not None:
        future.set_exception(result.exception)
    else:
        future.set_result(result.value)


T = TypeVar("T")

Fire = Callable[[Any], None]
"""What kazoo calls, in one of its threads, when a one-shot watch fires."""


class ZnodeReads:
    """Each method asks once; it raises kazoo's own error when the connection is lost (``LOST``)."""

    def __init__(self, client: Any, bridge: Bridge) -> None:
        self._client = client
        self._bridge = bridge

    async def data(self, path: str, fire: Fire | None = None) -> Znode:
        """A znode; raises NoNodeError, and then nothing is watched."""
        data, stat = await self._bridge.request(path, lambda: self._client.get_async(path, fire))
        return Znode(data or b"", stat.version, stat.ctime, stat.czxid)

    async def children(self, path: str, fire: Fire | None = None) -> list[str]:
        """The names of its children, in any order; raises NoNodeError, and then nothing is watched."""
        names: list[str] = await self._bridge.request(
            path, lambda: self._client.get_children_async(path, fire)
        )
        return names

    async def data_watched(self, path: str, fire: Fire) -> Znode | None:
        """The znode, watched; None when there is none, and then its creation is watched."""
        return await self._watched(path, fire, lambda: self.data(path, fire))

    async def children_watched(self, path: str, fire: Fire) -> list[str] | None:
        """The sorted names of the children, watched as above."""
        names = await self._watched(path, fire, lambda: self.children(path, fire))
        return None if names is None else sorted(names)

    async def _watched(self, path: str, fire: Fire, read: Callable[[], Awaitable[T]]) -> T | None:
        while True:
            try:
                return await read()
            except NoNodeError:
                made_meanwhile = await self._bridge.request(
                    path, lambda: self._client.exists_async(path, fire)
                )
                if made_meanwhile is None:
                    return None


S = TypeVar("S")

_RETRY_S = 1.0
_NOTHING_REPORTED = object()


class PersistentWatch(Generic[S]):
    """One watched znode; the protocol ``Watch`` says what ``cancel`` does.

    Args:
        read: reads the state of a path now, and sets the one-shot watch.
        callback: gets each new state.
        post: calls something on the loop, from one of kazoo's threads.
        forget: called when the watch is cancelled.
    """

    def __init__(
        self,
        path: str,
        read: Callable[[str, Fire], Awaitable[S]],
        callback: Callable[[S], None],
        post: Callable[[Callable[[], None]], None],
        forget: Callable[[PersistentWatch[S]], None],
    ) -> None:
        self._read = read
        self._post = post
        self._forget = forget
        self._path = path
        self._callback: Callable[[S], None] | None = callback
        self._reported: object = _NOTHING_REPORTED
        self._has_fired = False  # since the state was last delivered
        self._stale = False
        self._reading: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        # One object for the watch's life: kazoo keeps a set of them for each path, and it does not grow.
        self._fire = self._fired_in_thread

    def refresh(self) -> None:
        """Read the state (again); on the loop."""
        if self._callback is None:
            return
        self._stale = True
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._follow())

    def cancel(self) -> None:
        self._callback = None
        if self._reading is not None:
            self._reading.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._forget(self)

    def _fired_in_thread(self, _event: Any) -> None:
        self._post(self._fired)

    def _fired(self) -> None:
        self._has_fired = True
        self.refresh()

    async def _follow(self) -> None:
        try:
            while self._stale:
                self._stale = False
                has_fired, self._has_fired = self._has_fired, False
                try:
                    state = await self._read(self._path, self._fire)
                except BaseException:
                    self._has_fired |= has_fired
                    raise
                # What came and went between two reads is a change too: a leader made and removed.
                if self._callback is not None and (has_fired or state != self._reported):
                    self._reported = state
                    # Not from here: what a callback raises is the loop's to report, not this watch's end.
                    asyncio.get_running_loop().call_soon(self._notify, state)
        except ClosedClientError:
            return
        except BookKeeperError as error:
            # Unavailable for a whole operation: the next connection refreshes; a refusal is tried again.
            _log.warning("watched znode not read", extra={"path": self._path, "reason": str(error)})
            self._timer = asyncio.get_running_loop().call_later(_RETRY_S, self.refresh)
        finally:
            self._reading = None

    def _notify(self, state: S) -> None:
        if self._callback is not None:
            self._callback(state)


ANSWER_PATIENCE_S = 2.0
"""How long the server may take to confirm the end of the session."""

CUT_PATIENCE_S = 0.5
"""How long kazoo's threads may take to end after their connection was shut down."""


class KazooLog(logging.LoggerAdapter[logging.Logger]):
    """What kazoo logs of one client, until that is closed on purpose.

    A client that is closed while ZooKeeper is away would log that it failed to connect, which is meant.

    Attributes:
        is_over: the client is being closed.
    """

    def __init__(self) -> None:
        super().__init__(logging.getLogger("kazoo.client"), {})
        self.is_over = False

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - logging names it so
        """Whether the callback is still called."""
        return not self.is_over and super().isEnabledFor(level)


async def end_session(client: Any, bridge: Bridge) -> None:
    """Stop a kazoo client, and wait for the end of its threads for at most the two times above.

    Only a thread that is just trying to connect to a host that says nothing cannot be woken: it is a daemon
    thread, ends by itself after the session time-out, and then lets go of its socket.
    """
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[None] = loop.create_future()
    # Not the loop's executor, whose threads would stay: stopping waits for kazoo's threads.
    stopper = threading.Thread(
        target=_stop_in_thread, args=(client, bridge, stopped), name="end of a ZooKeeper session", daemon=True
    )
    stopper.start()
    await asyncio.wait([stopped], timeout=ANSWER_PATIENCE_S)
    if not stopped.done():
        _log.warning("ZooKeeper did not confirm the end of the session")
        _shut_down(client)
        await asyncio.wait([stopped], timeout=CUT_PATIENCE_S)
    if stopped.done():
        stopper.join()  # it has nothing left to do but to end
    else:
        _log.warning("a thread still connects to ZooKeeper: it ends at its time-out")


def _stop_in_thread(client: Any, bridge: Bridge, stopped: asyncio.Future[None]) -> None:
    try:
        client.stop()
        client.close()
    except KazooException as stuck:
        _log.error("kazoo did not stop", extra={"reason": str(stuck)})
    finally:
        bridge.post(_settle_stop, stopped)


def _settle_stop(stopped: asyncio.Future[None]) -> None:
    if not stopped.done():
        stopped.set_result(None)


def _shut_down(client: Any) -> None:
    """End the TCP connection under kazoo's feet: it has no call for that."""
    connected = getattr(client._connection, "_socket", None)
    if connected is not None:
        try:
            connected.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            _log.debug("the connection ended by itself", extra={"reason": str(error)})


MAX_DATA_BYTES = 1_000_000
"""The most data of one znode: a server drops the connection of whoever sends more (jute.maxbuffer, 1 MiB)."""


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
        start_timeout_s: float | None = None,
        acl: Acl = Acl.OPEN,
        digest_auth: str | None = None,
        access: ZooKeeperAccess = IN_THE_CLEAR,
        taken_up: SessionKey | None = None,
    ) -> None:
        """Args:
        hosts: "host:port,host:port"; a path behind them ("/chroot") is put before every path.
        session_timeout_s: asked of ZooKeeper, which may grant another.
        operation_timeout_s: how long one operation may take, waiting for the connection included; None:
            as long as the session time-out.
        start_timeout_s: how long ``start`` waits for the first connection; None: as long as the longer of
            the two.
        acl: of the znodes made.
        digest_auth: "user:password" of ZooKeeper's digest scheme.
        access: whether TLS is used, and with which certificates.
        taken_up: a session of another client, which has ended without closing it: this one goes on with it
            where it has not expired. A client that lives would lose it.
        """
        self._hosts = hosts
        self._access = access
        self._taken_up = taken_up
        self._session_timeout_s = session_timeout_s
        self._operation_timeout_s = session_timeout_s if operation_timeout_s is None else operation_timeout_s
        usual_s = max(session_timeout_s, self._operation_timeout_s)
        self._start_timeout_s = usual_s if start_timeout_s is None else start_timeout_s
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

    @property
    def session_key(self) -> SessionKey | None:
        key = None if self._client is None else self._client.client_id
        return None if key is None else SessionKey(*key)

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
            client_id=None if self._taken_up is None else (self._taken_up.session, self._taken_up.password),
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 0.2},
            logger=self._log,
            **self._access.keywords(self._hosts, self._session_timeout_s),
        )
        self._reads = ZnodeReads(self._client, self._bridge)
        self._client.add_listener(self._state_in_thread)
        self._client.start_async()
        waiting = asyncio.get_running_loop().call_later(self._session_timeout_s, self._report_waiting)
        try:
            async with asyncio.timeout(self._start_timeout_s):
                await self._connected.wait()
        except TimeoutError:
            await self.close()
            raise ZooKeeperUnavailableError(
                f"no session with ZooKeeper at {self._hosts}", outcome=Outcome.NOT_DONE
            ) from None
        except asyncio.CancelledError:
            await self.close()
            raise
        finally:
            waiting.cancel()

    def _report_waiting(self) -> None:
        _log.warning(
            "no session with ZooKeeper yet", extra={"hosts": self._hosts, "patience_s": self._start_timeout_s}
        )

    async def close(self) -> None:
        """End the session; what waits fails with ClosedClientError. May be repeated.

        A silent ZooKeeper holds this up for 2.5 s at most (``end_session``); the session then ends with
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
        self._listeners.notify(state)
