"""Watches that last, made of ZooKeeper's, which fire once and die with the connection.

Between ``KazooZnodes`` and those who watch. A watch reads the state and leaves a one-shot watch in the same
request, tells the state, and does so again each time the one-shot watch fires and each time the session is
(re)connected. At most one read is under way; what changes meanwhile causes another one after it, so the last
state told is the last state there was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from herdpy.bookkeeper.errors import BookKeeperError, ClosedClientError
from herdpy.bookkeeper.metadata.zookeeper_reads import Fire

_log = logging.getLogger("herdpy.bookkeeper.zookeeper")

S = TypeVar("S")

_RETRY_S = 1.0
_NOTHING_TOLD = object()


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
        self._told: object = _NOTHING_TOLD
        self._has_fired = False  # since the state was last told
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
                if self._callback is not None and (has_fired or state != self._told):
                    self._told = state
                    # Not from here: what a callback raises is the loop's to report, not this watch's end.
                    asyncio.get_running_loop().call_soon(self._tell, state)
        except ClosedClientError:
            return
        except BookKeeperError as error:
            # Unavailable for a whole operation: the next connection refreshes; a refusal is tried again.
            _log.warning("watched znode not read", extra={"path": self._path, "reason": str(error)})
            self._timer = asyncio.get_running_loop().call_later(_RETRY_S, self.refresh)
        finally:
            self._reading = None

    def _tell(self, state: S) -> None:
        if self._callback is not None:
            self._callback(state)
