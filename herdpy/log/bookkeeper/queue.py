"""What waits to be sent: appends in the order of the log, formed into entries when one can go out.

Pure, below ``sender``. An entry is formed as late as possible, of everything that waited and fits. A
transaction too large for one is cut: its parts have entries of their own, one behind the other.
"""

from __future__ import annotations

from collections import deque

from herdpy.log.body import Body
from herdpy.log.commit_log import Append
from herdpy.log.entry import FIRST, HEADER_BYTES, LAST, PART_BYTES, encode_part
from herdpy.log.lsn import LSN
from herdpy.log.transaction import Transaction

_ENOUGH_BYTES = 1 << 16
"""So many bytes are worth an entry while others are on their way, however few transactions they are."""


class LeaderAppend(Append):
    """An append with its transaction's bytes."""

    __slots__ = ("body",)

    def __init__(self, transaction: Transaction, body: Body) -> None:
        super().__init__(transaction)
        self.body = body


class Outgoing:
    """An entry on its way out.

    Attributes:
        parts: its body.
        appends: those that take effect with it.
        size_bytes: of the transactions' bytes in it.
        lsn, crc: its place, once it is sent; another one when it had to be sent again in a new ledger.
        sent_s: when that was.
        done: whether the bookies have it.
    """

    __slots__ = ("appends", "crc", "done", "lsn", "parts", "sent_s", "size_bytes")

    def __init__(self, parts: list[bytes], appends: list[LeaderAppend], size_bytes: int) -> None:
        self.parts = parts
        self.appends = appends
        self.size_bytes = size_bytes
        self.lsn = LSN(-1, -1)
        self.crc = 0
        self.sent_s = 0.0
        self.done = False


class _Stretch:
    """A part of a large transaction that is not made yet."""

    __slots__ = ("_append", "_start", "_stop", "appends")

    def __init__(self, append: LeaderAppend, start: int, stop: int) -> None:
        self._append = append
        self._start, self._stop = start, stop
        self.appends = [append] if stop == len(append.body) else []

    def made(self) -> Outgoing:
        """The entry that it is."""
        start, stop = self._start, self._stop
        flags = (FIRST if start == 0 else 0) | (LAST if self.appends else 0)
        return Outgoing([encode_part(self._append.body[start:stop], flags)], self.appends, stop - start)


class AppendQueue:
    """The queue of one leader.

    Args:
        enough: as ``LedgerLogSettings.enough_transactions``.

    Attributes:
        size_bytes: transactions' bytes that are queued, or formed and not sent.
    """

    def __init__(self, max_entry_bytes: int, enough: int) -> None:
        self._enough = enough
        self._room = max(max_entry_bytes - HEADER_BYTES, PART_BYTES + 1)
        self._waiting: deque[LeaderAppend] = deque()
        self._formed: deque[Outgoing] = deque()
        self._cut: deque[_Stretch] = deque()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._formed) + len(self._cut)

    def is_worth_an_entry(self) -> bool:
        """Whether what waits is to be sent although others are on their way, and not left to gather."""
        return (
            len(self._waiting) >= self._enough
            or self.size_bytes >= _ENOUGH_BYTES
            or bool(self._formed or self._cut)
        )

    def put(self, append: LeaderAppend) -> None:
        """The append takes its place behind all others."""
        self._waiting.append(append)
        self.size_bytes += len(append.body)

    def take(self) -> Outgoing | None:
        """The next entry to send.

        Raises:
            OSError, MemoryError: what a large transaction has in a file cannot be read. Its append, and all
                others, are still in the queue.
        """
        if self._formed:
            entry = self._formed.popleft()
        elif self._cut:
            entry = self._next_stretch()
        elif self._waiting:
            entry = self._form()
        else:
            return None
        self.size_bytes -= entry.size_bytes
        return entry

    def put_back(self, entries: list[Outgoing]) -> None:
        """Entries that were taken and are not in the log come before all others, in their order."""
        for entry in reversed(entries):
            entry.done = False
            self._formed.appendleft(entry)
            self.size_bytes += entry.size_bytes

    def drain(self) -> list[LeaderAppend]:
        """Empty the queue: the appends none of which can have taken effect, in order."""
        appends = [one for entry in self._formed for one in entry.appends]
        appends += [one for stretch in self._cut for one in stretch.appends]
        appends += self._waiting
        self._formed.clear()
        self._cut.clear()
        self._waiting.clear()
        self.size_bytes = 0
        return appends

    def last(self) -> LeaderAppend | None:
        """The append at the end of the queue."""
        if self._waiting:
            return self._waiting[-1]
        held = [*(one.appends for one in self._formed), *(one.appends for one in self._cut)]
        return next((appends[-1] for appends in reversed(held) if appends), None)

    def _form(self) -> Outgoing:
        waiting, room = self._waiting, self._room
        parts: list[bytes] = []
        appends: list[LeaderAppend] = []
        used = size_bytes = 0
        for append in waiting:
            size = PART_BYTES + len(append.body)
            if used + size > room:
                break
            parts.append(encode_part(append.body[:]))
            appends.append(append)
            used += size
            size_bytes += len(append.body)
        for _ in appends:
            waiting.popleft()
        if not parts:
            return self._cut_up(waiting.popleft())
        return Outgoing(parts, appends, size_bytes)

    def _cut_up(self, append: LeaderAppend) -> Outgoing:
        """The first part of a large transaction; the others are next."""
        length, step = len(append.body), self._room - PART_BYTES
        for start in range(0, length, step):
            self._cut.append(_Stretch(append, start, min(start + step, length)))
        return self._next_stretch()

    def _next_stretch(self) -> Outgoing:
        entry = self._cut[0].made()
        self._cut.popleft()
        return entry
