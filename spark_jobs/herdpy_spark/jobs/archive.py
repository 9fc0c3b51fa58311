"""The job ``archive``: closed ledgers of the log to Parquet, entry by entry, before they are trimmed.

    ledger list -> closed ledgers after the archive's position -> a task for each -> Parquet -> the next
    manifest

An archive holds the very bytes of the log's entries, and those of the rows that loads staged in ledgers of
their own: whatever can be read of a log can be read of its archive. It is an export like others
(``exporting.manifest``), whose generations only ever add files; `verify --files-only` checks it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any

from herdpy import __version__
from herdpy.log.entry import FIRST, LAST, Entry, encode_entry, encode_part
from herdpy.log.load_records import LoadBatch
from herdpy.log.lsn import LSN
from herdpy.log.transaction import Transaction
from herdpy_spark.jobs.arguments import run_id, shown_url, source_options
from herdpy_spark.jobs.database import Database
from herdpy_spark.jobs.errors import JobError, UsageError
from herdpy_spark.jobs.exporting import formats, places
from herdpy_spark.jobs.exporting.asked import new_run_id, now
from herdpy_spark.jobs.exporting.generations import Generations
from herdpy_spark.jobs.exporting.manifest import Manifest
from herdpy_spark.jobs.exporting.rewriting import FileWriter
from herdpy_spark.jobs.job import Job, Run
from herdpy_spark.jobs.running import main

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.log.ledger_list import LedgerListState
    from herdpy_spark.log import LogAddress
    from herdpy_spark.log.ledgers import Ledgers

KIND = "archive"
ENTRY, STAGED = "entry", "staged"
_SCHEMA = "kind string, ledger bigint, number bigint, time timestamp, payload binary"
_TIME = Struct(">q")  # what a transaction begins with
_BATCH_BYTES = 8 << 20
_LEASE_S = 600.0


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed ledger to archive: its entries are those after ``after`` up to ``last``."""

    ledger_id: int
    after: LSN
    last: LSN


