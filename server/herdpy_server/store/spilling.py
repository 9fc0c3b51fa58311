"""Store layer, inside: where a large transaction puts what is not to stay in memory.

Below ``changes``, above ``spill_file`` and ``spool``: rows go into an ordered file, what ``undo`` needs and
the records of the log into a stack each, oldest first. All of it is gone with the transaction, and what
others still read of it with the last of them.
"""

from __future__ import annotations

import marshal
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from herdpy.log.errors import RecordError
from herdpy.log.records import LoadBatch, LoadDone, Record, decode_records
from herdpy.log.transaction import encode_records
from herdpy_server.store.layers import MISSING, Delta
from herdpy_server.store.spill_file import SpillFile
from herdpy_server.store.spilled import SpilledRows
from herdpy_server.store.spool import Spool
from herdpy_sql.errors import SqlError

AT_ONCE = 2048
"""Rows, notes and records that go to the file in one step, and twice as many as have come since the last."""
_STAY = (LoadBatch, LoadDone)
"""Records that are looked at again when the transaction is applied: they, and what follows, stay."""

Change = tuple[Delta | int, object, object]
"""What was changed: see ``TransactionState.undo``."""


@dataclass(frozen=True, slots=True)
class SpillSettings:
    """Where transactions put what is too much for memory, and how much that is; see ``DatabaseSettings``."""

    directory: Path
    memory_bytes: int

    @classmethod
    def of(cls, directory: Path, memory_bytes: int) -> SpillSettings | None:
        """What these settings mean; None: everything stays in memory."""
        return cls(directory, memory_bytes) if memory_bytes else None


def move_rows(file: SpillFile, deltas: Iterable[Delta], most: int) -> None:
    """Put up to ``most`` rows into the file. SqlError 53100, 53400, 58030, and nothing is lost."""
    left = most
    for delta in deltas:
        if isinstance(delta.rows, dict) and delta.rows:
            slot = file.slot()
            if slot is None:
                continue
            delta.rows = SpilledRows(file, slot, delta.rows, delta.nbytes)
            delta.forget_order()
        while isinstance(delta.rows, SpilledRows) and left > 0 and (moved := delta.rows.move_some(left)):
            left -= moved


class Spill:
    """What of one transaction lies in files.

    Attributes:
        file: rows, and locks.
        records: the first records of the transaction, encoded.
    """

    def __init__(self, directory: Path) -> None:
        """SqlError 53100, 53400, 58030."""
        self.file = SpillFile(directory)
        self.records = Spool(directory)
        self._notes = Spool(directory)
        self._deltas: dict[int, Delta] = {}  # those that notes speak of, by serial number

    @property
    def size_bytes(self) -> int:
        """How much was written to files, and is still there."""
        return self.file.written_bytes + self.records.size_bytes + self._notes.size_bytes

    # What ``undo`` needs.

    @property
    def note_count(self) -> int:
        """How many changes are noted in the file."""
        return self._notes.count

    def move_notes(self, changes: list[Change], most: int) -> None:
        """Put the oldest notes into the file. SqlError 53100, and nothing is lost."""
        some = changes[:most]
        if some:
            self._notes.push(marshal.dumps([self._flat(*one) for one in some]), len(some))
            del changes[: len(some)]

    def newest_notes(self) -> list[Change]:
        """The newest notes of the file, which it has no more."""
        data, _count = self._notes.pop()
        return [self._deep(*one) for one in marshal.loads(data)]

    def _flat(self, where: Delta | int, key: object, previous: object) -> tuple[object, ...]:
        if isinstance(where, int):
            if not isinstance(key, Delta):
                return 0, where, -1, None
            self._deltas[key.serial] = key
            return 0, where, key.serial, None
        self._deltas[where.serial] = where
        return (1, where.serial, key, None) if previous is MISSING else (2, where.serial, key, previous)

    def _deep(self, kind: int, number: int, key: Any, previous: object) -> Change:
        if kind == 0:
            return number, self._deltas.get(key), None
        return self._deltas[number], key, MISSING if kind == 1 else previous

    # Records.

    def move_records(self, records: list[Record], most: int) -> int:
        """Put the oldest records into the file, but never all of them; how many. Errors as ``move_rows``."""
        some = records[: max(min(most, len(records) - 1), 0)]
        stay = next((at for at, one in enumerate(some) if type(one) in _STAY), None)
        if stay is not None:
            del some[stay:]
        if some:
            self.records.push(_encoded(some), len(some))
            del records[: len(some)]
        return len(some)

    def cut_records(self, count: int) -> list[Record]:
        """Forget all records of the file behind the first ``count``.

        Returns the newest of those, at least one where there are any: the file has them no more.
        """
        left: list[Record] = []
        while self.records.count and self.records.count >= count:
            data, there = self.records.pop()
            if self.records.count < count:
                left = decode_records(data, 0, there)[: count - self.records.count]
        return left


def _encoded(records: list[Record]) -> bytes:
    try:
        return encode_records(records)
    except (RecordError, struct.error) as error:
        raise SqlError("54000", f"a change cannot be logged: {error}") from error
