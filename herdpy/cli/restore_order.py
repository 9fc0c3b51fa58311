"""What ``herdpy restore`` is to restore: the target that options name, plans for it, what is shown of them.

Below ``restore``, ``restored_table`` and ``restored_cluster``; above ``repositories``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from herdpy.cli.errors import USAGE, CliError, print_note
from herdpy.cli.extras import needed
from herdpy.cli.output import Bar, write_document, write_table
from herdpy.cli.repositories import without_userinfo

_PHASES = {"image": "Pages", "log": "Log", "check": "Checking"}


@dataclass(frozen=True, slots=True)
class RestoreOrder:
    """What is to be restored, and how.

    Attributes:
        url: of the repository, as it was given.
        repository: it, open.
        target: up to where (``RestoreTarget``).
        log: the id of the log; empty: the only one that it can be.
        indexes: compare rows with their index entries, too.
        jobs: how many parts are read at a time.
    """

    url: str
    repository: Any
    target: Any
    log: str
    indexes: bool
    jobs: int
    json: bool

    def plan(self, tablespace: str, backup: str, log: str = "") -> Any:
        """The ``RestorePlan``. BackupError where there is none."""
        targets: Any = needed("herdpy_server.backup.targets")
        catalog = needed("herdpy.backup.manifest").read_catalog(self.repository)
        return targets.make_plan(
            self.repository,
            catalog,
            self.target,
            tablespace=tablespace,
            log_id=log or self.log,
            backup_id=backup,
        )

    def options(self, bar: Bar) -> Any:
        """The ``RestoreOptions``, which show their progress in a bar."""

        def progress(what: str, done: int, total: int | None) -> None:
            bar.show(done, total, f"{_PHASES[what]}: {done >> 20:,} MiB")

        restoring: Any = needed("herdpy_server.backup.restoring")
        return restoring.RestoreOptions(jobs=self.jobs, indexes=self.indexes, progress=progress)

    def make(self, plan: Any, directory: Path) -> tuple[Any, float]:
        """Restore into a directory; the report, and how many seconds it took."""
        restoring: Any = needed("herdpy_server.backup.restoring")
        with Bar("Restoring", "MiB") as bar:
            try:
                report = restoring.restore(self.repository, plan, directory, self.options(bar))
            except KeyboardInterrupt:
                print_note(f"Not finished. Run the same command to resume, or remove {directory}.")
                raise
            seconds = bar.seconds
        for note in report.notes:
            print_note(f"warning: {note}")
        return report, seconds

    def show(self, plan: Any) -> None:
        """Show what a plan would bring."""
        summary = needed("herdpy_server.backup.summary").summarise(self.repository, plan)
        _show_plan(self.url, plan, summary, json=self.json)


def target_of(to_lsn: str, to_time: str, before_commit: str) -> Any:
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


def show_report(url: str, report: Any, aside: Path | None, seconds: float, *, json: bool) -> None:
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
