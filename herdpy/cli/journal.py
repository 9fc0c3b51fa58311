"""How far imports have come, recorded in the database itself.

One row of the table ``herdpy_imports`` an import, keyed by what makes it that import: the file
(path, size, time of change), the table and the way it is read. It changes in the transaction that
adds each batch, so after any crash it says exactly which records are in the table.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from herdpy.cli.source import Position

TABLE = "herdpy_imports"
START = Position()

_CREATE = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    id            TEXT PRIMARY KEY,
    path          TEXT NOT NULL,
    table_name    TEXT NOT NULL,
    state         TEXT NOT NULL,
    created       BOOLEAN NOT NULL,
    next_offset   BIGINT NOT NULL,
    next_line     BIGINT NOT NULL,
    rows_read     BIGINT NOT NULL,
    rows_loaded   BIGINT NOT NULL,
    rows_rejected BIGINT NOT NULL,
    rejects_bytes BIGINT NOT NULL,
    updated_at    TIMESTAMPTZ NOT NULL
)
"""
_COLUMNS = (
    "path, table_name, state, created, next_offset, next_line,"
    " rows_read, rows_loaded, rows_rejected, rejects_bytes"
)


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """One import.

    Attributes:
        state: "running" until its last batch, then "done".
        created: whether the import made the table (or emptied it), so that beginning again may too.
        at: where its next record is.
        loaded, rejected: records that became rows, and that did not.
        rejects_bytes: how much of the file of rejects belongs to it.
    """

    path: str
    table: str
    state: str
    created: bool
    at: Position = START
    loaded: int = 0
    rejected: int = 0
    rejects_bytes: int = 0


def identity(path: Path, table: str, reading: dict[str, Any]) -> str:
    """Return the key of an import: it changes when the file does, or the way it is read."""
    found = path.stat()
    parts = [str(path.resolve()), found.st_size, found.st_mtime_ns, table, reading]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


class ImportJournal:
    """The row of one import. Its caller commits."""

    def __init__(self, connection: Any, key: str) -> None:
        self._connection = connection
        self._key = key

    def prepare(self) -> None:
        """Make the table if it is not there."""
        self._connection.execute(_CREATE).close()

    def read(self) -> ImportProgress | None:
        """How far the import has come; None when it has not begun."""
        with self._connection.execute(
            f"SELECT {_COLUMNS} FROM {TABLE} WHERE id = $1", (self._key,)
        ) as cursor:
            row = cursor.fetchone()
        if row is None:
            return None
        path, table, state, created, offset, line, rows, loaded, rejected, rejects = row
        return ImportProgress(
            path, table, state, created, Position(offset, line, rows), loaded, rejected, rejects
        )

    def begin(self, progress: ImportProgress) -> None:
        """Record the beginning, over whatever was recorded before."""
        self._connection.execute(f"DELETE FROM {TABLE} WHERE id = $1", (self._key,)).close()
        self._connection.execute(
            f"INSERT INTO {TABLE} (id, {_COLUMNS}, updated_at)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, now())",
            (self._key, *_values(progress)),
        ).close()

    def advance(self, progress: ImportProgress) -> None:
        """Record how far it has come."""
        self._connection.execute(
            f"UPDATE {TABLE} SET state = $2, next_offset = $3, next_line = $4, rows_read = $5,"
            " rows_loaded = $6, rows_rejected = $7, rejects_bytes = $8, updated_at = now() WHERE id = $1",
            (self._key, progress.state, *_values(progress)[4:]),
        ).close()


def finished(progress: ImportProgress) -> ImportProgress:
    """The same, done."""
    return replace(progress, state="done")


def _values(progress: ImportProgress) -> tuple[object, ...]:
    at = progress.at
    return (
        progress.path,
        progress.table,
        progress.state,
        progress.created,
        at.offset,
        at.line,
        at.rows,
        progress.loaded,
        progress.rejected,
        progress.rejects_bytes,
    )
