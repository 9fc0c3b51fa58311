"""What the client needs of ZooKeeper, as a protocol: a tree of versioned values with watches.

The lowest layer of the metadata. ``zookeeper.KazooZnodes`` is the real one, ``herdpy.testing.model`` has one
in memory; everything above knows only this protocol. All methods are called on the event loop, and all
callbacks come on it.

Paths are absolute ("/ledgers/available"). When the connection is lost while a change is under way, the change
raises ``ZooKeeperUnavailableError`` with ``Outcome.UNKNOWN``; the implementation does not repeat it, because
only the caller can tell its own change from another's. Reads are repeated until a deadline.
"""

from __future__ import annotations

import asyncio
import enum
import functools
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Generic, ParamSpec, Protocol, TypeVar

from herdpy.backoff import Backoff
from herdpy.bookkeeper.errors import SessionExpiredError, ZooKeeperUnavailableError

ANY_VERSION = -1
"""As the version of ``delete`` or ``set``: whatever the version is."""


class ZooKeeperState(enum.Enum):
    """The connection to ZooKeeper, as far as the client can know it."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The connection is lost, the session may still live: nothing is known to have changed."""
    LOST = "lost"
    """The session is over: its ephemeral znodes are gone. A new session follows by itself."""


@dataclass(frozen=True, slots=True)
class Znode:
    """One version of a znode: its data, the version of the data, and when the znode was made.

    Attributes:
        czxid: the number of the change that made it: of two znodes, the one with the lower number is older.
    """

    data: bytes
    version: int
    ctime_ms: int
    czxid: int


class ZnodeError(Exception):
    """An answer of ZooKeeper about a path; the operation is known not to have been done.

    Attributes:
        path: the znode asked for.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class NoNodeError(ZnodeError):
    """The znode (or, when creating, its parent) does not exist."""


class NodeExistsError(ZnodeError):
    """There is a znode of that path already."""


class ZnodeVersionError(ZnodeError):
    """The znode's version is not the one given: a compare-and-set was lost."""


class NotEmptyError(ZnodeError):
    """The znode has children, so it cannot be deleted."""


class Watch(Protocol):
    """What watches or listens until it is cancelled."""

    def cancel(self) -> None:
        """Call back no more; calling it again does nothing."""


@dataclass(frozen=True, slots=True)
class SessionKey:
    """With what a session can be taken up from another connection, or ended."""

    session: int
    password: bytes = field(repr=False)


class Znodes(Protocol):
    """A session with ZooKeeper.

    Every method raises ``ZooKeeperUnavailableError`` when there is no connection in time (outcome NOT_DONE
    when nothing was sent, UNKNOWN when a change was sent and not answered), ``SessionExpiredError`` when the
    session ended under a change, and ``ClosedClientError`` after ``close``.
    """

    @property
    def session_key(self) -> SessionKey | None:
        """Of the session of now, once there is one; None where sessions cannot be taken up."""

    async def start(self) -> None:
        """Connect; returns once there is a session."""

    async def close(self) -> None:
        """End the session, all watches and all threads; calling it again does nothing."""

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        """Make a znode and return its path (with ``sequence``: the path given, and ten digits).

        Raises:
            NodeExistsError: the path is taken (also when an earlier create in doubt did it).
            NoNodeError: the parent is missing and ``make_parents`` is off.
        """

    async def get(self, path: str) -> Znode:
        """Read a znode.

        Raises:
            NoNodeError: there is none.
        """

    async def set(self, path: str, data: bytes, version: int) -> int:
        """Replace the data if the version is the one given; returns the new version.

        Raises:
            NoNodeError: there is none.
            BadVersionError: it has another version.
        """

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a znode if its version is the one given.

        Raises:
            NoNodeError: there is none.
            BadVersionError: it has another version.
            NotEmptyError: it has children.
        """

    async def children(self, path: str) -> list[str]:
        """The names (not paths) of a znode's children, in no order.

        Raises:
            NoNodeError: there is none.
        """

    async def exists(self, path: str) -> Znode | None:
        """The znode, or None."""

    def watch_data(self, path: str, callback: Callable[[Znode | None], None]) -> Watch:
        """Call back with the present state (soon, not within this call), then after every change of it.

        None means that there is no such znode. Of states that come and go quickly the last alone may
        be delivered, even if it equals the one before. The watch lives through lost connections and
        sessions: the state is read again after each, and delivered if it is another.
        """

    def watch_children(self, path: str, callback: Callable[[list[str] | None], None]) -> Watch:
        """As ``watch_data``, for the sorted names of a znode's children."""

    def on_session(self, callback: Callable[[ZooKeeperState], None]) -> Watch:
        """Call back after every change of the session's state from now on."""


# Listeners.

P = ParamSpec("P")


