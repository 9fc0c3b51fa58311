"""``herdpy export``: a table or a query, as one statement, into a file that appears whole.

Below ``command_bulk``, which has the options. The rows come as Arrow batches: of the engine in this process,
or of servers by COPY (query) TO STDOUT (FORMAT arrow), of which no more than a few batches are in memory.
They are written to ``FILE.partial``. A :class:`RecordSink` says after each :meth:`~RecordSink.save` how much
of what it wrote is on disk for good; given that number again, it cuts off what came later and goes on.
:meth:`~RecordSink.finish` moves the whole under the final name in one step.

``FILE.partial.json`` says up to which key the rows are on disk. An interrupted export of a table goes on
after that key. One run is one statement and so one snapshot; a continued export is one snapshot a run.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute
from pyarrow import csv, parquet

from herdpy.cli import schema, status
from herdpy.cli.errors import CliError
from herdpy.cli.extras import needed
from herdpy.cli.output import json_names
from herdpy.cli.source import Array, FileFormat
from herdpy.cli.status import literal
from herdpy.log.files import sync_directory, sync_path
from herdpy.machine import sync_all

if TYPE_CHECKING:
    from herdpy.cli.target import TargetDatabase
    from herdpy_sql.types import SqlType


_READ_ONLY = (
    "SET default_transaction_read_only = on"  # an export changes nothing, DELETE ... RETURNING neither
)
pc: Any = pyarrow.compute  # its stubs know columns by element type, and these are of any
_SENTINELS = {"date", "timestamp without time zone", "timestamp with time zone"}
_QUOTED = {"bytea", "uuid", "time without time zone", "interval", *_SENTINELS}
_BARE = {"boolean", "smallint", "integer", "bigint", "numeric", "oid", "xid"}
_BATCH_ROWS = 32_768
_SAVE_ROWS = 500_000


@dataclass(slots=True)
class CopiedRows:
    """An answer.

    Attributes:
        types: of the columns, exactly.
        batches: the rows; to be taken once.
        count: how many there are; None where nobody knows before the end.
    """

    schema: pa.Schema
    types: Sequence[SqlType]
    batches: Iterator[pa.RecordBatch]
    count: int | None


def no_rows() -> CliError:
    """The error for a statement that is no query."""
    return CliError("this statement gives no rows", hint="export takes a SELECT.")


@contextmanager
def of_directory(
    connection: Any, sql: str, parameters: Sequence[object], batch_rows: int
) -> Iterator[CopiedRows]:
    """What the engine in this process answers. Errors as the driver raises them; 25006 for a change."""
    with connection.cursor() as cursor:
        cursor.execute(_READ_ONLY)
        cursor.execute(sql, parameters) if parameters else cursor.execute(sql)
        if cursor.description is None:
            raise no_rows()
        types = [column.type for column in cursor.result.columns]  # SqlTypes: exact texts need them
        table = cursor.fetch_arrow_table()
        yield CopiedRows(table.schema, types, iter(table.to_batches(batch_rows)), table.num_rows)


@contextmanager
def of_servers(url: str, tablespace: str, sql: str) -> Iterator[CopiedRows]:
    """What the server that leads answers.

    Raises:
        CliError: none lets us in, or it went away. The driver's errors: what the server refuses; 25006 for
            what would write.
    """
    with status.session(url, leader_of=tablespace) as session, session.errors():
        session.rows(_READ_ONLY)
        types = _types(session, sql)
        statement = f"COPY ({sql}\n) TO STDOUT (FORMAT arrow)".encode()  # the query may end in a comment
        with session.connection.cursor().copy(statement) as copy, of_stream(copy) as (kind, batches):
            yield CopiedRows(kind, types, batches, None)


@contextmanager
def of_stream(copy: Any) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Schema and batches of what psycopg's ``copy`` sends. They end when it has ended without error."""
    # Arrow takes a short read for the end; a buffered one is short only there.
    copied = io.BufferedReader(_Copied(copy))
    with pa.ipc.open_stream(pa.PythonFile(copied, "r")) as reader:

        def batches() -> Iterator[pa.RecordBatch]:
            yield from reader
            copied.read()  # the server's word, which comes after the last batch

        yield reader.schema, batches()


