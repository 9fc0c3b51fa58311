"""``herdpy restore``: a backup, and the log archived since, become a database again.

Below ``app``; ``herdpy_server.backup`` does the work, in this process. A restore into a directory works in
``DIR/restore`` until the database is whole, so the same command goes on where one was broken off.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from herdpy.cli import restored_table, target
from herdpy.cli.errors import USAGE, CliError, interruptible, print_note
from herdpy.cli.extras import needed
from herdpy.cli.output import Bar, write_document, write_table
from herdpy.cli.repositories import (
    KeyFileOption,
    RepositoryArgument,
    opened,
    translated,
    without_userinfo,
)
from herdpy.cli.target import JsonOption

_PHASES = {"image": "Pages", "log": "Log", "check": "Checking"}


_To = Annotated[
    str,
    typer.Argument(
        metavar="DIR|URL", help="A directory to make; with --table, a living database: its directory or URL."
    ),
]
_Tablespace = Annotated[
    str, typer.Option("--tablespace", metavar="NAME", help="Whose; without, the only one.")
]
_Backup = Annotated[
    str, typer.Option("--backup", metavar="ID", help="Begin with this one; without, the best one.")
]
_Log = Annotated[
    str, typer.Option("--log", metavar="ID", help="Whose history, where there are several logs.")
]
_ToLsn = Annotated[str, typer.Option("--to-lsn", metavar="L:E", help="Up to this position, with its entry.")]
_ToTime = Annotated[
    str, typer.Option("--to-time", metavar="TIME", help="Up to the first commit after it; ISO 8601.")
]
_BeforeCommit = Annotated[
    str,
    typer.Option("--before-commit", metavar="ID|L:E", help="Up to before a commit: its request id."),
]
_Table = Annotated[
    str, typer.Option("--table", metavar="NAME", help="This table alone, into a living database.")
]
_As = Annotated[str, typer.Option("--as", metavar="NAME", help="What the table is to be called there.")]
_NoForeignKeys = Annotated[
    bool, typer.Option("--no-foreign-keys", help="Leave out the table's foreign keys.")
]
_Scratch = Annotated[
    Path | None,
    typer.Option("--scratch", metavar="DIR", help="With --table: restore to there, and keep it."),
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and from what.")]
_Force = Annotated[bool, typer.Option("--force", help="Set aside what is in DIR.")]
_CheckIndexes = Annotated[
    bool, typer.Option("--check-indexes", help="Compare every row with its index entries, too.")
]
_Jobs = Annotated[int, typer.Option("--jobs", min=1, max=64, help="Parts that are read at a time.")]


def restore_command(
    repository: RepositoryArgument,
    to: _To,
    tablespace: _Tablespace = "",
    backup: _Backup = "",
    log: _Log = "",
    to_lsn: _ToLsn = "",
    to_time: _ToTime = "",
    before_commit: _BeforeCommit = "",
    table: _Table = "",
    as_name: _As = "",
    no_foreign_keys: _NoForeignKeys = False,
    scratch: _Scratch = None,
    dry_run: _DryRun = False,
    force: _Force = False,
    check_indexes: _CheckIndexes = False,
    jobs: _Jobs = 4,
    key_file: KeyFileOption = None,
    json: JsonOption = False,
) -> None:
    """Make a database in a directory of a backup and the log that was archived since.

    Without a target, up to the end of the archive. The database is there when all of it is, and was read and
    compared with its checksums. When a restore is broken off, the same command goes on. What is in DIR is not
    touched; with --force it is renamed to DIR.before-TIME first. The database has a log of its own.

    With --table, one table of it is made in a database that is there already, in one transaction, with its
    rows, constraints, indexes and sequences; rights on it are not restored. Its foreign keys must hold there.

    A time without a zone is one of this machine's zone.

    \b
    Examples:
      herdpy restore ./backups ./flights
      herdpy restore s3://bucket/backups ./flights --to-time 2026-03-01T10:00:00+01:00 --key-file backup.key
      herdpy restore ./backups ./flights --to-lsn 17:4711 --dry-run
      herdpy restore ./backups ./flights --before-commit 17:4710/order-99 --tablespace orders
      herdpy restore ./backups herdpy://db1/app --table app.item --as item_before --to-time 2026-03-01T10:00Z
    """
    if not table and (as_name or no_foreign_keys or scratch):
        raise CliError("--as, --no-foreign-keys and --scratch are for --table", code=USAGE)
    if table and force:
        raise CliError("--force and --table exclude each other: a table is never overwritten", code=USAGE)
    with translated(), interruptible():
        found = opened(repository, key_file)
        plan = _plan(found, _target(to_lsn, to_time, before_commit), tablespace, log, backup)
        if dry_run:
            summary = needed("herdpy_server.backup.summary").summarise(found, plan)
            _show_plan(repository, plan, summary, json=json)
            return
        order = _Order(repository, found, plan, check_indexes, jobs, json)
        if table:
            _restore_table(order, to, table, as_name, scratch, foreign_keys=not no_foreign_keys)
        else:
            directory = Path(to).expanduser().absolute()
            report, aside, seconds = _restore(order, directory, force=force)
            _show_report(repository, report, aside, seconds, json=json)


@dataclass(frozen=True, slots=True)
class _Order:
    """What is to be restored, and how.

    Attributes:
        url: of the repository, as it was given.
        repository, plan: what was found there.
    """

    url: str
    repository: Any
    plan: Any
    indexes: bool
    jobs: int
    json: bool


def _target(to_lsn: str, to_time: str, before_commit: str) -> Any:
    """The ``RestoreTarget`` that options name."""
    targets: Any = needed("herdpy_server.backup.targets")
    if sum(map(bool, (to_lsn, to_time, before_commit))) > 1:
        raise CliError("--to-lsn, --to-time and --before-commit exclude each other", code=USAGE)
    if to_lsn:
        try:
            return targets.RestoreTarget(lsn=needed("herdpy.log.lsn").LSN.parse(to_lsn))
        except ValueError as error:
            raise CliError(f"--to-lsn: {error}", code=USAGE) from error
    if to_time:
        try:
            time_us, zone = targets.parse_time(to_time)
        except ValueError as error:
            hint = "Write it as 2026-03-01T10:00:00+01:00."
            raise CliError(f"--to-time {to_time} is no time: {error}", hint=hint, code=USAGE) from error
        if not to_time.endswith((zone, "Z")):
            print_note(f"The time is taken in this machine's zone, {zone}: {targets.moment(time_us)}.")
        return targets.RestoreTarget(time_us=time_us)
    return targets.RestoreTarget(before=before_commit or None)


def _plan(repository: Any, target: Any, tablespace: str, log: str, backup: str) -> Any:
    targets: Any = needed("herdpy_server.backup.targets")
    catalog = needed("herdpy.backup.manifest").read_catalog(repository)
    return targets.make_plan(repository, catalog, target, tablespace=tablespace, log_id=log, backup_id=backup)


def _show_plan(url: str, plan: Any, summary: Any, *, json: bool) -> None:
    moment = needed("herdpy_server.backup.targets").moment
    facts = {
        "repository": without_userinfo(url),
        "tablespace": plan.log.tablespace,
        "log_id": plan.log.log_id,
        "lsn": str(plan.stop.lsn),
        "transactions": plan.stop.take,
        "time": moment(plan.time_us) if plan.time_us else None,
        "backup": summary.backup.id,
        "backup_lsn": summary.backup.image.lsn,
        "image_bytes": summary.image_bytes,
        "parts": summary.parts,
        "part_bytes": summary.part_bytes,
        "part_backups": list(summary.sources),
        "log_segments": summary.segments,
        "log_segment_bytes": summary.segment_bytes,
        "tables": summary.tables,
        "rows": summary.rows,
        "notes": list(summary.notes),
    }
    if json:
        write_document(facts)
        return
    for note in facts.pop("notes"):
        print_note(f"warning: {note}")
    shown = [[name, ", ".join(one) if isinstance(one, list) else one] for name, one in facts.items()]
    write_table(["restore", "value"], shown, sys.stdout)


def _restore(order: _Order, directory: Path, *, force: bool = False) -> tuple[Any, Path | None, float]:
    """Make the database; what it came to, where the earlier one is, and how many seconds it took."""
    restoring: Any = needed("herdpy_server.backup.restoring")
    aside = restoring.set_aside(directory) if force else None
    if aside is not None:
        print_note(f"What was in {directory} is in {aside} now.")
    with Bar("Restoring", "MiB") as bar:

        def progress(what: str, done: int, total: int | None) -> None:
            bar.show(done, total, f"{_PHASES[what]}: {done >> 20:,} MiB")

        options = restoring.RestoreOptions(jobs=order.jobs, indexes=order.indexes, progress=progress)
        try:
            report = restoring.restore(order.repository, order.plan, directory, options)
        except KeyboardInterrupt:
            print_note(f"Not finished. Run the same command to resume, or remove {directory}.")
            raise
        seconds = bar.seconds
    for note in report.notes:
        print_note(f"warning: {note}")
    return report, aside, seconds


def _restore_table(
    order: _Order, to: str, table: str, as_name: str, scratch: Path | None, *, foreign_keys: bool
) -> None:
    """Restore into a directory that is removed afterwards, and bring one table over."""
    living = target.existing(to, servers=True)
    sought = restored_table.new_name(table, as_name)
    restored_table.check_free(living, sought)
    own = scratch is None
    place = (
        Path(tempfile.mkdtemp(prefix="herdpy-restore-"))
        if scratch is None
        else scratch.expanduser().absolute()
    )
    try:
        lsn = _restored_before(order, place)
        if lsn is None:
            lsn = str(_restore(order, place)[0].lsn)
        with Bar("Copying") as bar:
            rows = restored_table.copy_table(place, table, living, sought, foreign_keys=foreign_keys, bar=bar)
            seconds = bar.seconds
    finally:
        if own:
            shutil.rmtree(place, ignore_errors=True)
    facts = {"table": str(sought), "rows": rows, "lsn": lsn, "seconds": round(seconds, 3)}
    if order.json:
        write_document(facts)
    else:
        sys.stdout.write(f"{sought} has the {rows:,} rows that {table} had at {lsn}.\n")


def _restored_before(order: _Order, place: Path) -> str | None:
    """The position of a directory where an earlier command has restored the same; None: it is not that."""
    found = needed("herdpy_server.backup.timeline").read_restored(place)
    stop = order.plan.stop
    same = (order.plan.log.log_id, str(stop.lsn), stop.take)
    if found is None or (found.parent, found.branched, found.transactions) != same:
        return None
    print_note(f"{place} is as of {found.branched} already.")
    return str(found.branched)


def _show_report(url: str, report: Any, aside: Path | None, seconds: float, *, json: bool) -> None:
    moment = needed("herdpy_server.backup.targets").moment
    facts = {
        "directory": str(report.directory),
        "repository": without_userinfo(url),
        "backup": report.backup,
        "parent_log_id": report.parent,
        "log_id": report.log_id,
        "lsn": str(report.lsn),
        "transactions": report.transactions,
        "time": moment(report.time_us) if report.time_us else None,
        "image_bytes": report.image_bytes,
        "resumed_bytes": report.resumed_bytes,
        "log_entries": report.entries,
        "log_bytes": report.log_bytes,
        "tables": report.tables,
        "rows": report.rows,
        "compared": [str(one) for one in report.compared],
        "set_aside": None if aside is None else str(aside),
        "notes": report.notes,
        "seconds": round(seconds, 3),
    }
    if json:
        write_document(facts)
        return
    part = "" if report.transactions is None else f" ({report.transactions} transactions of that entry)"
    time = f", last commit at {facts['time']}" if report.time_us else ""
    sys.stdout.write(
        f"{report.directory} is a database as of {report.lsn}{part}{time}: {report.tables:,} tables, "
        f"{report.rows:,} rows, from backup {report.backup}.\n"
    )
