"""Store layer, inside: what became of commits that clients gave a name, as part of the replicated state.

A transaction of the log may carry a request id. Applying it remembers the id with the transaction's
position and commit time, so that a client who lost the answer can ask any later leader what became of
its commit, and so that no id is committed twice. A transaction that has an id and no records is a mark:
whoever asked gave the id up, and it will never be committed.

What is kept follows from the log alone: the newest ids, at most ``KEEP_COUNT``, none older than
``KEEP_US`` by the log's own commit times. The position of the last id that was forgotten is kept too.
An id may begin with a position, ``ledger:entry/``, after which it was made; where that is not before
what was forgotten, an id that is not found was certainly never committed.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from herdpy.log import LSN, START, LoggedTransaction
from herdpy_server.store import numbered

KEEP_COUNT = 100_000
KEEP_US = 3_600_000_000
NAME = b"outcomes"
"""LMDB's database, and the key of its figures in ``meta``."""

_VALUE = struct.Struct(">qqq?")


class CommitOutcome(NamedTuple):
    """What became of one request id.

    Attributes:
        lsn: the entry with which its transaction took effect.
        time_us: its commit time, or the latest one before it in the log, if that is later: so that time
            does not run back where leaders' clocks differ.
        done: False for a mark: the id was given up before anything was committed under it.
    """

    request_id: bytes
    lsn: LSN
    time_us: int
    done: bool


def outcome_of(lsn: LSN, transaction: LoggedTransaction) -> CommitOutcome:
    """The outcome that a transaction of the log with a request id is."""
    return CommitOutcome(transaction.request_id, lsn, transaction.timestamp_us, bool(transaction.records))


def made_after(request_id: bytes) -> LSN | None:
    """The position after which an id says that it was made; None when it says nothing."""
    position, slash, _ = request_id.partition(b"/")
    return _position(position) if slash else None


@lru_cache(1024)  # a client's names begin with the same one for seconds
def _position(text: bytes) -> LSN | None:
    try:
        return LSN.parse(text.decode())
    except ValueError:
        return None


class Figures(numbered.NumberedFigures, frozen=True):
    """What ``meta`` says of the outcomes.

    Attributes:
        newest_us: the latest commit time that any had.
        forgotten: the position of the last one that was forgotten, as ``ledger:entry``.
    """

    newest_us: int = 0
    forgotten: str = str(START)


class Frozen(NamedTuple):
    """What a flush writes: the figures but for the checksum, and the outcomes that LMDB has not."""

    figures: Figures
    fresh: list[tuple[int, CommitOutcome]]


class Outcomes:
    """The outcomes that are kept, oldest first.

    Attributes:
        forgotten: the position of the last one that was forgotten; START when none was.
        newest_us: the latest commit time that any had.
    """

    def __init__(self, figures: Figures, kept: list[CommitOutcome]) -> None:
        self.forgotten = LSN.parse(figures.forgotten)
        self.newest_us = figures.newest_us
        self._first = figures.first
        self._queue = deque(kept)
        self._by_id = {one.request_id: one for one in kept}
        self._fresh: deque[tuple[int, CommitOutcome]] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[CommitOutcome]:
        return iter(self._queue)

    def find(self, request_id: bytes) -> CommitOutcome | None:
        """What became of an id, if it is known."""
        return self._by_id.get(request_id)

    def would_know(self, request_id: bytes) -> bool:
        """Whether an id that is not found was certainly never committed."""
        return (made_after(request_id) or START) >= self.forgotten

    def add(self, outcome: CommitOutcome) -> None:
        """Remember an outcome, in the log's order. The first one of an id counts."""
        if outcome.request_id in self._by_id:
            return
        self.newest_us = max(self.newest_us, outcome.time_us)
        kept = outcome._replace(time_us=self.newest_us)
        self._fresh.append((self._first + len(self._queue), kept))
        self._queue.append(kept)
        self._by_id[kept.request_id] = kept
        oldest_us = self.newest_us - KEEP_US
        queue = self._queue
        while len(queue) > KEEP_COUNT or queue[0].time_us < oldest_us:
            gone = queue.popleft()
            del self._by_id[gone.request_id]
            self.forgotten = gone.lsn
            self._first += 1

    def freeze(self) -> Frozen:
        """What a flush has to write now."""
        numbered.forget_below(self._fresh, self._first)
        end = self._first + len(self._queue)
        figures = Figures(self._first, end, newest_us=self.newest_us, forgotten=str(self.forgotten))
        return Frozen(figures, list(self._fresh))

    def written(self, frozen: Frozen) -> None:
        """A flush has written it."""
        numbered.forget_below(self._fresh, frozen.figures.end)


# In LMDB.


def encode(serial: int, outcome: CommitOutcome) -> tuple[bytes, bytes]:
    """Key and value of an outcome."""
    return numbered.KEY.pack(serial), _VALUE.pack(
        *outcome.lsn, outcome.time_us, outcome.done
    ) + outcome.request_id


def decode(key: bytes, value: bytes) -> tuple[int, CommitOutcome]:
    """Serial number and outcome; ValueError for what is none."""
    try:
        (serial,) = numbered.KEY.unpack(key)
        ledger, entry, time_us, done = _VALUE.unpack_from(value)
    except struct.error as error:
        raise ValueError(f"an outcome does not decode: {error}") from error
    return serial, CommitOutcome(value[_VALUE.size :], LSN(ledger, entry), time_us, done)


def write(txn: Any, handle: Any, before: Figures, frozen: Frozen) -> Figures:
    """Bring LMDB from the figures ``before`` to those of ``frozen``; returns them with their checksum."""
    fresh = (encode(serial, outcome) for serial, outcome in frozen.fresh)
    return numbered.write(txn, handle, before, frozen.figures, fresh)


def read(txn: Any, handle: Any) -> Iterator[tuple[int, CommitOutcome]]:
    """What LMDB has, oldest first; ValueError for what is no outcome."""
    return (decode(key, value) for key, value in txn.cursor(handle))


def faults(txn: Any, handle: Any, figures: Figures) -> Iterator[str]:
    """What does not fit together in LMDB."""
    known: set[bytes] = set()

    def judge(outcome: CommitOutcome) -> tuple[LSN, str | None]:
        is_known = outcome.request_id in known
        known.add(outcome.request_id)
        return outcome.lsn, "has the id of one before it" if is_known else None

    return numbered.faults(txn, handle, figures, decode, LSN.parse(figures.forgotten), judge)