class Listeners(Generic[P]):
    """Callbacks in the order they came. What one of them raises is the loop's to report; the others go on."""

    def __init__(self) -> None:
        self._all: dict[object, Callable[P, None]] = {}

    def add(self, callback: Callable[P, None]) -> Watch:
        """Tell this one, too, until it cancels."""
        key = object()
        self._all[key] = callback
        return _Cancellation(self._all, key)

    def notify(self, *arguments: P.args, **named: P.kwargs) -> None:
        """Call each back, soon; who cancels before that is not called."""
        loop = asyncio.get_running_loop()
        for key, callback in self._all.items():
            loop.call_soon(self._call, key, functools.partial(callback, *arguments, **named))

    def notify_now(self, *arguments: P.args, **named: P.kwargs) -> None:
        """Call each back, in this turn of the loop."""
        for key, callback in list(self._all.items()):
            try:
                self._call(key, functools.partial(callback, *arguments, **named))
            except Exception as error:  # noqa: BLE001 -- the others must hear of it too
                context = {"message": "a listener failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)

    def clear(self) -> None:
        """Tell nobody any more."""
        self._all.clear()

    def _call(self, key: object, call: Callable[[], None]) -> None:
        if key in self._all:
            call()


class _Cancellation:
    def __init__(self, everyone: MutableMapping[object, Callable[..., None]], key: object) -> None:
        self._everyone = everyone
        self._key = key

    def cancel(self) -> None:
        self._everyone.pop(self._key, None)


# Children.

T = TypeVar("T")


class WatchedChildren(Generic[T]):
    """The children of a znode and what they hold, kept up to date by watches.

    Attributes:
        records: what is there, by name.
        complete: set once every child has been read for the first time.
    """

    def __init__(
        self,
        znodes: Znodes,
        path: str,
        parse: Callable[[str, bytes], T | None],
        changed: Callable[[str, T | None], None],
        *,
        counts: Callable[[str], bool] = lambda _name: True,
        made: Callable[[str], object] = lambda _name: None,
    ) -> None:
        """Args:
        parse: a record, of a child's name and its data; None for none.
        changed: called after each change of ``records`` with the name, and None when it is gone.
        counts: whether a child of this name is one of them.
        made: called after ``changed`` with the name of a child that is new, or was made anew: also when
            what it holds is as before, so that ``records`` do not change.
        """
        self.records: dict[str, T] = {}
        self.complete = asyncio.Event()
        self._znodes = znodes
        self._path = path
        self._parse = parse
        self._changed = changed
        self._counts = counts
        self._made = made
        self._made_by: dict[str, int] = {}  # the change that made each child
        self._watch: Watch | None = None
        self._children: dict[str, Watch] = {}
        self._unread: set[str] = set()

    def start(self) -> None:
        """Watch from now on."""
        if self._watch is None:
            self._watch = self._znodes.watch_children(self._path, self._listed)

    def close(self) -> None:
        """Watch no more; ``records`` stay."""
        if self._watch is not None:
            self._watch.cancel()
        for watch in self._children.values():
            watch.cancel()
        self._children.clear()

    def _listed(self, names: list[str] | None) -> None:
        present = {name for name in names or () if self._counts(name)}
        for name in [known for known in self._children if known not in present]:
            self._children.pop(name).cancel()
            self._unread.discard(name)
            self._made_by.pop(name, None)
            self._set(name, None)
        for name in sorted(present - self._children.keys()):
            self._unread.add(name)
            self._children[name] = self._znodes.watch_data(
                f"{self._path}/{name}", functools.partial(self._read, name)
            )
        self._check_complete()

    def _read(self, name: str, znode: Znode | None) -> None:
        if name not in self._children:
            return
        record = None if znode is None else self._parse(name, znode.data)
        self._unread.discard(name)
        self._set(name, record)
        if znode is not None and self._made_by.get(name) != znode.czxid:
            self._made_by[name] = znode.czxid
            self._made(name)
        self._check_complete()

    def _set(self, name: str, record: T | None) -> None:
        if self.records.get(name) == record:
            return
        if record is None:
            del self.records[name]
        else:
            self.records[name] = record
        self._changed(name, record)

    def _check_complete(self) -> None:
        if not self._unread:
            self.complete.set()


# Trying a change again.

UNANSWERED = (ZooKeeperUnavailableError, SessionExpiredError)
"""What says that an operation got no answer: it was done, or not."""


class ZooKeeperBackoff:
    """A deadline, and pauses that double up to a second until it is reached. Times are the loop's.

    The pauses are not random: a simulation with one seed is one run.
    """

    def __init__(self, limit_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + limit_s
        self._backoff = Backoff(0.05, 1.0, spread=0.0)

    async def pause(self) -> bool:
        """Wait before another attempt; False (at once) when there is no time left for one."""
        pause_s = self._backoff.pause_s()
        if self._loop.time() + pause_s > self._deadline:
            return False
        await asyncio.sleep(pause_s)
        return True
