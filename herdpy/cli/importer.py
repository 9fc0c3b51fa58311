"""``herdpy import``: the blocks of a file become rows, a transaction each, journalled as they go.

    source -> block -> arrays (or, when something does not fit, records one by one) -> adbc_ingest
           -> journal, both in one transaction -> the next block

What does not fit stops the import, or goes to the file of rejects with its line and the reason. Below
``command_bulk``, which has the options; above the ``source`` modules.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NoReturn

import pyarrow as pa

from herdpy.cli import schema
from herdpy.cli.errors import USAGE, CliError, database_error
from herdpy.cli.source import (
    Array,
    FileFormat,
    Misfit,
    OnError,
    Position,
    ReadOptions,
    RecordBlock,
    RecordSource,
    SourceRecord,
    TargetField,
    why,
)
from herdpy.cli.source_parquet import ParquetSource
from herdpy.cli.source_text import CsvSource, JsonlSource
from herdpy.machine import sync_all

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
_ROW_ERRORS = ("22", "23")  # SQLSTATE classes that are one row's fault: data and constraints


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


@dataclass(frozen=True, slots=True)
class Bad:
    """A record, and why it is none of the table's."""

    record: SourceRecord
    reason: str


class Rejects:
    """The file of rejects: JSON lines, cut back to what belongs to committed batches."""

    def __init__(self, path: Path | None, size: int) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self.size = size

    def __enter__(self) -> Rejects:
        if self._path is not None and self._path.exists():
            with self._path.open("r+b") as file:
                file.truncate(self.size)
        return self

    def write(self, bad: Sequence[Bad]) -> None:
        """Add records, synced: the transaction that counts them commits next."""
        if not bad or self._path is None:
            return
        if self._file is None:
            self._file = self._path.open("ab")
        for one in bad:
            line = {"line": one.record.line, "error": one.reason, "text": one.record.text.rstrip("\r\n")}
            self.size += self._file.write(json.dumps(line, ensure_ascii=True).encode() + b"\n")
        self._file.flush()
        sync_all(self._file.fileno())

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


@dataclass(frozen=True, slots=True)
class ImportBatch:
    """Rows, and the records they are, where those were needed."""

    rows: pa.RecordBatch
    records: list[SourceRecord] | None

    def part(self, begin: int, end: int) -> ImportBatch:
        """Some of them."""
        records = None if self.records is None else self.records[begin:end]
        return ImportBatch(self.rows.slice(begin, end - begin), records)


