"""Backups that are made databases again in a scratch directory, to see that it can be done.

Below ``backups``. Each is restored, checked by ``herdpy_server.backup.restoring`` as any restore is, and
removed. With a database to compare with, the restore stops at the position of its store, and both have the
same tables there.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from herdpy.cli import target
from herdpy.cli.extras import needed
from herdpy.cli.output import Bar


@dataclass(frozen=True, slots=True)
class _Compared:
    """A database that restores are compared with.

    Attributes:
        lsn: of its store.
        tables: by id, name, and how many rows with which checksum.
    """

    path: Path
    log_id: str
    lsn: Any
    tables: dict[int, tuple[str, int, int]]


def restored(
    repository: Any, backup: str, scratch: Path | None, against: Path | None, jobs: int
) -> list[dict[str, Any]]:
    """Make a database of each backup, or of one, and check it; what came of each."""
    catalog: Any = needed("herdpy.backup.manifest").read_catalog(repository)
    compared = None if against is None else _compared(target.existing(str(against)))
    chosen = [
        one
        for one in catalog.backups
        if backup in ("", one.id) and (compared is None or one.log_id == compared.log_id)
    ]
    if compared is not None:
        chosen = [one for one in chosen if one.image_lsn <= compared.lsn]
        if not chosen:
            return [_row(None) | {"problem": f"no backup is of {compared.path} and not newer than its store"}]
    with tempfile.TemporaryDirectory(prefix="herdpy-verify-", dir=scratch) as folder:
        return [_restored(repository, catalog, one, compared, Path(folder) / one.id, jobs) for one in chosen]


def _compared(found: target.TargetDatabase) -> _Compared:
    detached: Any = needed("herdpy.log.detached")
    with detached.opened(detached.LogAddress("", directory=str(found.log))) as ledgers:
        log_id = ledgers.state().log_id
    lsn, tables = _tables(found.store)
    return _Compared(found.path, log_id, lsn, tables)


def _tables(store_path: Path) -> tuple[Any, dict[int, tuple[str, int, int]]]:
    """The position of a store, and what its tables are there."""
    stores: Any = needed("herdpy_server.store")
    store = stores.Store.open(store_path, read_only=True)
    try:
        names = {one.id: one.name for one in store.catalog.tables.values()}
        sums = store.table_checksums()
        return store.durable, {at: (names.get(at, str(at)), *sums[at]) for at in sums}
    finally:
        store.close()


def _row(one: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(
        ("id", "tablespace", "log", "lsn", "tables", "rows", "compared", "against", "problem")
    )
    return row if one is None else row | {"id": one.id, "tablespace": one.tablespace, "log": one.log_id}


def _restored(
    repository: Any, catalog: Any, one: Any, compared: _Compared | None, directory: Path, jobs: int
) -> dict[str, Any]:
    restoring: Any = needed("herdpy_server.backup.restoring")
    targets: Any = needed("herdpy_server.backup.targets")
    errors: Any = needed("herdpy.backup.errors")
    row = _row(one)
    goal = targets.RestoreTarget() if compared is None else targets.RestoreTarget(lsn=compared.lsn)
    try:
        with Bar(f"Restoring {one.id}", "MiB", transient=True) as bar:
            options = restoring.RestoreOptions(
                jobs=jobs,
                indexes=True,
                progress=lambda _what, done, total: bar.update(done, total, done >> 20),
            )
            plan = targets.make_plan(repository, catalog, goal, log_id=one.log_id, backup_id=one.id)
            report = restoring.restore(repository, plan, directory, options)
        row |= {"lsn": str(report.lsn), "tables": report.tables, "rows": report.rows}
        row["compared"] = [str(lsn) for lsn in report.compared]
        if report.backup != one.id:
            row["problem"] = "; ".join(report.notes)
        elif compared is not None:
            row |= {"against": str(compared.path), "problem": _difference(compared, directory / "store")}
    except errors.BackupError as error:
        row["problem"] = str(error)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return row


def _difference(compared: _Compared, store: Path) -> str | None:
    """How a restored store differs from the database's; None: it does not."""
    lsn, tables = _tables(store)
    if lsn != compared.lsn:
        return f"it is as of {lsn}, and {compared.path} as of {compared.lsn}"
    for at in sorted(tables.keys() | compared.tables.keys()):
        here, there = tables.get(at), compared.tables.get(at)
        if here != there:
            name = (here or there or ("", 0, 0))[0]
            return f"table {name} is not that of {compared.path} at {lsn}"
    return None
