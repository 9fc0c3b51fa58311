"""The job ``archive``: closed ledgers of the log to Parquet, entry by entry, before they are trimmed.

    ledger list -> closed ledgers after the archive's position -> a task for each -> Parquet -> the next
    manifest

An archive holds the very bytes of the log's entries, and those of the rows that loads staged in ledgers of
their own: whatever can be read of a log can be read of its archive. It is an export like others
(``exporting.generations``), whose generations only ever add files; `verify --files-only` checks it.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from herdpy import __version__
from herdpy_spark.jobs.archived import Closed, closed_ledgers, frame_of
from herdpy_spark.jobs.database import JobDatabase
from herdpy_spark.jobs.exporting import new_run_id, now, rows
from herdpy_spark.jobs.exporting.changeset import FileWriter
from herdpy_spark.jobs.exporting.generations import (
    ExportManifest,
    Generations,
    needs_spark,
    place,
    publish,
)
from herdpy_spark.jobs.exporting.task_files import row_files
from herdpy_spark.jobs.job import JobError, JobRun, SparkJob, UsageError, run_id, shown_url, source_options
from herdpy_spark.jobs.running import main

if TYPE_CHECKING:
    from herdpy_spark.log import LogAddress

KIND = "archive"
_LEASE_S = 600.0
_LEDGERS = 64  # in a generation: a run that ends before its time leaves those that it has published


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


def run(this: JobRun) -> None:
    """Archive what is closed and not archived yet. JobError: ledgers in between are gone."""
    arguments = this.arguments
    base = source_options(arguments)
    generations = Generations(place(arguments.to, this.spark if needs_spark(arguments.to) else None))
    newest = generations.newest()
    if newest is not None and newest.kind != KIND:
        raise UsageError(f"{arguments.to} is an export of {newest.table}, no archive")
    database = JobDatabase(base, None)
    address = database.address
    if newest is not None and newest.log_id != address.log_id:
        raise UsageError(f"{arguments.to} is the archive of another log, {newest.log_id}")
    from herdpy.log.detached import opened

    with opened(address) as ledgers:
        state = ledgers.state()
    wanted, gap = closed_ledgers(state, None if newest is None else newest.lsn)
    facts = {"ledgers": [one.ledger_id for one in wanted], "gap": gap, "log_id": state.log_id}
    this.report |= {"url": shown_url(base["url"]), "to": arguments.to} | facts
    if gap and not arguments.allow_gap:
        raise JobError(
            f"the log begins after {state.base}, the archive ends at {newest.lsn if newest else None}:"
            " what was between them is trimmed",
            hint="--allow-gap continues after the gap. Archive more often, or retain the log for longer.",
        )
    if this.dry or not wanted:
        this.note(f"{len(wanted)} closed ledgers {'would be' if this.dry else 'are to be'} archived")
        return
    name = arguments.run_id or new_run_id()
    files = row_files(generations.place, rows.PARQUET, arguments.compression)
    writer = FileWriter(this.spark, generations, files, run_id=name)
    lease = _lease(database)
    try:
        for at in range(0, len(wanted), _LEDGERS):
            some = wanted[at : at + _LEDGERS]
            if lease is not None:
                lease.keep(some[0].after)
            newest = _generation(this, address, state.log_id, writer, newest, some, name)
            publish(this, generations, newest)
            generations.sweep(keep=2)
            this.report |= {
                "generation": newest.generation,
                "lsn": str(newest.lsn),
                "rows": newest.fingerprint.rows,
            }
            this.note(f"{len(some)} ledgers archived, up to {newest.lsn}")
    finally:
        if lease is not None:
            lease.release()


def _generation(
    this: JobRun,
    address: LogAddress,
    log_id: str,
    writer: FileWriter,
    newest: ExportManifest | None,
    ledgers: list[Closed],
    run_id: str,
) -> ExportManifest:
    """The archive as it was and these ledgers."""
    number = 1 if newest is None else newest.generation + 1
    frame = frame_of(this.spark, address, ledgers)
    files = writer.write(number, frame)
    return ExportManifest(
        generation=number,
        kind=KIND,
        table=f"the log of tablespace {address.tablespace}",
        lsn=ledgers[-1].last,
        since=None if newest is None else newest.lsn,
        file_format=rows.PARQUET,
        schema=json.loads(frame.schema.json()),
        key=(),
        files=(() if newest is None else newest.files) + files,
        run_id=run_id,
        created=now(),
        log_id=log_id,
        herdpy=__version__,
    )


def _lease(database: JobDatabase) -> Any:
    """What keeps the ledgers there meanwhile; None where no server is there to trim them."""
    if database.access.servers is None:
        return None
    from herdpy_spark.feed.lease import FeedLease

    return FeedLease(database.access.servers, "an archive", _LEASE_S)


JOB = SparkJob(
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
