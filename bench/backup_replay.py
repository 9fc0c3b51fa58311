"""Restores with a log to replay, beside pg_basebackup and the replay of WAL: a part of ``backup``."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from statistics import median

from backup_bed import BackupBed, changes, herdpy_command
from databases import TABLE
from measure import Line, in_turn
from postgresql import archiving_postgres, base_backup, connect, recovered_postgres

import herdpy

CHANGED_SHARE = 10
_ROWS = (
    "INSERT INTO t SELECT i, i % 1000, i * 0.5, 'name of ' || i, i * 7, i % 100 FROM generate_series(0, {}) i"
)
_SUM = "SELECT count(*), sum(a) FROM t"


def measure_replay(bed: BackupBed) -> list[Line]:
    """Seconds from nothing to a database that answers, with every change."""
    repository, expected = _ours(bed)
    with archiving_postgres(bed.directory) as (port, archive):
        with connect(port) as connection:
            connection.execute(TABLE)
            connection.execute(_ROWS.format(bed.rows - 1))
            connection.execute("CHECKPOINT")
            bases = [_base(bed, f"base{number}", port) for number in range(bed.rounds)]
            for sql in changes(bed.rows, CHANGED_SHARE):
                connection.execute(sql)
            connection.execute("SELECT pg_switch_wal()")
            _await_archived(port)
        bases_left = iter(bases)

        def ours() -> float:
            target = bed.fresh("restored")
            took_s = herdpy_command("restore", repository, target)[0]
            began = time.perf_counter()
            with herdpy.connect(f"herdpy:{target}", autocommit=True) as restored:
                took_s += time.perf_counter() - began
                _check(restored.execute(_SUM).fetchone(), expected)
            return took_s

        def peer() -> float:
            home, copied_s = next(bases_left)
            began = time.perf_counter()
            with recovered_postgres(home, archive) as recovered:
                took_s = time.perf_counter() - began
                with connect(recovered) as connection:
                    _check(connection.execute(_SUM).fetchone(), expected)
            shutil.rmtree(home)
            return copied_s + took_s

        runs, peers = in_turn(bed.rounds, ours, peer)
    changed = bed.rows // CHANGED_SHARE
    name = f"restore of {bed.rows:,} rows and the log of {changed:,} changes (peer: PostgreSQL)"
    return [Line(name, median(runs), "s", median(peers), runs=runs, peer_runs=peers)]


def _ours(bed: BackupBed) -> tuple[Path, object]:
    """A repository with a full backup of the rows, and the log of the changes after it."""
    database = bed.filled("replayed")
    repository = bed.fresh("replayed-repository")
    herdpy_command("backup", database, "--to", repository, "--full")
    bed.change(database, CHANGED_SHARE)
    said = herdpy_command("backup", database, "--to", repository, "--incremental")[1]
    if said["kind"] != "log":
        raise SystemExit(f"the increment has an image of its own: {said}")
    with herdpy.connect(f"herdpy:{database}", autocommit=True) as connection:
        expected = connection.execute(_SUM).fetchone()
    shutil.rmtree(database)
    return repository, expected


def _base(bed: BackupBed, name: str, port: int) -> tuple[Path, float]:
    began = time.perf_counter()
    home = base_backup(bed.directory, name, port)
    return home, time.perf_counter() - began


def _await_archived(port: int) -> None:
    """The segment that ended is in the archive."""
    pending = "SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'"
    with connect(port) as connection:
        while connection.execute(pending).fetchall() != [(0,)]:
            time.sleep(0.1)


def _check(found: object, expected: object) -> None:
    if found != expected:
        raise SystemExit(f"the restored rows are {found}, not {expected}")
