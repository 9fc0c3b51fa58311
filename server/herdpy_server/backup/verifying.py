"""Whether a restored store is what was backed up: before it becomes a database.

Above the store; below ``restoring``. Every page is read and the checksum of each table is computed anew, by a
child process, because a damaged file can end the one that maps it. On request all rows and index entries are
compared. Where the log has the result of a comparison of replicas, the restored tables are compared with it
on the way.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from herdpy.backup.errors import BackupError
from herdpy.log.lsn import LSN
from herdpy.log.records import TablesChecksum
from herdpy_server.store import Store, probe
from herdpy_server.store.check import Sum, names, sums
from herdpy_server.store.snapshot import StoreSnapshot

_MARK, _VERDICT = 0, 1
_SHOWN = 5


class RestoredWrongError(BackupError):
    """What was restored is not what it must be; no database was made of it."""


def verify_store(path: Path, *, indexes: bool) -> None:
    """Read all of a closed store. RestoredWrongError: something in it is wrong.

    Args:
        indexes: compare every row with its index entries, too.
    """
    fault = probe.walk_fault(path)
    if fault is not None:
        raise RestoredWrongError(f"the restored store is damaged: {fault}")
    if not indexes:
        return
    store = Store.open(path, read_only=True)
    try:
        found = [str(one) for one, _ in zip(store.check(), range(_SHOWN), strict=False)]
    finally:
        store.close()
    if found:
        raise RestoredWrongError(f"the restored store is damaged: {'; '.join(found)}")


@dataclass(slots=True)
class LoggedSums:
    """Compares a store with what CHECK TABLESPACE has found in replicas, as it is applied.

    Attributes:
        compared: positions whose sums agreed.
    """

    store: Store
    compared: list[LSN] = field(default_factory=list)
    _held: tuple[int, StoreSnapshot, LSN] | None = None

    def attach(self) -> None:
        """Look at what is applied from now on."""
        self.store.on_checksum = self._applied

    def close(self) -> None:
        """Let go of what is held."""
        self.store.on_checksum = lambda _record: None
        if self._held is not None:
            self._held[1].close()
            self._held = None

    def _applied(self, record: TablesChecksum) -> None:
        if not record.checksums or record.checksums[0][0] != 0:
            return
        _zero, number, kind = record.checksums[0]
        if kind == _MARK:
            if self._held is not None:
                self._held[1].close()
            self._held = (number, *self.store.applied_snapshot())
        elif kind == _VERDICT and self._held is not None and self._held[0] == number:
            _number, snapshot, lsn = self._held
            self._compare(snapshot, lsn, {Sum(*one) for one in record.checksums[1:]})
            self.close()
            self.attach()

    def _compare(self, snapshot: StoreSnapshot, lsn: LSN, logged: set[Sum]) -> None:
        differing = logged ^ set(sums(snapshot, threading.Event()))
        if differing:
            known = names(snapshot.catalog)
            which = sorted({known.get(one.relation, f"id {one.relation}") for one in differing})
            raise RestoredWrongError(
                f"at {lsn} the restored state differs from the replicas' in {', '.join(which)}"
            )
        self.compared.append(lsn)
