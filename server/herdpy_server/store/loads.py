"""Store layer, inside: the loads that were done, as part of the replicated state.

A load ends with a ``LoadDone``, which only the sequences follow that its rows were counted with.
Applying it remembers the load's id with its position, time and counts, so that a client who asks for the same
load again, of any later leader, learns what came of it, and no load is done twice. The newest ``KEEP_COUNT``
are found.

Kept with each are the staged ledgers that have its rows. They are needed for as long as its entry is in
the log: a replica that has not applied it reads them. So a load with staged ledgers is kept, beyond that
number too, until the log is trimmed up to it. When a replica hears of that is its own affair, and changes
no answer that anybody gets.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from herdpy.log import LSN, START, LoadBatch, LoadDone, LoggedTransaction, SequenceAdvance
from herdpy_server.store import numbered

KEEP_COUNT = 10_000
NAME = b"loads"
"""LMDB's database, and the key of its figures in ``meta``."""

_VALUE = struct.Struct(">qqqIQQQQB")
_LEDGER = struct.Struct(">q")


class LoadOutcome(NamedTuple):
    """What a load came to.

    Attributes:
        lsn: the entry with which it took effect.
        time_us: its commit time, in microseconds since 1970-01-01 UTC.
        inserted, updated, deleted, skipped: rows.
    """

    load_id: str
    lsn: LSN
    time_us: int
    table_id: int
    inserted: int
    updated: int
    deleted: int
    skipped: int


class Loaded(NamedTuple):
    """A load that was done, and the ledgers that have its rows."""

    outcome: LoadOutcome
    staged: tuple[int, ...]


def loaded_by(lsn: LSN, transaction: LoggedTransaction) -> Loaded | None:
    """The load that a transaction of the log is; None: it is something else."""
    records = transaction.records
    at = len(records) - 1
    while at >= 0 and type(records[at]) is SequenceAdvance:
        at -= 1
    if at < 0:
        return None
    done = records[at]
    if type(done) is not LoadDone:
        return None
    outcome = LoadOutcome(
        done.load_id,
        lsn,
        transaction.timestamp_us,
        done.table_id,
        done.inserted,
        done.updated,
        done.deleted,
        done.skipped,
    )
    batches = [record for record in records if type(record) is LoadBatch]
    return Loaded(outcome, tuple(part.ledger_id for batch in batches for part in batch.parts))


class LoadFigures(numbered.NumberedFigures, frozen=True):
    """What ``meta`` says of the loads.

    Attributes:
        trimmed: as far as the log was known to be trimmed, as ``ledger:entry``.
    """

    trimmed: str = str(START)


class FrozenLoads(NamedTuple):
    """What a flush writes: the figures but for the checksum, and the loads that LMDB has not."""

    figures: LoadFigures
    fresh: list[tuple[int, Loaded]]


class Loads:
    """The loads that are kept, oldest first."""

    def __init__(self, figures: LoadFigures, kept: list[Loaded]) -> None:
        self._first = figures.first
        self._queue = deque(kept)
        self._fresh: deque[tuple[int, Loaded]] = deque()
        self._base = LSN.parse(figures.trimmed)
        self._serials = {one.outcome.load_id: figures.first + nth for nth, one in enumerate(kept)}
        self._staged = {ledger_id for one in kept if one.outcome.lsn > self._base for ledger_id in one.staged}

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Loaded]:
        return iter(self._queue)

    def find(self, load_id: str) -> LoadOutcome | None:
        """What a load came to, if it is one of the newest that were done."""
        serial = self._serials.get(load_id)
        if serial is None or serial < self._first + len(self._queue) - KEEP_COUNT:
            return None
        return self._queue[serial - self._first].outcome

    def needs(self, ledger_id: int) -> bool:
        """Whether a staged ledger holds rows of an entry that is in the log, as far as is known here."""
        return ledger_id in self._staged

    def add(self, one: Loaded) -> None:
        """Remember a load, in the log's order. The first one of an id counts."""
        if self.find(one.outcome.load_id) is not None:
            return
        serial = self._first + len(self._queue)
        self._fresh.append((serial, one))
        self._queue.append(one)
        self._serials[one.outcome.load_id] = serial
        self._staged.update(one.staged)
        self._forget()

    def trimmed(self, base: LSN) -> list[int]:
        """The log begins after ``base`` now; the staged ledgers that nobody needs any more since.

        They are returned once. Who does not delete them leaves them to a sweep, which asks ``needs``.
        """
        gone: list[int] = []
        for one in self._queue:
            if one.outcome.lsn > base:
                break
            if one.outcome.lsn > self._base:
                gone += one.staged
        self._base = max(self._base, base)
        self._staged.difference_update(gone)
        self._forget()
        return gone

    def _forget(self) -> None:
        queue = self._queue
        while len(queue) > KEEP_COUNT and (not queue[0].staged or queue[0].outcome.lsn <= self._base):
            load_id = queue.popleft().outcome.load_id
            if self._serials[load_id] == self._first:  # it may have been done again since
                del self._serials[load_id]
            self._first += 1

    def freeze(self) -> FrozenLoads:
        """What a flush has to write now."""
        numbered.forget_below(self._fresh, self._first)
        figures = LoadFigures(self._first, self._first + len(self._queue), trimmed=str(self._base))
        return FrozenLoads(figures, list(self._fresh))

    def written(self, frozen: FrozenLoads) -> None:
        """A flush has written it."""
        numbered.forget_below(self._fresh, frozen.figures.end)


# In LMDB.


def encode(serial: int, one: Loaded) -> tuple[bytes, bytes]:
    """Key and value of a load."""
    load_id, lsn, *numbers = one.outcome
    name = load_id.encode()
    value = _VALUE.pack(*lsn, *numbers, len(name)) + name + b"".join(map(_LEDGER.pack, one.staged))
    return numbered.KEY.pack(serial), value


def decode(key: bytes, value: bytes) -> tuple[int, Loaded]:
    """Serial number and load; ValueError for what is none."""
    try:
        (serial,) = numbered.KEY.unpack(key)
        ledger, entry, *numbers, size = _VALUE.unpack_from(value)
        name = value[_VALUE.size : _VALUE.size + size]
        staged = tuple(one for (one,) in _LEDGER.iter_unpack(value[_VALUE.size + size :]))
        return serial, Loaded(LoadOutcome(name.decode(), LSN(ledger, entry), *numbers), staged)
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"a load does not decode: {error}") from error


def write(txn: Any, handle: Any, before: LoadFigures, frozen: FrozenLoads) -> LoadFigures:
    """Bring LMDB from the figures ``before`` to those of ``frozen``; returns them with their checksum."""
    fresh = (encode(serial, one) for serial, one in frozen.fresh)
    return numbered.write(txn, handle, before, frozen.figures, fresh)


def read(txn: Any, handle: Any) -> Iterator[tuple[int, Loaded]]:
    """What LMDB has, oldest first; ValueError for what is no load."""
    return (decode(key, value) for key, value in txn.cursor(handle))


def faults(txn: Any, handle: Any, figures: LoadFigures) -> Iterator[str]:
    """What does not fit together in LMDB."""
    return numbered.faults(txn, handle, figures, decode, START, lambda one: (one.outcome.lsn, None))
