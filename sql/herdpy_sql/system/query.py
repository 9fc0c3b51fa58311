"""A query over the catalog that is ready to run: its DuckDB text, what it reads, its columns.

``select`` makes it of a statement. ``SystemQuery.begun`` takes what the session's state says; ``run`` makes
the relations' rows from the catalog and runs the text. It does so in the process that has the state, whoever
else runs queries: the rows are few. ``ended`` signals the sessions that the rows name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy.imports import lazy_module
from herdpy_sql.catalog import Catalog, Table
from herdpy_sql.columnar.query import Scan
from herdpy_sql.columnar.transfer import column_type, duck_value
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn
from herdpy_sql.plan import type_names
from herdpy_sql.storage import Clock
from herdpy_sql.system import contents, engine, lookups
from herdpy_sql.system.actions import Signal, Sleep, perform
from herdpy_sql.system.asked import RunningQuery, running
from herdpy_sql.system.herdpy_schema import TOLD
from herdpy_sql.system.rewriter import SessionAction
from herdpy_sql.system.state import FrozenState, LocalState, ServerState
from herdpy_sql.system_relations import HERDPY, SystemRelation
from herdpy_sql.types import BOOLEAN, SqlType
from herdpy_sql.values import label_columns

if TYPE_CHECKING:
    import duckdb

    from herdpy.codec.kinds import Datum
    from herdpy_sql.columnar.engine import Interrupt, Limits
else:
    duckdb = lazy_module("duckdb")


@dataclass(frozen=True)
class SystemQuery:
    """A query over the catalog; immutable.

    ``scans`` are users' tables that it reads too; ``unqualified`` are names of system relations that stand
    without a schema, so that a user's table of that name would be meant if there were one. ``columns`` are
    those of ``run``; ``shown`` those of the answer, in which ``signals`` have become truths.
    """

    sql: str
    catalog: Catalog
    relations: tuple[SystemRelation, ...]
    lookups: tuple[str, ...]
    scans: tuple[Scan, ...]
    columns: tuple[OutputColumn, ...]
    param_types: tuple[SqlType, ...]
    used: tuple[int, ...]
    values: tuple[str, ...]
    actions: tuple[SessionAction, ...]
    signals: tuple[Signal, ...] = ()
    unqualified: tuple[str, ...] = ()
    state: ServerState | None = None
    live: ServerState | None = None
    done: tuple[object, ...] = ()

    @property
    def shown(self) -> tuple[OutputColumn, ...]:
        """The columns of the answer."""
        found = list(self.columns)
        for signal in self.signals:
            found[signal.column] = OutputColumn(found[signal.column].name, BOOLEAN)
        return tuple(found)

    @property
    def told(self) -> list[str]:
        """The facts of the server that it reads (``ServerState.facts``)."""
        return [one.name for one in self.relations if one.schema == HERDPY and one.name in TOLD]

    @property
    def seen(self) -> list[str]:
        """The facts that the session's own server can tell at once."""
        names = {one.name for one in self.relations}
        wanted = {
            "sequences": "pg_sequences" in names or "sequence" in self.lookups,
            "locks": "pg_locks" in names,
        }
        return [name for name, is_wanted in wanted.items() if is_wanted]

    def begun(self, state: ServerState, params: Sequence[Datum]) -> SystemQuery:
        """The query with what the state says now; does what its functions do (set_config and so on).

        To be called where sessions run, before ``run``, which may be elsewhere.
        """
        frozen = FrozenState(state, [*self.told, *self.seen])
        done: list[object] = [None] * len(self.actions)
        for number in self._order():
            done[number] = perform(self.actions[number], state, params)
        return replace(self, state=frozen, live=state if self.signals else None, done=tuple(done))

    def _order(self) -> list[int]:
        """The numbers of the actions in the order in which the query names them."""
        named = dict.fromkeys(int(number) for number in re.findall(r"\$a(\d+)\b", self.sql))
        return list(named | dict.fromkeys(range(len(self.actions))))

    def run(
        self,
        sources: Mapping[str, pa.Table],
        params: Sequence[Datum],
        clock: Clock,
        limits: Limits | None = None,
        interrupt: Interrupt | None = None,
    ) -> pa.Table:
        """The answer as an Arrow table; as ``ColumnarQuery.run``."""
        if len(params) != len(self.param_types):
            raise SqlError("08P01", f"{len(self.param_types)} parameters are expected, {len(params)} given")
        for pause in self.done:
            if isinstance(pause, Sleep):
                pause.wait(interrupt, None if limits is None else limits.seconds)
        context = contents.Context(self.catalog, self.state or LocalState())
        with engine.reader(clock.zone) as reader:
            for relation in self.relations:
                keep = relation.label in contents.OF_CATALOG
                reader.know(relation.label, contents.table(relation, context), keep=keep)
            for name in self.lookups:
                keep = name in lookups.OF_CATALOG
                reader.know(f"lookup.{name}", lookups.table(name, context), keep=keep)
            for scan in self.scans:
                names = [scan.table.columns[p].name for p in scan.positions]
                rows = sources[scan.name].rename_columns(names)
                rows = label_columns.shown(rows, [scan.table.columns[p].type for p in scan.positions])
                reader.know(scan.name, rows, keep=False)
            with running(context) as asked:
                values = self._values(params, clock, context.state, asked.number)
                found = self._answer(reader.cursor, values, interrupt, asked)
        return _typed(found, self.columns)

    def ended(self, found: pa.Table) -> pa.Table:
        """The answer to what ``run`` found, after each row's sessions were signalled, in the rows' order.

        To be called where sessions run. SqlError 42501: the rows before it were signalled.
        """
        if not self.signals or self.live is None:
            return found
        answers: list[list[bool | None]] = [[] for _ in self.signals]
        for row in zip(*(found.column(signal.column).to_pylist() for signal in self.signals), strict=True):
            for signal, answer, pid in zip(self.signals, answers, row, strict=True):
                answer.append(None if pid is None else self.live.signal(pid, terminate=signal.terminates))
        for signal, answer in zip(self.signals, answers, strict=True):
            field = pa.field(found.schema.names[signal.column], pa.bool_())
            found = found.set_column(signal.column, field, pa.array(answer, pa.bool_()))
        return found

    def _answer(
        self, cursor: Any, values: dict[str, Any], interrupt: Interrupt | None, asked: RunningQuery
    ) -> pa.Table:
        try:
            if interrupt is not None:
                interrupt.check()
            relation = cursor.sql(self.sql, params=values) if values else cursor.sql(self.sql)
            if interrupt is not None:
                interrupt.attach(cursor)
            found: pa.Table = relation.to_arrow_table()
        except duckdb.Error as error:
            if interrupt is not None:
                interrupt.check()
            raise (asked.error or engine.sql_error(error)) from None
        finally:
            if interrupt is not None:
                interrupt.attach(None)
        return found

    def moved(self, catalog: Catalog) -> SystemQuery | None:
        """The same query over another catalog; None when its names might mean something else there."""
        if self.scans or type_names.has_enums(catalog) or type_names.has_enums(self.catalog):
            return None
        if any(isinstance(catalog.find(None, name), Table) for name in self.unqualified):
            return None
        return replace(self, catalog=catalog)

    def _values(
        self, params: Sequence[Datum], clock: Clock, state: ServerState, number: int
    ) -> dict[str, Any]:
        found: dict[str, Any] = {
            f"p{n}": duck_value(params[n - 1], self.param_types[n - 1]) for n in self.used
        }
        own = {"transaction_us": clock.transaction_us, "path": list(self.catalog.path), "asked": number}
        for name in self.values:
            if f"$s_{name}" not in self.sql:
                continue  # an argument of a function that does not look at it
            found[f"s_{name}"] = own[name] if name in own else getattr(state, name, None)
        for at, value in enumerate(self.done or [None] * len(self.actions)):
            found[f"a{at}"] = "" if isinstance(value, Sleep) else value
        return found


def _typed(table: pa.Table, columns: tuple[OutputColumn, ...]) -> pa.Table:
    arrays: list[Any] = []
    fields = []
    for column, found in zip(columns, table.columns, strict=True):
        wanted = column_type(column.type)
        array: Any = found
        if pa.types.is_nested(found.type) and column.type.element is None:
            array = pa.chunked_array([pa.array([_text(v) for v in found.to_pylist()], pa.string())])
        arrays.append(array if array.type == wanted else array.cast(wanted))
        fields.append(pa.field(column.name, wanted))
    return pa.table(arrays, schema=pa.schema(fields))


def _text(value: object) -> str | None:
    """An array as PostgreSQL writes it, or a row."""
    if value is None:
        return None
    if isinstance(value, dict):
        return "(" + ",".join("" if v is None else str(v) for v in value.values()) + ")"
    assert isinstance(value, list)
    return "{" + ",".join("NULL" if v is None else _element(v) for v in value) + "}"


def _element(value: object) -> str:
    if isinstance(value, list | dict):
        return str(_text(value))
    text = ("t" if value else "f") if isinstance(value, bool) else str(value)
    if text and text.upper() != "NULL" and not any(c in text for c in '{}," \\\t\n'):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