def _types(session: status.ServerSession, sql: str) -> list[SqlType]:
    """The types of a query's columns."""
    from psycopg import pq

    wire = needed("herdpy_server.wire")
    types = needed("herdpy_sql.types")
    server = session.connection.pgconn
    for result in (server.prepare(b"", sql.encode()), server.describe_prepared(b"")):
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise session.error(result)
    if not result.nfields:
        raise no_rows()
    return [wire.type_of_oid(result.ftype(at)) or types.TEXT for at in range(result.nfields)]


class _Copied(io.RawIOBase):
    """What COPY sends, as a file."""

    def __init__(self, copy: Any) -> None:
        super().__init__()
        self._copy = copy
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            data = self._copy.read()
            if not data:
                return 0
            self._left = memoryview(data)
        wanted = memoryview(buffer).cast("B")
        size = min(len(wanted), len(self._left))
        wanted[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


class RecordSink(Protocol):
    """A file being written."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""

    def save(self) -> int:
        """Bring all of it to the disk; returns the mark to continue from."""

    def finish(self, path: Path) -> None:
        """Save, and move the whole to ``path``."""

    def discard(self) -> None:
        """Close it as it is."""


class TextSink:
    """CSV or JSON lines in one partial file. The mark is its length in bytes."""

    def __init__(self, partial: Path, mark: int) -> None:
        self._partial = partial
        self._file: IO[bytes] = partial.open("r+b" if mark and partial.exists() else "wb")
        self._file.truncate(mark)
        self._file.seek(mark)

    def save(self) -> int:
        """Bring all of it to the disk; returns its length."""
        self._file.flush()
        sync_all(self._file.fileno())
        return self._file.tell()

    def finish(self, path: Path) -> None:
        """Save, and move the file to ``path``."""
        self.save()
        self._file.close()
        replace(self._partial, path)

    def discard(self) -> None:
        """Close it as it is."""
        self._file.close()


class CsvSink(TextSink):
    """CSV with a line of names; NULL is nothing, the empty string is ``""``."""

    def __init__(
        self, partial: Path, mark: int, types: Sequence[SqlType], *, header: bool, names: Sequence[str]
    ) -> None:
        super().__init__(partial, mark)
        self._types = types
        if header and not mark:
            from herdpy.cli.output import csv_line

            self._file.write(csv_line(names).encode())

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        columns = [_readable(kind, column) for kind, column in zip(self._types, batch.columns, strict=True)]
        names = [str(i) for i in range(len(columns))]
        csv.write_csv(
            pa.RecordBatch.from_arrays(columns, names=names),
            self._file,
            csv.WriteOptions(include_header=False, quoting_style="needed"),
        )


class JsonlSink(TextSink):
    """A JSON object a line."""

    def __init__(self, partial: Path, mark: int, types: Sequence[SqlType], names: Sequence[str]) -> None:
        super().__init__(partial, mark)
        self._types = types
        keys = json_names(names)
        self._before = ["{" + key if i == 0 else ", " + key for i, key in enumerate(keys)]

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        parts: list[Any] = []
        for before, kind, column in zip(self._before, self._types, batch.columns, strict=True):
            parts += [before, pc.fill_null(_json_text(kind, column), "null")]
        lines = pc.binary_join_element_wise(*parts, "}\n", "")
        self._file.write("".join(lines.to_pylist()).encode())


class ParquetSink:
    """Parquet in parts, a file each; the mark is how many are whole. At the end they become one."""

    def __init__(self, partial: Path, mark: int) -> None:
        self._partial = partial
        self._parts = mark
        self._writer: parquet.ParquetWriter | None = None
        self._schema: pa.Schema | None = None
        for stale in partial.parent.glob(f"{partial.name}.*.part"):
            if int(stale.name.split(".")[-2]) >= mark:
                stale.unlink()

    def _part(self, number: int) -> Path:
        return self._partial.with_name(f"{self._partial.name}.{number}.part")

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._part(self._parts), batch.schema)
        self._writer.write_batch(batch)

    def save(self) -> int:
        """End a part; returns how many there are."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            sync_path(self._part(self._parts))
            self._parts += 1
        return self._parts

    def finish(self, path: Path) -> None:
        """Join the parts under ``path``, row group by row group."""
        self.save()
        parts = [self._part(number) for number in range(self._parts)]
        if len(parts) == 1:
            replace(parts[0], path)
            return
        with parquet.ParquetWriter(self._partial, parquet.read_schema(parts[0])) as writer:
            for part in parts:
                file = parquet.ParquetFile(part)
                for group in range(file.num_row_groups):
                    writer.write_table(file.read_row_group(group))
                file.close()
        sync_path(self._partial)
        replace(self._partial, path)
        for part in parts:
            part.unlink()

    def discard(self) -> None:
        """Leave the part that was begun; a continued export writes it anew."""
        if self._writer is not None:
            self._writer.close()


def replace(source: Path, target: Path) -> None:
    """Rename, and bring the directory to the disk."""
    os.replace(source, target)
    sync_directory(target.parent)


def _readable(kind: SqlType, column: Array) -> Array:
    """The column as Arrow writes it to CSV: text where Arrow's own form is not PostgreSQL's."""
    base = kind.base.value
    if base in {"bytea", "uuid", "interval", "vector"} or (base in _SENTINELS and _has_infinity(column)):
        return _texts(kind, column)
    if pa.types.is_list(column.type):
        return _texts(_as_shown(kind), column)
    return column


def _json_text(kind: SqlType, column: Array) -> Array:
    """The column as JSON text; NULL stays NULL."""
    base = kind.base.value
    if base == "vector":
        return _texts(kind, column)
    if pa.types.is_list(column.type):
        return _json_lists(kind, column)
    if base in {"json", "jsonb"}:
        return pa.array([None if v is None else _one_line(v) for v in column.to_pylist()], pa.string())
    if base in _QUOTED:
        text = _readable(kind, column)
        if base == "bytea":  # \\x0102
            text = pc.binary_join_element_wise("\\", text, "")
        return pc.binary_join_element_wise('"', text.cast(pa.string()), '"', "")
    if base in {"real", "double precision"}:
        text = column.cast(pa.string())
        if pc.all(pc.is_finite(column)).as_py() is False:
            return pc.if_else(pc.is_finite(column), text, pc.binary_join_element_wise('"', text, '"', ""))
        return text
    if base in _BARE or not pa.types.is_string(column.type):
        return column.cast(pa.string())
    encode = json.encoder.encode_basestring
    return pa.array([None if v is None else encode(v) for v in column.to_pylist()], pa.string())


def _json_lists(kind: SqlType, column: Array) -> Array:
    """Arrays as JSON's, of what :func:`_json_text` makes of their elements."""
    from herdpy.codec.arrow import changed_lists
    from herdpy_sql.types import TEXT
    from herdpy_sql.values.label_columns import within

    inner = TEXT if kind.element is None else within(kind)
    lists = changed_lists(column, lambda values: _json_text(inner, values)).to_pylist()
    return pa.array(
        [None if one is None else f"[{', '.join('null' if v is None else v for v in one)}]" for one in lists],
        pa.string(),
    )


def _as_shown(kind: SqlType) -> SqlType:
    """The type of an array's column as users have it: of text, where its elements are that."""
    from herdpy_sql.types import TEXT, array_of

    return array_of(TEXT, kind.dimensions) if kind.has_places or kind.element is None else kind


def _one_line(text: str) -> str:
    """JSON as it was given, unless that has several lines."""
    return json.dumps(json.loads(text), ensure_ascii=False) if "\n" in text or "\r" in text else text


def _has_infinity(column: Array) -> bool:
    number = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
    found = pc.min_max(column.view(number)).as_py()
    bits = 31 if number == pa.int32() else 63
    # DuckDB's -infinity is the least integer plus one.
    return column.null_count < len(column) and bool(
        found["max"] == 2**bits - 1 or found["min"] <= 1 - 2**bits
    )


def _texts(kind: SqlType, column: Array) -> Array:
    from herdpy.codec.arrow import array_to_datums
    from herdpy_sql.values import to_text

    text = to_text(kind)
    return pa.array(
        [None if datum is None else text(datum) for datum in array_to_datums(kind.field, column)], pa.string()
    )


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """What to export and how.

    Attributes:
        table, query: one of the two.
        resume: True: go on where it stopped; False: begin again; None: go on if it had stopped.
    """

    path: Path
    format: FileFormat
    table: str | None = None
    query: str | None = None
    header: bool = True
    resume: bool | None = None
    batch_rows: int = _BATCH_ROWS
    save_rows: int = _SAVE_ROWS


@dataclass(slots=True)
class ExportState:
    """What is on disk of an export.

    Attributes:
        identity: what it is an export of; a state of another one is not continued.
        key: texts of the key's columns in the last row, in key order.
        rows: rows so far.
        mark: the sink's.
    """

    identity: list[object]
    key: list[str] = field(default_factory=list)
    rows: int = 0
    mark: int = 0


class Exporter:
    """One run of an export.

    Attributes:
        resumed_at: rows that an earlier run had written.
        rows: rows written in all.
    """

    def __init__(
        self, connection: Any, plan: ExportPlan, database: str, servers: TargetDatabase | None = None
    ) -> None:
        """``servers`` is where the rows come from; None: from the engine behind ``connection``."""
        self._connection = connection
        self._servers = servers
        self._plan = plan
        self._partial = plan.path.with_name(f"{plan.path.name}.partial")
        self._state_path = plan.path.with_name(f"{plan.path.name}.partial.json")
        self._table = schema.table(connection, plan.table) if plan.table else None
        self._key = _key_of(self._table) if self._table else ()
        names = [column.name for column in self._table.columns] if self._table else []
        self._state = ExportState([database, plan.table, plan.query, str(plan.format), plan.header, names])
        self.resumed_at = 0

    @property
    def rows(self) -> int:
        """Rows written in all."""
        return self._state.rows

    def run(self, on_batch: Callable[[int, int | None], None]) -> None:
        """Export what is left; ``on_batch(rows, of)`` is called after each batch.

        Of how many rows is None where nobody knows.

        Raises:
            CliError: there is nothing to continue, or the file cannot be written.
        """
        self._continue()
        sql, parameters = self._statement()
        if self._servers is None:
            answer = of_directory(self._connection, sql, parameters, self._plan.batch_rows)
        else:
            answer = of_servers(self._servers.url, self._servers.name, sql)
        with answer as rows:
            self._write(rows, on_batch)

    def _write(self, rows: CopiedRows, on_batch: Callable[[int, int | None], None]) -> None:
        types = rows.types if self._table is None else _types_of(self._table)
        hidden = len(self._key) if self._table and self._table.hidden_key else 0
        shown = len(rows.schema) - hidden
        names = rows.schema.names[:shown]
        if len(set(names)) < len(names) and self._plan.format is not FileFormat.CSV:
            raise CliError("two columns have the same name", hint="Name them apart with AS.")
        sink = self._sink(names, types[:shown])
        total = None if rows.count is None else self._state.rows + rows.count
        try:
            since_saved = 0
            for batch in rows.batches:
                sink.write(batch.select(range(shown)) if hidden else batch)
                self._state.rows += batch.num_rows
                since_saved += batch.num_rows
                if self._key and since_saved >= self._plan.save_rows:
                    self._save(sink, batch, types)
                    since_saved = 0
                on_batch(self._state.rows, total)
            if not self._state.rows:
                sink.write(_empty(pa.schema([rows.schema.field(at) for at in range(shown)])))
            sink.finish(self._plan.path)
        except BaseException:
            sink.discard()
            raise
        self._state_path.unlink(missing_ok=True)

    def _continue(self) -> None:
        """Take up the state that an earlier run left, if this is the same export."""
        if self._plan.resume is False:
            return
        try:
            found = ExportState(**json.loads(self._state_path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            found = None
        except (ValueError, TypeError) as error:
            raise CliError(
                f"{self._state_path} is damaged: {error}", hint="--restart begins again."
            ) from error
        if found is not None and found.identity == self._state.identity and self._key:
            self._state = found
            self.resumed_at = found.rows
        elif self._plan.resume:
            raise CliError(
                f"there is no interrupted export of this to {self._plan.path}",
                hint="Only exports of a table can be continued. Leave out --resume to begin.",
            )

    def _statement(self) -> tuple[str, tuple[str, ...]]:
        if self._table is None:
            assert self._plan.query is not None
            return self._plan.query.strip().rstrip(";"), ()
        columns = [column.name for column in self._table.columns]
        if self._table.hidden_key:
            columns += [part.name for part in self._key]
        sql = f"SELECT {', '.join(map(schema.quoted, columns))} FROM {self._table.sql_name}"
        values: Sequence[str] = self._state.key
        if values and self._servers is not None:  # COPY takes no parameters
            sql, values = f"{sql} WHERE {_after(self._key, [literal(text) for text in values])}", ()
        elif values:
            sql += f" WHERE {_after(self._key, [f'${n}' for n in range(1, len(values) + 1)])}"
        order = [f"{schema.quoted(part.name)}{' DESC' if part.descending else ''}" for part in self._key]
        return f"{sql} ORDER BY {', '.join(order)}", tuple(values)

    def _sink(self, names: Sequence[str], types: Sequence[SqlType]) -> RecordSink:
        mark = self._state.mark
        try:
            match self._plan.format:
                case FileFormat.CSV:
                    return CsvSink(self._partial, mark, types, header=self._plan.header, names=names)
                case FileFormat.JSONL:
                    return JsonlSink(self._partial, mark, types, names)
                case _:
                    return ParquetSink(self._partial, mark)
        except OSError as error:
            raise CliError(f"cannot write {self._partial}: {error.strerror}") from error

    def _save(self, sink: RecordSink, batch: pa.RecordBatch, types: Sequence[SqlType]) -> None:
        """Record that all up to the last row of ``batch`` is on disk."""
        from herdpy.codec.arrow import array_to_datums
        from herdpy_sql.values import to_text as text_of

        self._state.mark = sink.save()
        last = batch.slice(batch.num_rows - 1)
        self._state.key = []
        for part in self._key:
            place = last.schema.get_field_index(part.name)
            datum = array_to_datums(types[place].field, last.column(place))[0]
            self._state.key.append(text_of(types[place])(datum))
        new = self._state_path.with_name(f"{self._state_path.name}.new")
        new.write_text(json.dumps(asdict(self._state)), encoding="utf-8")
        sync_path(new)
        replace(new, self._state_path)


def _key_of(table: schema.TableInfo) -> tuple[schema.KeyColumn, ...]:
    if table.hidden_key:
        return (schema.KeyColumn(table.hidden_key, descending=False),)
    return table.key


def _types_of(table: schema.TableInfo) -> list[SqlType]:
    """Of its columns as they were declared; a server's answer tells less: NUMERIC of NUMERIC(8,2)."""
    types = needed("herdpy_sql.types")
    return [column.sql_type for column in table.columns] + ([types.BIGINT] if table.hidden_key else [])


def _after(key: Sequence[schema.KeyColumn], values: Sequence[str]) -> str:
    """The condition for rows after the key in ``values``: a > 1 OR (a = 1 AND b > 2) ..."""
    branches = []
    for i, part in enumerate(key):
        equal = [
            f"{schema.quoted(before.name)} = {value}" for before, value in zip(key[:i], values, strict=False)
        ]
        sign = "<" if part.descending else ">"
        branches.append("(" + " AND ".join([*equal, f"{schema.quoted(part.name)} {sign} {values[i]}"]) + ")")
    return " OR ".join(branches)


def _empty(kind: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], one.type) for one in kind], schema=kind)
