"""``herdpy export``: a table or a query, as one statement, into a file that appears whole.

Rows are written to ``FILE.partial``; ``FILE.partial.json`` says up to which key they are on disk.
An interrupted export of a table goes on after that key. One run is one statement and so one
snapshot; a continued export is one snapshot a run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy.cli import schema, target
from herdpy.cli.errors import CliError
from herdpy.cli.rows import CopiedRows, of_directory, of_servers
from herdpy.cli.servers import literal
from herdpy.cli.sink import CsvSink, JsonlSink, ParquetSink, RecordSink, replace, sync
from herdpy.cli.source import FileFormat

if TYPE_CHECKING:
    from herdpy.cli.target import TargetDatabase
    from herdpy_sql.types import SqlType

_BATCH_ROWS = 32_768
_SAVE_ROWS = 500_000


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
        sync(new)
        replace(new, self._state_path)


def _key_of(table: schema.TableInfo) -> tuple[schema.KeyColumn, ...]:
    if table.hidden_key:
        return (schema.KeyColumn(table.hidden_key, descending=False),)
    return table.key


def _types_of(table: schema.TableInfo) -> list[SqlType]:
    """Of its columns as they were declared; a server's answer tells less: NUMERIC of NUMERIC(8,2)."""
    types = target.needed("herdpy_sql.types")
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
