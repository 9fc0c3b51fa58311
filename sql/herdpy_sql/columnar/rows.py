"""Rows as values where the columnar engine has a meaning for them: makers of JSON, and count.

A row is written out, ``(a, b)`` or ``ROW(a, b)``, or it is a relation's name. Nodes of calls' arguments
come in; typed DuckDB text goes out: a JSON document with the row's fields, or a struct that can only be
compared with others. Below ``functions`` and ``aggregates``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from herdpy_sql.columnar import emit
from herdpy_sql.columnar.binder import Binder, handles, unsupported
from herdpy_sql.columnar.comparisons import order_key
from herdpy_sql.columnar.emit import call
from herdpy_sql.columnar.routines import types_of
from herdpy_sql.columnar.scope import Rel, Scope, table_column, text
from herdpy_sql.duck import Typed, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.expr.syntax import identifier, is_row
from herdpy_sql.library import Resolved
from herdpy_sql.types import BOOLEAN, TEXT
from herdpy_sql.values.form import quote

MAKERS = frozenset({
    "row_to_json", "to_json", "to_jsonb", "json_build_object", "jsonb_build_object", "json_build_array",
    "jsonb_build_array", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg",
})  # fmt: skip
"""Functions that take rows among their arguments."""


def whole(node: Any, scope: Scope) -> Rel | None:
    """The relation whose name stands where a column's might; a column of that name goes before."""
    if not isinstance(node, exp.Column) or node.args.get("table") or isinstance(node.this, exp.Star):
        return None
    found = scope.relation(identifier(node.this))
    if found is None:
        return None
    try:
        scope.find(None, identifier(node.this))
    except SqlError as error:
        return found[1] if error.sqlstate == "42703" else None
    return None


def argument(binder: Binder, node: Any, scope: Scope) -> Typed:
    """An argument of one of ``MAKERS``: a row as JSON, anything else as it is."""
    rel = whole(node, scope)
    if rel is None and not is_row(node):
        return binder.bind(node, scope)
    if rel is None:
        values = binder.bind_all(node.expressions, scope)
        names = [f"f{i + 1}" for i in range(len(values))]
    else:
        names = [column.name for column in rel.columns]
        values = [binder.bind(_column(rel, name), scope) for name in names]
    arguments = []
    for name, value in zip(names, values, strict=True):
        arguments += [Typed(quote(name), TEXT), emit.settle_text(binder, value)]
    found = call(binder, "row_as_json", arguments)
    assert found is not None
    missing = _missing(rel) if rel is not None else ""
    if missing:
        return typed(f"CASE WHEN NOT {missing} THEN {found.sql} END", found.type, found)
    return found


def made(binder: Binder, node: Any, scope: Scope) -> Typed:
    """A call of one of ``MAKERS``."""
    name = str(node.this).lower()
    arguments = [argument(binder, one, scope) for one in node.expressions]
    if (
        name == "row_to_json"
        and arguments
        and (is_row(node.expressions[0]) or whole(node.expressions[0], scope))
    ):
        name = "to_json" if len(arguments) == 1 else "row_to_json"
    found = call(binder, name, arguments, scope)
    if found is None:
        raise no_function(name, types_of(*arguments))
    return found


def _missing(rel: Rel) -> str:
    """What tells that an outer join found no row of a relation; empty where there is always one."""
    if not rel.nullable:
        return ""
    if rel.table is None or not rel.table.key:
        raise SqlError("0A000", f'whole-row reference "{rel.name}" of an outer join is not supported')
    return f"({text(table_column(rel, rel.table, rel.table.key_positions[0]))} IS NULL)"


def _column(rel: Rel, name: str) -> exp.Column:
    return exp.Column(
        this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(rel.name, quoted=True)
    )


def counted(binder: Binder, node: Any, scope: Scope) -> Typed:
    """An argument of count: rows differ where a field does, NULLs being alike; no row is NULL."""
    if not is_row(node):
        return binder.bind(node, scope)
    values = [emit.settle_text(binder, value) for value in binder.bind_all(node.expressions, scope)]
    return typed(f"row({', '.join(order_key(value) for value in values)})", BOOLEAN, *values)


def _of_record(binder: Binder, row: Typed, name: str) -> Typed:
    """A field of what a function of rows gives, which is the list of its fields' texts."""
    names = [field for field, _type in row.type.row]
    if name not in names:
        message = f'column "{name}" not found in data type {row.type.name}'
        raise SqlError("42703" if names else "42809", message)
    place = names.index(name)
    type_ = row.type.row[place][1]
    one = typed(f"({row.sql})[{place + 1}]", TEXT, row)
    found = one if type_ == TEXT else emit.invoke(binder, Resolved("cast", 0, (TEXT,), type_), [one])
    return replace(found, name=name)


@handles(exp.Dot)
def _field(binder: Binder, node: Any, scope: Scope) -> Typed:
    """``(relation).column``, ``(function(...)).field``; other fields of rows are not there."""
    rel = whole(node.this.this, scope) if isinstance(node.this, exp.Paren) else None
    if rel is None and isinstance(node.this, exp.Paren) and isinstance(node.expression, exp.Identifier):
        return _of_record(binder, binder.bind(node.this, scope), identifier(node.expression))
    if rel is None and isinstance(node.this, exp.Identifier) and isinstance(node.expression, exp.Func):
        raise SqlError("3F000", f'schema "{identifier(node.this)}" does not exist')
    if rel is None or not isinstance(node.expression, exp.Identifier):
        raise unsupported(node)
    return binder.bind(_column(rel, identifier(node.expression)), scope)
