"""Store layer, inside: what transactions of the log change, taken from their bytes without a record for each.

Below ``store``, which applies it; for followers, which apply several entries at once. Most of a log are
rows of tables without indexes. Their bytes are sorted by table here, so that applying them is one update of a
dict for each table, whatever number of transactions they are of. Other records of rows are decoded and stand
between those, in the log's order. What has to be applied by itself is not taken at all: definitions, batches,
loads and checksums (:attr:`EncodedChanges.is_plain`); ``Store.apply_logged`` is for them.

Nothing is changed here, and the definitions stay the same while changes gather: so what is damaged or new
leaves the store as it was.
"""

from __future__ import annotations

from typing import Final

from herdpy.log.entry import records_head
from herdpy.log.lsn import LSN
from herdpy.log.records import (
    FRAME,
    FRAME_BYTES,
    NOTIFY_NUMBER,
    Before,
    Delete,
    GatheredRows,
    Insert,
    Notify,
    Record,
    SequenceAdvance,
    Update,
    decode_records,
    gather_rows,
)
from herdpy_server.store.outcomes import CommitOutcome
from herdpy_sql.catalog import Catalog

_TAKEN: Final = (Insert, Update, Delete, SequenceAdvance, Before)

GatheredTables = dict[int, GatheredRows]


class EncodedChanges:
    """The changes of transactions, in the order in which they were added.

    Args:
        catalog: the definitions before and after them.

    Attributes:
        is_plain: False: there is a record that is not taken, and they are to be applied otherwise.
        steps: rows by table, or records, one step after the other.
        named: the outcomes of transactions that have a request id.
        notifications: those of the transactions, in order.
        newest_us: the newest commit's time.
    """

    __slots__ = ("_catalog", "_gathered", "is_plain", "named", "newest_us", "notifications", "steps")

    def __init__(self, catalog: Catalog) -> None:
        self.is_plain = True
        self.steps: list[GatheredTables | list[Record]] = []
        self.named: list[CommitOutcome] = []
        self.notifications: list[Notify] = []
        self.newest_us = 0
        self._catalog = catalog
        self._gathered: GatheredTables | None = None

    def add(self, lsn: LSN, data: bytes) -> None:
        """Add the transaction that takes effect with the entry at ``lsn``.

        Raises:
            RecordError: the bytes are none.
        """
        timestamp_us, request_id, at, left = records_head(data)
        self.newest_us = max(self.newest_us, timestamp_us)
        if request_id:
            self.named.append(CommitOutcome(request_id, lsn, timestamp_us, left > 0))
        while self.is_plain:
            if self._gathered is not None:
                at, left = gather_rows(data, at, left, self._gathered)
            if not left:
                break
            at, left = self._add_one(data, at, left)
        if self.is_plain and at != len(data):
            decode_records(data, at, left)  # says that bytes follow the last record

    def _add_one(self, data: bytes, at: int, left: int) -> tuple[int, int]:
        """Take the next record, which was not gathered, or begin to gather rows of its table."""
        if at + FRAME_BYTES > len(data):
            decode_records(data, at, left)
        end = at + FRAME_BYTES + FRAME.unpack_from(data, at)[2]
        (record,) = decode_records(data[at:end], 0, 1)
        if data[at] == NOTIFY_NUMBER:  # it changes nothing: rows are gathered on behind it
            assert isinstance(record, Notify)
            self.notifications.append(record)
            return end, left - 1
        if self._begins_table(record):
            return at, left
        self._gathered = None
        if not isinstance(record, _TAKEN):
            self.is_plain = False
            return end, left - 1
        last = self.steps[-1] if self.steps else None
        if isinstance(last, list):
            last.append(record)
        else:
            self.steps.append([record])
        return end, left - 1

    def _begins_table(self, record: Record) -> bool:
        """Gather rows of the record's table from now on, if it has no indexes and they were not before."""
        if not isinstance(record, Insert | Update | Delete):
            return False
        table = self._catalog.tables.get(record.table_id)
        if table is None or table.indexes or (isinstance(record, Update) and record.old_key is not None):
            return False
        if self._gathered is None:
            self._gathered = {}
            self.steps.append(self._gathered)
        elif record.table_id in self._gathered:
            return False
        self._gathered[record.table_id] = GatheredRows()
        return True