def _columns(fields: Sequence[TargetField], arrays: Sequence[Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(arrays), names=[field.name for field in fields])


def whole(block: RecordBlock, fields: Sequence[TargetField]) -> ImportBatch:
    """The rows of a block, column by column; Misfit when something in it does not fit."""
    return ImportBatch(_columns(fields, block.arrays(fields)), None)


def one_by_one(block: RecordBlock, fields: Sequence[TargetField]) -> tuple[ImportBatch, list[Bad]]:
    """The rows of a block in which something does not fit, and what does not."""
    from herdpy_sql.errors import SqlError

    good: list[SourceRecord] = []
    bad: list[Bad] = []
    columns: list[list[Any]] = [[] for _ in fields]
    for record in block.records(fields):
        if record.error is not None:
            bad.append(Bad(record, record.error))
            continue
        row = []
        for field in fields:
            value = record.values[field.place]
            try:
                row.append(None if value is None else field.convert(value))
            except SqlError as error:
                bad.append(Bad(record, f"column {field.name}: {why(error)}"))
                break
        else:
            good.append(record)
            for column, datum in zip(columns, row, strict=True):
                column.append(datum)
    arrays = [field.array_of_datums(column) for field, column in zip(fields, columns, strict=True)]
    return ImportBatch(_columns(fields, arrays), good), bad


class ImportMode(enum.Enum):
    """What becomes of the table."""

    CREATE = "create"
    APPEND = "append"
    REPLACE = "replace"
    EITHER = "create it if it is not there, append otherwise"


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What to import and how.

    Attributes:
        key: columns of the primary key of a table that is made.
        types: SQL types by column, over the inferred ones.
        resume: True: go on where it stopped; False: begin again; None: go on if it had stopped.
        rejects: where bad rows go when they are skipped.
    """

    path: Path
    table: str
    mode: ImportMode = ImportMode.EITHER
    key: tuple[str, ...] = ()
    types: dict[str, str] | None = None
    resume: bool | None = None
    on_error: OnError = OnError.STOP
    rejects: Path | None = None


class BadRowError(CliError):
    """The import stopped at a row."""

    def __init__(self, plan: ImportPlan, line: int, message: str, loaded: int) -> None:
        super().__init__(
            f"{plan.path}:{line}: {message}",
            hint=f"{loaded:,} rows before it are in the table. Correct the file, or run it again with"
            f" --on-error skip: it continues from there.",
        )


class Importer:
    """One run of an import.

    Attributes:
        resumed_at: records that an earlier run had read; 0 when this one began.
        progress: how far it has come.
    """

    def __init__(self, connection: Any, source: RecordSource, plan: ImportPlan, key: str) -> None:
        """``connection`` is not in autocommit; ``key`` is :func:`identity` of the import."""
        self._connection = connection
        self._source = source
        self._plan = plan
        self._schema, self._name = schema.place(connection, plan.table)
        self._journal = ImportJournal(connection, key)
        self.resumed_at = 0
        self.progress: ImportProgress = ImportProgress(str(plan.path), plan.table, "running", False)

    def run(self, on_batch: Callable[[ImportProgress], None]) -> ImportProgress:
        """Import what is left; ``on_batch`` is called after each commit.

        Raises:
            CliError: the table or file is not as the plan wants it, or a bad row stopped it.
        """
        self._journal.prepare()
        before = self._journal.read()
        self._connection.commit()
        going_on = before is not None and self._goes_on(before)
        if before is not None and going_on:
            self.progress, self.resumed_at = before, before.at.rows
            if before.state == "done":
                return before
        elif self._plan.resume:
            raise CliError(
                f"there is no interrupted import of {self._plan.path} into {self._plan.table}",
                hint="A file that has changed since is another import. Leave out --resume to begin.",
            )
        else:
            self._begin(before)
        fields = self._fields(schema.table(self._connection, self._plan.table))
        self._connection.rollback()
        with Rejects(self._plan.rejects, self.progress.rejects_bytes) as rejects:
            for block in self._source.blocks(self.progress.at):
                self._load(block, fields, rejects)
                on_batch(self.progress)
        self.progress = finished(self.progress)
        self._journal.advance(self.progress)
        self._connection.commit()
        return self.progress

    def _goes_on(self, before: ImportProgress) -> bool:
        """Whether this run continues an earlier one; CliError when that had finished, and nobody asked."""
        if self._plan.resume is not None:
            return self._plan.resume
        if before.state != "done":
            return True
        if self._plan.mode is ImportMode.REPLACE:
            return False
        raise CliError(
            f"{self._plan.path} is in table {before.table} already ({before.loaded:,} rows)",
            hint="--restart imports it once more.",
        )

    def _begin(self, before: ImportProgress | None) -> None:
        """Make the table ready and record the beginning, in one transaction."""
        plan = self._plan
        table = schema.find(self._connection, plan.table)
        # An interrupted import that had made the table may make it again.
        again = (
            before is not None
            and before.created
            and before.state == "running"
            and plan.mode is not ImportMode.APPEND
            and plan.resume is False
        )
        if table is not None and plan.mode is ImportMode.CREATE and not again:
            raise CliError(
                f"table {plan.table} exists already", hint="--append adds to it, --replace empties it first."
            )
        if table is None and plan.mode is ImportMode.APPEND:
            raise CliError(f"there is no table {plan.table}", hint="--create makes it.")
        drop = table is not None and (plan.mode is ImportMode.REPLACE or again)
        if table is not None and not drop and (plan.key or plan.types):
            raise CliError(
                f"table {plan.table} exists already: --key and --type are for one that is made", code=USAGE
            )
        if drop:
            self._connection.execute(f"DROP TABLE {table.sql_name}").close()  # type: ignore[union-attr]
        if table is None or drop:
            self._connection.execute(self._definition()).close()
        self.progress = replace(self.progress, created=table is None or drop)
        self._journal.begin(self.progress)
        self._connection.commit()

    def _definition(self) -> str:
        """CREATE TABLE for the file's columns."""
        names = self._source.names
        chosen = self._plan.types or {}
        missing = [name for name in (*self._plan.key, *chosen) if name not in names]
        if missing:
            raise CliError(f"the file has no column {missing[0]!r}", hint=f"It has: {', '.join(names)}")
        types = [chosen.get(name, kind) for name, kind in zip(names, self._source.infer(), strict=True)]
        lines = [f"{schema.quoted(name)} {kind}" for name, kind in zip(names, types, strict=True)]
        if self._plan.key:
            lines.append(f"PRIMARY KEY ({', '.join(map(schema.quoted, self._plan.key))})")
        body = ",\n  ".join(lines)
        within = "" if self._schema is None else f"{schema.quoted(self._schema)}."
        return f"CREATE TABLE {within}{schema.quoted(self._name)} (\n  {body}\n)"

    def _fields(self, table: schema.TableInfo) -> list[TargetField]:
        """The columns of the table that the file fills, by name (letter case aside)."""
        columns = {column.name: column for column in table.columns}
        columns |= {
            column.name.lower(): column for column in table.columns if column.name.lower() not in columns
        }
        fields = []
        for place, name in enumerate(self._source.names):
            column = columns.get(name) or columns.get(name.lower())
            if column is None:
                raise CliError(
                    f"table {table.label} has no column for {name!r} of the file",
                    hint=f"It has: {', '.join(column.name for column in table.columns)}",
                )
            fields.append(TargetField(column.name, column.sql_type, place))
        return fields

    def _load(self, block: RecordBlock, fields: Sequence[TargetField], rejects: Rejects) -> None:
        """One block, one transaction: its rows, its rejects and the journal."""
        try:
            batch = whole(block, fields)
            bad: list[Bad] = []
        except Misfit:
            batch, bad = one_by_one(block, fields)
        if bad and self._plan.on_error is OnError.STOP:
            self._stop(bad[0])
        self._connection.execute("BEGIN").close()
        try:
            loaded = self._ingest(batch, lambda: block.records(fields), bad)
        except BaseException:
            self._connection.rollback()
            raise
        rejects.write(sorted(bad, key=lambda one: one.record.line))
        before = self.progress
        self.progress = replace(
            before,
            at=block.end,
            loaded=before.loaded + loaded,
            rejected=before.rejected + len(bad),
            rejects_bytes=rejects.size,
        )
        self._journal.advance(self.progress)
        self._connection.commit()

    def _ingest(
        self, batch: ImportBatch, records: Callable[[], Iterator[SourceRecord]], bad: list[Bad]
    ) -> int:
        """Add the rows of a batch, halving it around those that the database refuses."""
        rows = batch.rows.num_rows
        if rows == 0:
            return 0
        guarded = rows > 1 or self._plan.on_error is OnError.SKIP
        if guarded:
            self._connection.execute("SAVEPOINT herdpy_import").close()
        try:
            with self._connection.cursor() as cursor:
                cursor.adbc_ingest(self._name, batch.rows, mode="append", db_schema_name=self._schema)
        except Exception as error:
            found = database_error(error)
            if found is None or not str(getattr(found, "sqlstate", "")).startswith(_ROW_ERRORS):
                raise
            if guarded:
                self._connection.execute("ROLLBACK TO SAVEPOINT herdpy_import").close()
            if batch.records is None:
                batch = ImportBatch(batch.rows, list(records()))
            assert batch.records is not None
            if rows == 1:
                one = Bad(batch.records[0], why(found))
                if self._plan.on_error is OnError.STOP:
                    self._stop(one)
                bad.append(one)
                return 0
            half = rows // 2
            return sum(
                self._ingest(part, records, bad) for part in (batch.part(0, half), batch.part(half, rows))
            )
        if guarded:
            self._connection.execute("RELEASE SAVEPOINT herdpy_import").close()
        return rows

    def _stop(self, bad: Bad) -> NoReturn:
        self._connection.rollback()
        raise BadRowError(self._plan, bad.record.line, bad.reason, self.progress.loaded)


def open_source(path: Path, format: FileFormat, options: ReadOptions) -> RecordSource:
    """Open a file; CliError when it cannot be read or is not of that format."""
    try:
        match format:
            case FileFormat.CSV:
                return CsvSource(path, options)
            case FileFormat.JSONL:
                return JsonlSource(path, options)
            case _:
                return ParquetSource(path, options)
    except OSError as error:
        raise CliError(f"cannot read {path}: {error.strerror or error}") from error
