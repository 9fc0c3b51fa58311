"""``herdpy backups``: what a repository of backups has, whether it is whole, what of it goes, and its key.

The commands' signatures first, then what each shows. ``herdpy.backup`` does the work, in this process; only
``verify --restore`` needs the server extra.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdpy.cli import backups_restored
from herdpy.cli.errors import FAILED, USAGE, CliError, interruptible, print_note
from herdpy.cli.extras import needed
from herdpy.cli.output import Bar, write_document, write_table
from herdpy.cli.repositories import KeyFileOption, RepositoryArgument, opened, without_userinfo
from herdpy.cli.target import JsonOption

if TYPE_CHECKING:
    from herdpy.backup.checking import Verification
    from herdpy.backup.expiry import ExpiryPlan
    from herdpy.backup.overview import ListedBackup, ListedDirectory, ListedLog

HELP = """List, verify and expire the backups in a repository, and make its key.

herdpy backup makes backups, herdpy restore makes databases of them.
"""

_BACKUP_COLUMNS = (
    "id", "tablespace", "log", "kind", "image", "end", "end_time", "stored_bytes", "rows", "parent",
    "needed_by",
)  # fmt: skip
_LOG_COLUMNS = (
    "log",
    "tablespace",
    "parent",
    "branched",
    "backups",
    "end",
    "end_time",
    "continuous",
    "bytes",
)
_BRIEF = 8


def list_command(
    repository: RepositoryArgument,
    tablespace: Annotated[
        str, typer.Option("--tablespace", metavar="NAME", help="Backups of this one alone.")
    ] = "",
    key_file: KeyFileOption = None,
    json: JsonOption = False,
) -> None:
    """List the backups in a repository, oldest first, and how far the archives of their logs go.

    A log is the history of one database; one that was restored has a log of its own, with its parent's id and
    the position where it branched off. An archive is continuous when the log is there from each image to its
    end; by the names of its files: herdpy backups verify reads them. Times are UTC.

    The exit code is 1 when something cannot be read.

    \b
    Examples:
      herdpy backups list ./backups
      herdpy backups list s3://bucket/backups --key-file backup.key --tablespace orders --json
    """
    with _translated(), interruptible():
        document = _listed(opened(repository, key_file), tablespace)
    if json:
        write_document({"repository": without_userinfo(repository), **document})
    else:
        _show_list(document)
    if document["damaged"]:
        raise typer.Exit(FAILED)


def _listed(repository: Any, tablespace: str) -> dict[str, Any]:
    expiry: Any = needed("herdpy.backup.expiry")
    state = expiry.read_state(repository)
    found: Any = needed("herdpy.backup.overview").overview(repository, state)
    logs = [_log_row(one) for one in found.logs]
    chosen = {one["log"] for one in logs if tablespace in ("", one["tablespace"])}
    return {
        "backups": [_backup_row(one) for one in found.backups if one.manifest.log_id in chosen],
        "logs": [one for one in logs if one["log"] in chosen],
        "unfinished": [_directory_row(one) for one in found.unfinished if one.log_id in chosen],
        "clusters": [
            {
                "id": one.id,
                "time": _time(one.created_us),
                "members": [
                    {"tablespace": it.tablespace, "log": it.log_id, "backup": it.backup} for it in one.members
                ],
            }
            for one in state.clusters
        ],
        "damaged": [
            {"file": one.file, "kind": one.fault, "text": one.reason} for one in state.catalog.damaged
        ],
    }


def _backup_row(one: ListedBackup) -> dict[str, Any]:
    manifest = one.manifest
    return {
        "id": manifest.id,
        "tablespace": manifest.tablespace,
        "log": manifest.log_id,
        "kind": manifest.kind,
        "time": _time(manifest.created_us),
        "finished": _time(manifest.finished_us),
        "image": manifest.image.lsn,
        "end": manifest.end,
        "end_time": _time(manifest.end_time_us),
        "archived": one.archived,
        "raw_bytes": manifest.raw_bytes,
        "stored_bytes": manifest.stored_bytes,
        "directory_bytes": one.stored_bytes,
        "tables": len(manifest.tables),
        "rows": sum(table.rows for table in manifest.tables),
        "parent": manifest.parent,
        "needed_by": list(one.needed_by),
        "node": manifest.node,
        "herdpy": manifest.herdpy,
    }


def _log_row(one: ListedLog) -> dict[str, Any]:
    record = one.record
    return {
        "log": one.log_id,
        "tablespace": None if record is None else record.tablespace,
        "parent": None if record is None else record.parent,
        "branched": None if record is None else record.branched,
        "backups": one.backups,
        "end": one.end,
        "end_time": _time(one.end_time_us),
        "continuous": one.is_continuous,
        "bytes": one.archive_bytes,
    }


def _directory_row(one: ListedDirectory) -> dict[str, Any]:
    return {
        "id": one.backup,
        "log": one.log_id,
        "state": "expired" if one.is_expired else "unfinished",
        "needed_by": list(one.needed_by),
        "bytes": one.stored_bytes,
    }


def _time(time_us: int) -> str | None:
    if not time_us:
        return None
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _show_list(document: dict[str, Any]) -> None:
    write_table(_BACKUP_COLUMNS, [_cells(one, _BACKUP_COLUMNS) for one in document["backups"]], sys.stdout)
    if document["logs"]:
        write_table(_LOG_COLUMNS, [_cells(one, _LOG_COLUMNS) for one in document["logs"]], sys.stdout)
    for one in document["unfinished"]:
        needs = f", has pages of {len(one['needed_by'])} others" if one["needed_by"] else ""
        sys.stdout.write(f"{one['id']} is {one['state']}, {one['bytes']:,} bytes{needs}.\n")
    for one in document["clusters"]:
        members = ", ".join(f"{it['tablespace']} {it['backup']}" for it in one["members"])
        sys.stdout.write(f"Together, {one['id']}: {members}.\n")
    for one in document["damaged"]:
        print_note(f"{one['kind']}: {one['file']}: {one['text']}")


def _cells(row: dict[str, Any], names: tuple[str, ...]) -> list[object]:
    """Ids of logs are cut short, which JSON does not."""
    cells: list[object] = []
    for name in names:
        value = row[name]
        if name in ("log", "parent") and isinstance(value, str) and len(value) == 32:
            value = value[:_BRIEF]
        cells.append(len(value) or None if name == "needed_by" else value)
    return cells


# verify


def verify_command(
    repository: RepositoryArgument,
    backup: Annotated[
        str, typer.Option("--backup", metavar="ID", help="All that this one needs; without, everything.")
    ] = "",
    restore: Annotated[
        bool, typer.Option("--restore", help="Restore into a scratch directory, and check that, too.")
    ] = False,
    scratch: Annotated[
        Path | None,
        typer.Option(
            "--scratch", metavar="DIR", help="Where to restore to; without, where temporary files are."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="DIR",
            help="With --restore: compare it with this database, as of the newest state in its store.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=64, help="Files that are read at a time.")] = 4,
    key_file: KeyFileOption = None,
    json: JsonOption = False,
) -> None:
    """Read every file of a repository, and compare it with what needs it.

    Each file that is missing, damaged, another repository's or another file under this name is named, and so
    is what the archive of a log lacks. Files that nothing needs are listed, and are no problem.

    With --restore each backup is made a database, up to the end of its log's archive: every table is compared
    with its checksums, in the store and in the log, and every row with its index entries. The database is
    removed again. With --against the backups of that database's log alone are restored, up to its position,
    and the tables of both are compared. Of servers, herdpy check puts checksums into the log, which restores
    are compared with.

    The exit code is 1 when there is a problem.

    \b
    Examples:
      herdpy backups verify ./backups
      herdpy backups verify s3://bucket/backups --key-file backup.key --jobs 16
      herdpy backups verify ./backups --backup 20260102T030405Z-abcdef --restore --scratch /srv/scratch
      herdpy backups verify ./backups --restore --against ./flights
    """
    if (against or scratch) and not restore:
        raise CliError("--against and --scratch are for --restore", code=USAGE)
    checking: Any = needed("herdpy.backup.checking")
    with _translated(), interruptible():
        found = opened(repository, key_file)
        with Bar("Verifying", "MiB") as bar:
            verification = checking.verify(
                found,
                backup or None,
                jobs=jobs,
                report=lambda done, total: bar.update(done, total, done >> 20),
            )
            seconds = bar.seconds
        restored = backups_restored.restored(found, backup, scratch, against, jobs) if restore else []
    problems = len(verification.problems) + sum(one["problem"] is not None for one in restored)
    if json:
        write_document(_verify_document(repository, verification, restored, seconds))
    else:
        _show_verification(verification, restored, seconds)
    if problems:
        raise typer.Exit(FAILED)


def _verify_document(
    repository: str, verification: Verification, restored: list[dict[str, Any]], seconds: float
) -> dict[str, Any]:
    return {
        "repository": without_userinfo(repository),
        "backups": verification.backups,
        "files": verification.files,
        "read_bytes": verification.read_bytes,
        "seconds": round(seconds, 3),
        "findings": [
            {"file": one.file, "kind": one.kind, "text": one.text, "problem": one.is_problem}
            for one in verification.findings
        ],
        "restored": restored,
    }


def _show_verification(verification: Verification, restored: list[dict[str, Any]], seconds: float) -> None:
    for one in verification.findings:
        mark = "" if one.is_problem else "note: "
        sys.stdout.write(f"{mark}{one.kind}: {one.file}: {one.text}\n")
    for row in restored:
        if row["problem"] is None:
            text = f"restored up to {row['lsn']}, {row['tables']} tables, {row['rows']:,} rows"
            text += f", compared with the log at {len(row['compared'])} positions"
            text += f" and with {row['against']}" if row["against"] else ""
        else:
            text = row["problem"]
        sys.stdout.write(f"{row['id']}: {text}\n")
    rate = verification.read_bytes / max(seconds, 1e-6) / 1e6
    count = len(verification.problems) + sum(row["problem"] is not None for row in restored)
    sys.stdout.write(
        f"{verification.backups} backups, {verification.files:,} files, {verification.read_bytes:,} bytes "
        f"read in {seconds:.1f} s ({rate:.0f} MB/s): {count or 'no'} problem{'' if count == 1 else 's'}.\n"
    )


# expire


def expire_command(
    repository: RepositoryArgument,
    keep_last: Annotated[
        int, typer.Option("--keep-last", min=0, metavar="N", help="The newest N of each log.")
    ] = 0,
    keep_daily: Annotated[
        int, typer.Option("--keep-daily", min=0, metavar="N", help="The newest of each of N days.")
    ] = 0,
    keep_weekly: Annotated[
        int, typer.Option("--keep-weekly", min=0, metavar="N", help="The newest of each of N weeks.")
    ] = 0,
    keep_monthly: Annotated[
        int, typer.Option("--keep-monthly", min=0, metavar="N", help="The newest of each of N months.")
    ] = 0,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="ID", help="This backup goes; may be repeated.")
    ] = None,
    drop_log: Annotated[
        str, typer.Option("--drop-log", metavar="LOG", help="All of this log: its backups and its archive.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed.")] = False,
    key_file: KeyFileOption = None,
    json: JsonOption = False,
) -> None:
    """Remove the backups that a policy does not keep, and what nobody needs any more.

    The policy counts for each log, and for the sets of a cluster's backups; days, ISO weeks and months are
    UTC's, and those without a backup are not counted. Whatever it says, the newest backup of each log stays,
    and of others the pages that those which are kept need. The archive of a log stays from the oldest image
    on that is kept. Backups that are being made are not touched.

    A backup whose manifest is damaged keeps all of its log, until it is named by --drop. A run that was
    broken off leaves a repository that verifies; the next one goes on.

    \b
    Examples:
      herdpy backups expire ./backups --keep-last 3 --keep-daily 7 --keep-weekly 5 --keep-monthly 12
      herdpy backups expire s3://bucket/backups --keep-last 10 --dry-run
      herdpy backups expire ./backups --drop 20260102T030405Z-abcdef
    """
    expiry: Any = needed("herdpy.backup.expiry")
    policy: Any = needed("herdpy.backup.policy").KeepPolicy(
        last=keep_last, daily=keep_daily, weekly=keep_weekly, monthly=keep_monthly
    )
    if not policy.keeps_any and (drop or drop_log):
        policy = None
    choice = expiry.Choice(policy, backups=tuple(drop or ()), log=drop_log or None)
    with _translated(), interruptible():
        found = opened(repository, key_file)
        with Bar("Removing", "files") as bar:
            plan = (
                expiry.planned(found, choice)
                if dry_run
                else expiry.expire(found, choice, report=lambda done, total: bar.update(done, total, done))
            )
    document = _expiry_document(plan)
    if json:
        write_document({"repository": without_userinfo(repository), "dry_run": dry_run, **document})
    else:
        _show_expiry(document, dry_run=dry_run)
    if plan.skipped:
        raise typer.Exit(FAILED)


def _expiry_document(plan: ExpiryPlan) -> dict[str, Any]:
    return {
        "kept": [one.id for one in plan.kept],
        "removed": [backup for _log, backup in plan.backups],
        "pages_stay": sorted(backup for _log, backup in plan.stripped),
        "leftovers": sorted(set(plan.emptied) - set(plan.backups)),
        "segments": len(plan.segments),
        "clusters": plan.clusters,
        "skipped": [{"log": log, "text": text} for log, text in plan.skipped],
        "freed_bytes": plan.freed_bytes,
    }


def _show_expiry(document: dict[str, Any], *, dry_run: bool) -> None:
    done = "would be removed" if dry_run else "removed"
    for one in document["removed"]:
        pages = ", others need pages of it" if one in document["pages_stay"] else ""
        sys.stdout.write(f"{one} {done}{pages}\n")
    for one in document["skipped"]:
        print_note(f"nothing of log {one['log']} {done}: {one['text']}")
    sys.stdout.write(
        f"{len(document['removed'])} backups {done}, {len(document['kept'])} kept; {document['segments']:,} "
        f"segments of logs, {document['freed_bytes']:,} bytes in all.\n"
    )


# key


def key_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new key file.")],
) -> None:
    """Make a key that encrypts a repository (AES-256-GCM), in a file that its owner alone reads.

    Name it to the first backup, and to every command about that repository. Without it nobody reads the
    backups: keep a copy elsewhere, and not beside them.

    \b
    Examples:
      herdpy backups key backup.key
      herdpy backup ./flights --to s3://bucket/backups --key-file backup.key
    """
    repository: Any = needed("herdpy.backup.repository")
    try:
        repository.new_key_file(file.expanduser())
    except FileExistsError:
        raise CliError(
            f"{file} is there already", hint="A key that is lost takes the backups with it."
        ) from None
    except OSError as error:
        raise CliError(f"{file} cannot be written: {error.strerror}") from error
    print_note(f"{file} has a new key.")


@contextmanager
def _translated() -> Iterator[None]:
    """What can go wrong with a repository; unlike ``repositories.translated`` without the server extra."""
    errors: Any = needed("herdpy.backup.errors")
    log: Any = needed("herdpy.log.errors")
    try:
        yield
    except errors.BackupError as error:
        raise CliError(str(error), hint=error.hint) from error
    except (log.LogError, OSError) as error:
        raise CliError(str(error)) from error


COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (
    ("list", list_command),
    ("verify", verify_command),
    ("expire", expire_command),
    ("key", key_command),
)
