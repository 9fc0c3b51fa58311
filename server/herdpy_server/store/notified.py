"""Store layer, inside: the notifications that one transaction sends with its commit.

Below ``workspace``, which adds them. Each is a record of the transaction (``herdpy.log.records.Notify``),
among the others, so that what takes a statement back takes its notifications back. Here is which there are:
for the rule that equal ones are sent once, for the limits, and for listeners where the transaction is
committed, without a look through all its records.
"""

from __future__ import annotations

from typing import Final

from herdpy.log.records import CHANNEL_BYTES, Notify
from herdpy_sql.errors import SqlError

MAX_PAYLOAD_BYTES: Final = 7999
"""As PostgreSQL."""
MAX_NOTIFICATIONS: Final = 10_000
MAX_NOTIFIED_BYTES: Final = 16 << 20
"""So many notifications, and bytes of channels and payloads, may a transaction have."""


def check_channel(channel: str) -> bytes:
    """The name's bytes. SqlError 22023: it is none."""
    found = channel.encode()
    if not found:
        raise SqlError("22023", "channel name cannot be empty")
    if len(found) > CHANNEL_BYTES:
        raise SqlError("22023", "channel name too long")
    return found


class TransactionNotifications:
    """The notifications of one transaction, without repeated ones.

    Attributes:
        sent: in the order of their first NOTIFY.
    """

    __slots__ = ("_known", "_places", "_size_bytes", "sent")

    def __init__(self) -> None:
        self.sent: list[Notify] = []
        self._places: list[int] = []  # of each: how many records the transaction had before it
        self._known: set[tuple[bytes, bytes]] = set()
        self._size_bytes = 0

    def add(self, pid: int, channel: str, payload: str, place: int) -> Notify | None:
        """Add one whose record will have ``place``; None: there is an equal one.

        Raises:
            SqlError: 22023 channel or payload is too long, or the channel is empty; 54000 there are too many.
        """
        named, said = check_channel(channel), payload.encode()
        if len(said) > MAX_PAYLOAD_BYTES:
            raise SqlError("22023", "payload string too long")
        if (named, said) in self._known:
            return None
        size = len(named) + len(said)
        if len(self.sent) >= MAX_NOTIFICATIONS or self._size_bytes + size > MAX_NOTIFIED_BYTES:
            raise SqlError(
                "54000",
                f"a transaction can send {MAX_NOTIFICATIONS:,} notifications of {MAX_NOTIFIED_BYTES >> 20} MB"
                " together",
                hint="Commit more often, or send one notification for many changes.",
            )
        found = Notify(pid, named, said)
        self.sent.append(found)
        self._places.append(place)
        self._known.add((named, said))
        self._size_bytes += size
        return found

    def cut(self, place: int) -> None:
        """Forget those whose records were at ``place`` and after it."""
        while self._places and self._places[-1] >= place:
            self._places.pop()
            one = self.sent.pop()
            self._known.discard((one.channel, one.payload))
            self._size_bytes -= len(one.channel) + len(one.payload)
