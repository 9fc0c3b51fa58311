"""What tasks of the job ``archive`` read: closed ledgers of a log, every entry with the bytes it has there.

Below ``archive``. It is a module of its own because tasks find its functions by its name: the job's module is
``__main__`` under spark-submit, and what it holds would be sent by value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any

from herdpy.log.entry import LogEntry, LoggedTransaction, entry_bytes
from herdpy.log.lsn import LSN
from herdpy.log.records import LoadBatch
from herdpy_spark.lines import task_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.log.detached import LogLedgers
    from herdpy.log.ledger_list import LedgerListState
    from herdpy_spark.log import LogAddress

ENTRY, STAGED = "entry", "staged"
_SCHEMA = "kind string, ledger bigint, number bigint, time timestamp, payload binary"
_TIME = Struct(">q")  # what a transaction begins with
_BATCH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed ledger to archive: its entries are those after ``after`` up to ``last``."""

    ledger_id: int
    after: LSN
    last: LSN


def closed_ledgers(state: LedgerListState, archived: LSN | None) -> tuple[list[Closed], bool]:
    """The closed ledgers that have entries and come after what is archived; and whether some are missing.

    A log whose beginning was trimmed before anything was archived is no gap: it is where the archive begins.
    """
    found = []
    before = state.base
    for ledger in state.ledgers:
        if not ledger.closed:
            break
        if ledger.last_entry_id < 0:
            continue
        if archived is None or ledger.last > archived:
            found.append(Closed(ledger.ledger_id, before, ledger.last))
        before = ledger.last
    return found, archived is not None and state.base > archived


def archived(ledgers: LogLedgers, one: Closed) -> Iterator[tuple[str, int, int, int | None, bytes]]:
    """Rows of a ledger: kind, ledger, number, commit time of the first transaction in it (us), bytes.

    Rows of loads follow the transaction that names them, which is archived with the ledger it begins in.
    """
    begun: list[bytes] | None = None
    for entry in ledgers.read(one.after, ledgers.confirmed()):
        inside = entry.lsn <= one.last
        if inside:
            yield ENTRY, entry.lsn.ledger_id, entry.lsn.entry_id, _time(entry), entry_bytes(entry)
        for part in entry.parts:
            if part.first:
                begun = [] if inside else None
            if begun is not None:
                begun.append(part.data)
                if part.last:
                    yield from _staged(ledgers, LoggedTransaction.decode(b"".join(begun)))
                    begun = None
        if entry.lsn >= one.last and begun is None:
            return


def _time(entry: LogEntry) -> int | None:
    for part in entry.parts:
        if part.first and len(part.data) >= _TIME.size:
            return int(_TIME.unpack_from(part.data)[0])
    return None


def _staged(
    ledgers: LogLedgers, transaction: LoggedTransaction
) -> Iterator[tuple[str, int, int, int | None, bytes]]:
    for record in transaction.records:
        if isinstance(record, LoadBatch):
            for part in record.parts:
                for number, piece in enumerate(ledgers.part(part)):
                    yield STAGED, part.ledger_id, number, transaction.timestamp_us, bytes(piece)


def frame_of(spark: Any, address: LogAddress, wanted: list[Closed]) -> Any:
    """A DataFrame of ledgers, one task for each."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(_SCHEMA)
    assert isinstance(schema, StructType)
    arrow = to_arrow_schema(schema, timezone="UTC")

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        from herdpy.log.detached import opened

        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows: list[tuple[str, int, int, int | None, bytes]] = []
                size = 0
                with opened(address) as ledgers:
                    for row in archived(ledgers, wanted[int(number or 0)]):
                        rows.append(row)
                        size += len(row[4])
                        if size >= _BATCH_BYTES:
                            yield _batch(pyarrow, arrow, rows)
                            rows, size = [], 0
                if rows:
                    yield _batch(pyarrow, arrow, rows)

    def with_lines(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from task_lines("copy ledgers", read(batches))

    numbers = spark.range(0, len(wanted), 1, len(wanted))
    return numbers.mapInArrow(with_lines, schema)


def _batch(arrow: Any, schema: Any, rows: list[tuple[Any, ...]]) -> Any:
    columns = zip(*rows, strict=True)
    arrays = [arrow.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)
