"""The notifications of applied transactions, and the sessions that listen for them.

Above the log's records, below sessions. A notification is a record of its transaction. Once that is durable
and visible on this node, its notifications are published here: by the tablespace where the node leads, by
what applies the log where it follows. Each node gives them to its own sessions. Recovery publishes nothing,
and a replica that is seeded ends its sessions, so that none hears of what was there when it listened. A
replica that catches up publishes what it applies, also what a session before its restart had heard.

Where no session listens on a channel, a notification costs a look into a dict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from herdpy.log.records import Notify, Record


class HeardNotification(NamedTuple):
    """What a session hears. ``pid``: the process id of the session that sent it."""

    channel: str
    payload: str
    pid: int


class ListeningSession(Protocol):
    """A session that listens."""

    @property
    def queue_usage(self) -> float:
        """How full its queue is, from 0 to 1."""

    def receive(self, notification: HeardNotification) -> bool:
        """Take the next one; False: there is no room for it."""


class Notifications:
    """Of one tablespace on this node. Every method runs in the engine's turn.

    Attributes:
        published: notifications of transactions that were applied here, since the start.
        delivered, dropped: how many were given to a session, and how many a session had no room for.
    """

    def __init__(self) -> None:
        self._listeners: dict[str, dict[ListeningSession, None]] = {}
        self.published = self.delivered = self.dropped = 0

    def listen(self, channel: str, listener: ListeningSession) -> None:
        """From now on a session hears of a channel."""
        self._listeners.setdefault(channel, {})[listener] = None

    def unlisten(self, channel: str, listener: ListeningSession) -> None:
        """A session that listens on a channel does not any more."""
        there = self._listeners[channel]
        del there[listener]
        if not there:
            del self._listeners[channel]

    def publish(self, notifications: Sequence[Notify]) -> None:
        """Give notifications of applied transactions, in commit order, to the sessions that listen."""
        self.published += len(notifications)
        if not self._listeners:
            return
        for one in notifications:
            there = self._listeners.get(one.channel.decode())
            if there is not None:
                found = HeardNotification(one.channel.decode(), one.payload.decode(), one.pid)
                for listener in list(there):
                    if listener.receive(found):
                        self.delivered += 1
                    else:
                        self.dropped += 1

    @property
    def listeners(self) -> int:
        """How many sessions listen."""
        return len({listener for there in self._listeners.values() for listener in there})

    @property
    def queue_usage(self) -> float:
        """How full the fullest queue of a session is, from 0 to 1."""
        return max((one.queue_usage for there in self._listeners.values() for one in there), default=0.0)


def notifications_in(records: Iterable[Record]) -> Iterator[Notify]:
    """Those among the records of a transaction."""
    return (record for record in records if type(record) is Notify)
