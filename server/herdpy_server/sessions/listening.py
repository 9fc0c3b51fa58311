"""The channels that one session listens on, and the notifications that wait for its client.

Beside ``block``, which makes it with the first LISTEN. LISTEN and UNLISTEN take effect when their transaction
commits. What is published on a channel comes into the queue; the session's front end takes it from there when
the client may have it: never within a transaction. A queue is bounded. One that is full loses all that it
has, and the front end must say so: a server ends the session, an embedded connection raises the error.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.tablespace.notifications import HeardNotification, Notifications

MAX_QUEUED: Final = 65_536
MAX_QUEUED_BYTES: Final = 16 << 20
"""So many notifications, and about so many bytes of them, may wait for one client."""
MAX_CHANNELS: Final = 10_000
"""So many may a session listen on."""
_NOTE_BYTES: Final = 100
_WARNED_AT: Final = 0.5

logger = logging.getLogger("herdpy.sessions")


class SessionChannels:
    """Of one session. In the engine's turn.

    Attributes:
        wake: called when there is something to take, if there was nothing before.
    """

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications
        self._channels: dict[str, None] = {}
        self._changes: list[
            tuple[int, str | None, bool]
        ] = []  # savepoints there were, channel, whether it ends
        self._queue: deque[HeardNotification] = deque()
        self._queued_bytes = 0
        self._is_warned = self._has_lost = False
        self.wake: Callable[[], object] = lambda: None

    # LISTEN and UNLISTEN.

    @property
    def names(self) -> tuple[str, ...]:
        """The channels that it listens on."""
        return tuple(self._channels)

    def change(self, channel: str | None, *, ends: bool, depth: int) -> None:
        """Listen, or not any more, from the end of the open transaction on.

        Args:
            channel: None for all of them. depth: how many savepoints the transaction has.

        Raises:
            SqlError: 54000, there would be too many channels.
        """
        if not ends and len(self._channels) + len(self._changes) >= MAX_CHANNELS:
            raise SqlError("54000", f"a session can listen on {MAX_CHANNELS:,} channels")
        self._changes.append((depth, channel, ends))

    def released(self, depth: int) -> None:
        """Savepoints are forgotten, but for so many: changes since belong to those."""
        self._changes = [(min(at, depth), channel, ends) for at, channel, ends in self._changes]

    def undone(self, depth: int) -> None:
        """Changes after a savepoint, before which there were so many, are taken back."""
        self._changes = [one for one in self._changes if one[0] <= depth]

    def end_transaction(self, *, committed: bool) -> None:
        """The changes take effect, or are forgotten."""
        changes, self._changes = self._changes, []
        if committed:
            for _, channel, ends in changes:
                if channel is None:
                    self.unlisten_all()
                elif ends:
                    self._unlisten(channel)
                elif channel not in self._channels:
                    self._channels[channel] = None
                    self._notifications.listen(channel, self)

    def _unlisten(self, channel: str) -> None:
        if channel in self._channels:
            del self._channels[channel]
            self._notifications.unlisten(channel, self)

    def unlisten_all(self) -> None:
        """Listen no more; what waits is still for the client."""
        for channel in self.names:
            self._unlisten(channel)

    def close(self) -> None:
        """The session ends."""
        self.unlisten_all()
        self._forget()

    # The queue.

    @property
    def queue_usage(self) -> float:
        """See ``ListeningSession``."""
        return max(len(self._queue) / MAX_QUEUED, self._queued_bytes / MAX_QUEUED_BYTES)

    def receive(self, notification: HeardNotification) -> bool:
        """See ``ListeningSession``."""
        if self._has_lost:
            return False
        is_first = not self._queue
        self._queue.append(notification)
        self._queued_bytes += _size(notification)
        usage = self.queue_usage
        if usage > 1:
            self._forget()
            self._has_lost = True
        elif usage > _WARNED_AT and not self._is_warned:
            self._is_warned = True
            logger.warning("a session's queue of notifications is half full")
        if is_first or self._has_lost:
            self.wake()
        return not self._has_lost

    def _forget(self) -> None:
        self._queue.clear()
        self._queued_bytes = 0

    @property
    def has_some(self) -> bool:
        """Whether there is something to take, be it the error."""
        return bool(self._queue) or self._has_lost

    def take(self) -> HeardNotification | None:
        """The oldest that waits; None: nothing does.

        Raises:
            SqlError: 53400, the queue was full: what was in it is lost. Raised once; then it goes on.
        """
        if self._has_lost:
            self._has_lost = self._is_warned = False
            raise SqlError(
                "53400",
                "too many notifications waited for this session, and are lost",
                detail=f"{MAX_QUEUED:,} may wait, or {MAX_QUEUED_BYTES >> 20} MB.",
                hint="Take notifications more often, and keep transactions short where you listen.",
            )
        if not self._queue:
            self._is_warned = False
            return None
        found = self._queue.popleft()
        self._queued_bytes -= _size(found)
        return found


def _size(notification: HeardNotification) -> int:
    """About how much of memory it takes."""
    return _NOTE_BYTES + len(notification.channel) + 2 * len(notification.payload)