def _arguments(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("where to")
    where.add_argument("--to", required=True, metavar="PATH", help="directory or URL of the archive")
    where.add_argument("--compression", metavar="CODEC", default="zstd", help="of the files (zstd)")
    where.add_argument(
        "--allow-gap",
        action="store_true",
        help="go on after ledgers that were trimmed before they were archived",
    )
    where.add_argument("--run-id", type=run_id, help="names this run's files")


def run(this: Run) -> None:
    """Archive what is closed and not archived yet. JobError: ledgers in between are gone."""
    arguments = this.arguments
    base = source_options(arguments)
    local = places.is_local(arguments.to)
    generations = Generations(places.place(arguments.to, None if local else this.spark))
    newest = generations.newest()
    if newest is not None and newest.kind != KIND:
        raise UsageError(f"{arguments.to} is an export of {newest.table}, no archive")
    database = Database(base, None)
    address = database.address
    if newest is not None and newest.log_id != address.log_id:
        raise UsageError(f"{arguments.to} is the archive of another log, {newest.log_id}")
    from herdpy_spark.log.ledgers import opened

    with opened(address) as ledgers:
        state = ledgers.state()
    wanted, gap = closed_ledgers(state, None if newest is None else newest.lsn)
    told = {"ledgers": [one.ledger_id for one in wanted], "gap": gap, "log_id": state.log_id}
    this.report |= {"url": shown_url(base["url"]), "to": arguments.to} | told
    if gap and not arguments.allow_gap:
        raise JobError(
            f"the log begins after {state.base}, the archive ends at {newest.lsn if newest else None}:"
            " what was between them is trimmed",
            hint="--allow-gap goes on after the gap. Archive more often, or keep the log for longer.",
        )
    if this.dry or not wanted:
        this.tell(f"{len(wanted)} closed ledgers {'would be' if this.dry else 'are to be'} archived")
        return
    number = 1 if newest is None else newest.generation + 1
    name = arguments.run_id or new_run_id()
    writer = FileWriter(
        this.spark, generations, file_format=formats.PARQUET, compression=arguments.compression, run_id=name
    )
    lease = _lease(database, wanted[0].after)
    try:
        frame = _frame(this, address, wanted)
        files = writer.write(number, frame)
    finally:
        if lease is not None:
            lease.close()
    manifest = Manifest(
        generation=number,
        kind=KIND,
        table=f"the log of tablespace {address.tablespace}",
        lsn=wanted[-1].last,
        since=None if newest is None else newest.lsn,
        file_format=formats.PARQUET,
        schema=json.loads(frame.schema.json()),
        key=(),
        files=(() if newest is None else newest.files) + files,
        run_id=name,
        created=now(),
        log_id=state.log_id,
        herdpy=__version__,
    )
    generations.publish(manifest)
    generations.sweep(keep=2)
    this.report |= {"generation": number, "lsn": str(manifest.lsn), "rows": manifest.fingerprint.rows}
    this.tell(f"{len(wanted)} ledgers archived, up to {manifest.lsn}")


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


def archived(ledgers: Ledgers, one: Closed) -> Iterator[tuple[str, int, int, int | None, bytes]]:
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
                    yield from _staged(ledgers, Transaction.decode(b"".join(begun)))
                    begun = None
        if entry.lsn >= one.last and begun is None:
            return


def entry_bytes(entry: Entry) -> bytes:
    """The entry as it stands in its ledger."""
    header = entry.header
    parts = [encode_part(one.data, one.first * FIRST | one.last * LAST) for one in entry.parts]
    data, crc = encode_entry(header.lsn, header.predecessor, header.predecessor_crc, header.lac, parts)
    assert crc == header.crc, "an entry is made of what it was decoded to"
    return data


def _time(entry: Entry) -> int | None:
    for part in entry.parts:
        if part.first and len(part.data) >= _TIME.size:
            return int(_TIME.unpack_from(part.data)[0])
    return None


def _staged(ledgers: Ledgers, transaction: Transaction) -> Iterator[tuple[str, int, int, int | None, bytes]]:
    for record in transaction.records:
        if isinstance(record, LoadBatch):
            for part in record.parts:
                for number, piece in enumerate(ledgers.part(part)):
                    yield STAGED, part.ledger_id, number, transaction.timestamp_us, bytes(piece)


def _frame(this: Run, address: LogAddress, wanted: list[Closed]) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(_SCHEMA)
    assert isinstance(schema, StructType)
    arrow = to_arrow_schema(schema, timezone="UTC")

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        from herdpy_spark.log.ledgers import opened

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

    numbers = this.spark.range(0, len(wanted), 1, len(wanted))
    return numbers.mapInArrow(read, schema)


def _batch(arrow: Any, schema: Any, rows: list[tuple[Any, ...]]) -> Any:
    columns = zip(*rows, strict=True)
    arrays = [arrow.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)


def _lease(database: Database, after: LSN) -> Any:
    """What keeps the ledgers there meanwhile; None where no server is there to trim them."""
    if database.access.servers is None:
        return None
    from herdpy_spark.feed.lease import FeedLease

    lease = FeedLease(database.access.servers, "an archive", _LEASE_S)
    lease.keep(after)
    return lease


JOB = Job(
    name="archive",
    says=(
        "Archive the log: every closed ledger that is not archived yet, entry by entry, to Parquet.\n\n"
        "The archive has the bytes of the entries, and of the rows that loads staged; columns kind"
        " (entry or\n"
        "staged), ledger, number, time and payload. Run it more often than the log is trimmed."
    ),
    examples=(
        "archive --url herdpy://db1/shop --to s3a://archive/shop",
        "archive --url 'herdpy+zk://zk1:2181/herdpy?tablespace=shop' --to /archive/shop --report -",
    ),
    add_arguments=_arguments,
    run=run,
)

if __name__ == "__main__":
    raise SystemExit(main(JOB))
