"""The plan of a SELECT over the catalog: from the statement's tree to a query that is ready to run.

Above ``query``, which it makes: ``system_select`` rewrites the tree and has DuckDB bind it over empty
relations, which gives the columns' types and all errors of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from herdpy.imports import lazy_module
from herdpy_sql.columnar.query import Scan
from herdpy_sql.columnar.transfer import column_type
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn, Plan, PlanOutcome
from herdpy_sql.system import engine, lookups, naming
from herdpy_sql.system import rewrite_from as _from  # noqa: F401
from herdpy_sql.system import rewrites as _rewrites  # noqa: F401 - registers its handlers
from herdpy_sql.system.actions import take_signals
from herdpy_sql.system.catalog_query import CatalogQuery, catalog_query
from herdpy_sql.system.query import SystemQuery
from herdpy_sql.system.rewriter import Rewriter
from herdpy_sql.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    JSON,
    NUMERIC,
    OID,
    REAL,
    SMALLINT,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    Base,
    SqlType,
    array_of,
)
from herdpy_sql.values import label_columns

if TYPE_CHECKING:
    import duckdb

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Row
    from herdpy_sql.storage import Clock, View
else:
    duckdb = lazy_module("duckdb")

_TYPES = {
    "BOOLEAN": BOOLEAN, "TINYINT": SMALLINT, "SMALLINT": SMALLINT, "INTEGER": INTEGER, "BIGINT": BIGINT,
    "HUGEINT": BIGINT, "UBIGINT": BIGINT, "FLOAT": REAL, "DOUBLE": DOUBLE, "BLOB": BYTEA, "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP, "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ, "UUID": UUID, "JSON": JSON,
}  # fmt: skip


class SystemSelect(Plan):
    """A SELECT over the catalog."""

    tag = "SELECT"
    read_only = True
    engine = "columnar"

    def __init__(self, query: SystemQuery | CatalogQuery) -> None:
        self.source = query
        self.columns: tuple[OutputColumn, ...] = (
            query.shown if isinstance(query, SystemQuery) else query.columns
        )
        self.param_types = query.param_types

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        if source is None:
            raise ValueError("a plan over the catalog is given the answer of its source")
        return PlanOutcome(None, source.num_rows, source)

    def moved(self, catalog: Catalog) -> SystemSelect | None:
        query = self.source.moved(catalog)
        return None if query is None else SystemSelect(query)

    def explain(self) -> list[str]:
        read = [relation.label for relation in self.source.relations]
        read += [scan.name for scan in self.source.scans]
        return ["System Catalog Query", *(f"  -> Scan on {name}" for name in read)]


def system_select(
    asked: exp.Expression,
    catalog: Catalog,
    param_types: Sequence[SqlType] = (),
    targets: Sequence[SqlType | None] | None = None,
) -> SystemSelect:
    """The plan of a query over the catalog. SqlError 42P01, 42703, 42883, 0A000 and so on.

    The columnar engine runs what it can bind; the rest is rewritten.
    """
    try:
        return SystemSelect(catalog_query(asked, catalog, param_types, targets))
    except SqlError as error:
        refusal = error
    try:
        return _rewritten(asked, catalog, param_types)
    except SqlError as error:
        raise (error if refusal.sqlstate in _NOT_THERE else refusal) from None


_NOT_THERE = frozenset({"0A000", "42883"})
"""What the columnar engine says where it has not something that rewriting may have."""


def _rewritten(asked: exp.Expression, catalog: Catalog, param_types: Sequence[SqlType]) -> SystemSelect:
    tree = asked.copy()
    names = naming.output_names(tree)
    catalog_types = naming.catalog_types(tree)
    signals = take_signals(tree)
    naming.label(tree)
    rewriter = Rewriter(catalog, param_types)
    sql = rewriter.rewrite(tree)
    out = rewriter.out
    _refuse_order_of_texts(asked, out.scans.values())
    count = max([*out.params, *out.used], default=0)
    types = tuple(_known(out.params.get(n)) for n in range(1, count + 1))
    query = SystemQuery(
        sql=sql,
        catalog=catalog,
        relations=tuple(out.relations.values()),
        lookups=tuple(sorted(out.lookups)),
        scans=tuple(out.scans.values()),
        columns=(),
        param_types=types,
        used=tuple(n for n in sorted(out.used) if re.search(rf"\$p{n}\b", sql)),
        values=tuple(sorted(out.values)),
        actions=tuple(out.actions),
        signals=signals,
        unqualified=tuple(sorted(out.unqualified)),
    )
    return SystemSelect(_described(query, names, catalog_types))


def _refuse_order_of_texts(tree: exp.Expression, scans: Iterable[Scan]) -> None:
    """SqlError 0A000 where an ENUM is compared with a bare text by order: DuckDB would compare texts."""
    labels = {column.name for scan in scans for column in scan.table.columns if column.type.enum is not None}
    for node in tree.find_all(exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between) if labels else ():
        sides = [one for one in node.args.values() if isinstance(one, exp.Expression)]
        names = {one.name for one in sides if isinstance(one, exp.Column)} & labels
        if names and not all(isinstance(one, exp.Column | exp.Cast) for one in sides):
            raise SqlError(
                "0A000",
                f'the order of ENUM "{names.pop()}" and a text is not supported in queries over the catalog',
                hint="Cast the text to the ENUM.",
            )


def _known(type_: SqlType | None) -> SqlType:
    return TEXT if type_ is None or type_.base is Base.UNKNOWN else type_


def _described(
    query: SystemQuery, names: list[str | None], catalog_types: Mapping[str, SqlType]
) -> SystemQuery:
    """The query with its columns: bound over relations without rows."""
    tables = {relation.label: relation.arrow_schema.empty_table() for relation in query.relations}
    tables |= {f"lookup.{name}": lookups.empty(name) for name in query.lookups}
    for scan in query.scans:
        fields = [
            pa.field(scan.table.columns[p].name, column_type(scan.table.columns[p].type))
            for p in scan.positions
        ]
        kinds = [scan.table.columns[p].type for p in scan.positions]
        tables[scan.name] = label_columns.shown(pa.schema(fields).empty_table(), kinds)
    nothing = {f"p{n}": None for n in query.used}
    nothing |= {f"s_{name}": None for name in query.values if f"$s_{name}" in query.sql}
    nothing |= {f"a{number}": None for number in range(len(query.actions))}
    cursor = engine.database("UTC").cursor()
    try:
        relation = _bind(cursor, query.sql, tables, nothing)
        shown, types = list(relation.columns), [str(t) for t in relation.types]
    except duckdb.Error as error:
        raise engine.sql_error(error) from None
    finally:
        cursor.close()
    columns = []
    casts = []
    for i, type_ in enumerate(types):
        plain = _TYPES.get(type_, TEXT)
        if type_.endswith("[]") and not type_.endswith("[][]"):
            plain = array_of(OID if type_ == "BIGINT[]" else _TYPES.get(type_[:-2], TEXT))
        if type_.startswith("DECIMAL"):
            plain = NUMERIC
        whole = "CAST(o.c{0} AS VARCHAR)" if type_ == "INTERVAL" else "o.c{0}"
        casts.append(whole.format(i))
        name = naming.name_at(names, shown, i)
        if plain.kind is catalog_types.get(name, UNKNOWN).kind:
            plain = catalog_types.get(name, plain)
        columns.append(OutputColumn(name, plain))
    sql = query.sql
    if "INTERVAL" in types:
        listed = ", ".join(f"c{i}" for i in range(len(types)))
        sql = f"SELECT {', '.join(casts)} FROM ({sql}) AS o({listed})"
    return replace(query, sql=sql, columns=tuple(columns))


def _bind(cursor: Any, sql: str, tables: Mapping[str, pa.Table], values: dict[str, Any]) -> Any:
    for name, table in tables.items():
        cursor.register(name, table)
    return cursor.sql(sql, params=values) if values else cursor.sql(sql)
