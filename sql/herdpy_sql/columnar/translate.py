"""From a sqlglot tree to a ColumnarQuery."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.bind import bind_query
from herdpy_sql.bind.grouping import has_aggregate
from herdpy_sql.bind.nodes import Ordered, Query, Select
from herdpy_sql.columnar import queries
from herdpy_sql.columnar.bounds import key_range
from herdpy_sql.columnar.emission import (
    BOLD,
    MAX_PARAMETER,
    MAX_TEXT,
    Emission,
    EmittedQuery,
    EmittedScan,
    too_complex,
)
from herdpy_sql.columnar.query import ColumnarQuery, Scan
from herdpy_sql.duck import Typed, numeric_text, over_elements, retyped, stored_dec
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn
from herdpy_sql.expr.coerce import Params
from herdpy_sql.types import NUMERIC, TEXT, Base, SqlType, array_of
from herdpy_sql.values.forms import FORMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlglot import exp

    from herdpy_sql.bind.binder import Binder
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.given import Given

_MARK = re.compile(r"\$(\d+)")


def translate(
    query: exp.Expression,
    catalog: Catalog,
    param_types: Sequence[SqlType] = (),
    *,
    targets: Sequence[SqlType | None] | None = None,
    given: Mapping[str, Given] | None = None,
    context: bool = False,
    notes: list[tuple[str, Expr]] | None = None,
) -> ColumnarQuery:
    """The meaning of a SELECT, VALUES, TABLE, set operation or WITH query over ``catalog``.

    Args:
        query: a sqlglot tree in the postgres dialect; it is not changed.
        param_types: types of parameters that the client gave (UNKNOWN: to be inferred).
        targets: types that the columns' untyped literals and parameters shall take (INSERT ... SELECT).
        given: relations by name that are handed over with the question.
        notes: gets the typed trees of the query's clauses, each with what it is for.
        context: the query will run in a context that functions of the catalog look things up in.

    Raises:
        SqlError: 42P01, 42703, 42702, 42803, 42883, 42804 ... as PostgreSQL; 0A000 for what is valid
            and not supported.
    """
    bound = bind_query(query, catalog, Params(param_types), targets=targets, given=given, notes=notes)
    return emitted(*bound, context=context)


def emitted(bound: Query, binder: Binder, *, context: bool = False) -> ColumnarQuery:
    """The text of a bound query, for each level of daring.

    Raises as :func:`translate`, but for what binding raises.
    """
    if len(binder.params.types) > MAX_PARAMETER:
        raise SqlError("42P02", f"there is no parameter ${len(binder.params.types)}")
    found, dared = _emitted(bound, binder, BOLD)
    for routine in found.routines if not context else ():
        if routine.routine.context:
            raise SqlError("0A000", f"{routine.name} is supported in queries alone, not in this statement")
    is_recursive = binder.is_recursive
    found = replace(found, at_once=_is_aggregate(bound), is_recursive=is_recursive)
    chain = [found]
    while dared:  # as daring as it was is not careful enough
        one, dared = _emitted(bound, binder, dared - 1)
        chain.append(replace(one, at_once=found.at_once, is_recursive=is_recursive))
    for one in reversed(chain[:-1]):
        chain[-1] = replace(one, careful=chain[-1])
    return chain[-1]


def _is_aggregate(query: Query) -> bool:
    """Whether no row of the answer can be there before all have been looked at."""
    while isinstance(query, Ordered):
        query = query.inner
    if not isinstance(query, Select):
        return False
    return query.groups is not None or any(has_aggregate(output.expr) for output in query.outputs)


def _emitted(query: Query, binder: Binder, daring: int) -> tuple[ColumnarQuery, int]:
    """The text of a bound query; and how boldly more digits were taken to fit than are known to."""
    emission = Emission(binder.params, binder.numbering, queries.emit_query, daring)
    try:
        found = emission.query(query)
    except RecursionError:
        raise SqlError("54001", "stack depth limit exceeded") from None
    sql, columns = _output(found, query)
    if len(sql) > MAX_TEXT:
        raise too_complex(len(sql))
    sql, marks = _numbered(sql)
    params = binder.params.types
    made = ColumnarQuery(
        sql=sql,
        scans=tuple(scan for one in emission.scans if one.scan.table.id >= 0 for scan in _scans(one, params)),
        given=tuple(scan for one in emission.scans if one.scan.table.id < 0 for scan in _scans(one, params)),
        spreads=_spreads(emission.scans),
        columns=columns,
        param_types=params,
        marks=marks,
        surrogates=tuple(emission.surrogates),
        routines=tuple(emission.routines),
    )
    return made, emission.dared


def _output(found: EmittedQuery, query: Query) -> tuple[str, tuple[OutputColumn, ...]]:
    """The text with every column in the form that its Arrow type wants."""
    plain = True
    items, columns = [], []
    for i, (column, output) in enumerate(zip(found.columns, query.outputs, strict=True)):
        type_, form = _shown(column, f"o.c{i}")
        plain = plain and form == f"o.c{i}"
        items.append(f"{form} AS c{i}")
        columns.append(OutputColumn(output.name, type_, output.origin))
    if plain:
        return found.sql, tuple(columns)
    return f"SELECT {', '.join(items)} FROM ({found.sql}) AS o({found.names()})", tuple(columns)


def _shown(column: Typed, sql: str) -> tuple[SqlType, str]:
    type_ = column.type if column.base is not Base.UNKNOWN else TEXT
    if column.array:
        return _shown_array(column, sql)
    if type_.base is Base.NUMERIC:
        if (
            column.dec is not None
            and type_.precision is not None
            and column.dec == (type_.precision, type_.scale)
        ):
            return type_, sql
        shown = retyped(replace(column, sql=sql), sql, NUMERIC, column.dec)
        return NUMERIC, numeric_text(shown)
    if type_.base is Base.RECORD:
        return TEXT, FORMS[Base.RECORD].duck.text.format(sql)
    return type_, sql


def _shown_array(column: Typed, sql: str) -> tuple[SqlType, str]:
    """An array: NUMERIC elements are text unless they are a stored column's."""
    if column.base is not Base.NUMERIC or column.dec is None:
        return array_of(column.type, column.array), sql
    if column.type.precision is not None and column.dec == stored_dec(column.type):
        return array_of(column.type, column.array), sql
    one = numeric_text(Typed("e", NUMERIC, column.dec))
    return array_of(NUMERIC, column.array), over_elements(sql, column.array, one)


def _numbered(sql: str) -> tuple[str, tuple[int, ...]]:
    """Parameters renumbered to those that are used; literals never have a raw ``$``."""
    marks: dict[int, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"${marks.setdefault(int(match[1]), len(marks) + 1)}"

    return _MARK.sub(number, sql), tuple(marks)


def _scans(one: EmittedScan, params: Sequence[SqlType]) -> Iterator[Scan]:
    table = one.scan.table
    positions = tuple(one.positions) or ((*table.key_positions, 0)[0],)
    for name, source in one.sources:
        yield Scan(name, source, positions, key_range(source, one.scan.bounded, params), one.chosen)


def _spreads(scans: Sequence[EmittedScan]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    spreads = [one.scan.spread for one in scans]
    return tuple((one.table.id, one.ids) for one in spreads if one is not None)
