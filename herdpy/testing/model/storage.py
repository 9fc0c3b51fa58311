"""What a model bookie keeps: ledgers in memory, and a journal that makes them durable.

Every change is applied to what readers see at once, and to what survives a crash when its journal
record is synced, in the order in which the records were written. This is a bookie's own order: its
memtable serves entries that are not yet on disk.
"""

from __future__ import annotations

import copy
import random
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from dataclasses import dataclass, field

NO_LAC = -1


@dataclass(slots=True)
class StoredLedger:
    """One ledger on one bookie. `max_lac` is the highest LAC that any entry or explicit LAC carried."""

    master_key: bytes
    is_fenced: bool = False
    entries: dict[int, bytes] = field(default_factory=dict)
    explicit_lac: bytes | None = None
    max_lac: int = NO_LAC

    @property
    def last_entry_id(self) -> int | None:
        """The highest entry stored here, or None."""
        return max(self.entries, default=None)


# Changes are functions, so that one description serves both copies of a ledger.
Change = Callable[[StoredLedger], None]


def store_entry(entry_id: int, body: bytes) -> Change:
    """Store an entry; the first copy stays when it comes again, as in a bookie's memtable."""
    lac = int.from_bytes(body[16:24], "big", signed=True)

    def change(ledger: StoredLedger) -> None:
        ledger.entries.setdefault(entry_id, body)
        ledger.max_lac = max(ledger.max_lac, lac)

    return change


def fence(ledger: StoredLedger) -> None:
    """Refuse ordinary adds from now on."""
    ledger.is_fenced = True


def store_lac(body: bytes) -> Change:
    """Keep an explicit LAC."""
    lac = int.from_bytes(body[8:16], "big", signed=True)

    def change(ledger: StoredLedger) -> None:
        ledger.explicit_lac = body
        ledger.max_lac = max(ledger.max_lac, lac)

    return change


def _nothing(ledger: StoredLedger) -> None:
    """No change: what a force waits behind."""


@dataclass(frozen=True, slots=True)
class _Record:
    ledger_id: int
    master_key: bytes
    change: Change
    done: Callable[[], None] | None


class Storage:
    """The ledgers of one bookie.

    `sync_s` is the range of the time one sync of the journal takes; records that come meanwhile share
    the next one (group commit).
    """

    def __init__(self, loop: AbstractEventLoop, rng: random.Random, sync_s: tuple[float, float]) -> None:
        self._loop = loop
        self._rng = rng
        self.sync_s = sync_s
        self.ledgers: dict[int, StoredLedger] = {}
        self._durable: dict[int, StoredLedger] = {}
        self._waiting: list[_Record] = []
        self._syncing: list[_Record] = []
        self._timer: TimerHandle | None = None
        self._halted = False

    def change(
        self, ledger_id: int, master_key: bytes, change: Change, done: Callable[[], None] | None = None
    ) -> None:
        """Apply `change` now, durably later, and then call `done`. A crash forgets both."""
        self._apply(self.ledgers, ledger_id, master_key, change)
        self._waiting.append(_Record(ledger_id, master_key, change, done))
        self._sync()

    def force(self, done: Callable[[], None]) -> None:
        """Call `done` when everything changed so far is durable."""
        if not self._waiting and not self._syncing:
            self._loop.call_soon(done)
            return
        self._waiting.append(_Record(0, b"", _nothing, done))
        self._sync()

    def change_at_once(self, ledger_id: int, master_key: bytes, change: Change) -> None:
        """Apply `change` to both copies, with no journal between."""
        self._apply(self.ledgers, ledger_id, master_key, change)
        self._apply(self._durable, ledger_id, master_key, change)

    def is_durable(self, ledger_id: int, entry_id: int) -> bool:
        """Whether a crash would leave the entry."""
        ledger = self._durable.get(ledger_id)
        return ledger is not None and entry_id in ledger.entries

    def crash(self) -> None:
        """The power goes: of what was not synced, any prefix may be on disk, and nobody gets an answer."""
        self._halted = False
        self._stop_timer()
        pending = [*self._syncing, *self._waiting]
        self._persist(pending[: self._rng.randint(0, len(pending))])
        self._waiting.clear()
        self._syncing.clear()
        self.ledgers = copy.deepcopy(self._durable)

    def flush(self) -> None:
        """Everything is durable, and nobody gets an answer: the process ends in order."""
        self._stop_timer()
        self._persist([*self._syncing, *self._waiting])
        self._waiting.clear()
        self._syncing.clear()

    def wipe(self) -> None:
        """An empty disk."""
        self.crash()
        self.ledgers.clear()
        self._durable.clear()

    def halt(self) -> None:
        """The process is stopped: its syncs do not end."""
        self._halted = True
        self._stop_timer()
        self._waiting[:0], self._syncing = self._syncing, []

    def go_on(self) -> None:
        """The process runs again."""
        self._halted = False
        self._sync()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sync(self) -> None:
        if self._timer is None and self._waiting and not self._halted:
            self._syncing, self._waiting = self._waiting, []
            self._timer = self._loop.call_later(self._rng.uniform(*self.sync_s), self._synced)

    def _synced(self) -> None:
        self._timer = None
        records, self._syncing = self._syncing, []
        self._persist(records)
        for record in records:
            if record.done is not None:
                record.done()
        self._sync()

    def _persist(self, records: list[_Record]) -> None:
        for record in records:
            if record.change is not _nothing:
                self._apply(self._durable, record.ledger_id, record.master_key, record.change)

    @staticmethod
    def _apply(ledgers: dict[int, StoredLedger], ledger_id: int, master_key: bytes, change: Change) -> None:
        ledger = ledgers.get(ledger_id)
        if ledger is None:
            ledger = ledgers[ledger_id] = StoredLedger(master_key)
        change(ledger)
