"""Rows as values where they have a meaning: JSON documents, texts, fields, and what count() compares.

A row is written out, ``(a, b)`` or ``ROW(a, b)``, or it is a relation's name. Below ``aggregates`` and
``calls``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.coerce import coerce, settle
from herdpy_sql.expr.operate import library_call
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.expr.syntax import identifier, is_row
from herdpy_sql.types import BOOLEAN, TEXT, Base

if TYPE_CHECKING:
    from collections.abc import Iterable

    from herdpy_sql.expr.binder import ExprBinder

MAKERS = frozenset({
    "row_to_json", "to_json", "to_jsonb", "json_build_object", "jsonb_build_object", "json_build_array",
    "jsonb_build_array",
})  # fmt: skip
"""Functions that take rows among their arguments."""
ROW = n.Function("row", lambda *fields: None, strict=False, foreign="a row as a value")


def row_value(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    """A row that can only be compared with others: they differ where a field does, NULLs being alike."""
    return n.Call(BOOLEAN, ROW, tuple([settle(one, binder.params) for one in written_fields(binder, node)]))


def written_fields(binder: ExprBinder, node: exp.Expression) -> list[n.Expr]:
    """The fields of ``(a, b)`` or ``ROW(a, b)``; ``relation.*`` among them is all its columns."""
    found: list[n.Expr] = []
    for one in node.expressions:
        found += _starred(binder, one) or [binder.bind(one)]
    return found


def _starred(binder: ExprBinder, node: Any) -> list[n.Expr] | None:
    """The columns of ``relation.*``; None of what is something else. SqlError 42P01."""
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Star):
        return None
    name = identifier(node.args["table"])
    fields = binder.params.record(name)
    if fields is not None:
        return [value for _, value in fields]
    return [binder.scope.resolve(name, column) for column, _ in binder.scope.starred(name)]


def row_document(binder: ExprBinder, node: Any) -> n.Expr | None:
    """A row, or a relation's, as a JSON document; None of what is neither."""
    if is_row(node):
        values = [settle(one, binder.params) for one in written_fields(binder, node)]
        return _document(binder, [(f"f{i}", value) for i, value in enumerate(values, start=1)])
    row = _whole(binder, node)
    return None if row is None else _if_there(row, _document(binder, row.fields))


def row_text(binder: ExprBinder, node: Any) -> n.Expr | None:
    """A row, or a relation's, as PostgreSQL's text of it; None of what is neither."""
    if is_row(node):
        return _text(binder, [settle(one, binder.params) for one in written_fields(binder, node)])
    node = _named(node)
    row = _whole(binder, node)
    return None if row is None else _if_there(row, _text(binder, [value for _, value in row.fields]))


def _named(node: Any) -> Any:
    """``relation.*`` as ``relation``, which is the same row; all else as it stands."""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return exp.Column(this=node.args["table"])
    return node


def null_fields(binder: ExprBinder, node: Any) -> list[n.Expr] | None:
    """What IS NULL asks the fields of: those of a row, or of a relation's; None of what is neither."""
    if is_row(node):
        return [settle(one, binder.params) for one in written_fields(binder, node)]
    named = _named(node)
    if not isinstance(named, exp.Column) or named.args.get("table"):
        return None
    name = identifier(named.this)
    fields = binder.params.record(name)
    if fields is not None:
        return [value for _, value in fields]
    found = binder.scope.relation(name)
    if found is None or binder.scope.has_column(name):
        return _starred(binder, node)
    return [value for _, value in binder.scope.fields_of(found)]


def refused(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    """SqlError 0A000 for a row where only single values can be."""
    raise SqlError("0A000", "a row as a value is not supported")


def _if_there(row: n.RelationRow, found: n.Expr) -> n.Expr:
    """What was made of a relation's row; NULL where an outer join found none."""
    if row.missing is None:
        return found
    there = n.Not(BOOLEAN, row.missing)
    return n.Case(found.type, None, ((there, found),), n.Const(found.type, None))


_WRITTEN_AS_HELD = frozenset({Base.BOOLEAN, Base.CHAR, Base.INET})
"""Types of which a row has another text than a cast gives: ``t`` for true, and CHAR's blanks."""


def _text(binder: ExprBinder, fields: Iterable[n.Expr]) -> n.Expr:
    args = [
        one if one.type.base in _WRITTEN_AS_HELD else coerce(one, TEXT, "explicit", binder.params)
        for one in fields
    ]
    found = library_call("row_as_text", args, binder.params)
    assert found is not None
    return found


def _whole(binder: ExprBinder, node: Any) -> n.RelationRow | None:
    """The relation whose name stands where a column's might."""
    if not isinstance(node, exp.Column) or node.args.get("table") or isinstance(node.this, exp.Star):
        return None
    name = identifier(node.this)
    fields = binder.params.record(name)
    return binder.scope.row(name) if fields is None else n.RelationRow(fields, None)


def _document(binder: ExprBinder, fields: Iterable[tuple[str, n.Expr]]) -> n.Expr:
    args: list[n.Expr] = []
    for name, value in fields:
        args += [n.Const(TEXT, name), value]
    found = library_call("row_as_json", args, binder.params)
    assert found is not None
    return found


def is_document(expr: n.Expr) -> bool:
    """Whether it is what :func:`row_document` made."""
    if isinstance(expr, n.Case):
        return all(is_document(then) for _, then in expr.whens)
    return isinstance(expr, n.Call) and expr.function.name == "row_as_json"


def made(binder: ExprBinder, node: exp.Anonymous) -> n.Expr:
    """A call of one of ``MAKERS``. SqlError 42883."""
    name = str(node.this).lower()
    documents = [row_document(binder, one) for one in node.expressions]
    args = [
        binder.bind(one) if document is None else document
        for one, document in zip(node.expressions, documents, strict=True)
    ]
    if name == "row_to_json" and documents and documents[0] is not None and len(args) == 1:
        name = "to_json"
    found = library_call(name, args, binder.params)
    if found is None:
        raise no_function(name, [arg.type for arg in args])
    return found


def qualified(binder: ExprBinder, node: exp.Dot) -> n.Expr:
    """``(relation).column`` and ``(function(...)).field``; SqlError 42703, 3F000, 0A000."""
    inner = node.this
    if isinstance(inner, exp.Paren) and isinstance(node.expression, exp.Identifier):
        name = identifier(node.expression)
        if _whole(binder, inner.this) is None:
            return _field(binder.bind(inner), name)
        return binder.scope.resolve(identifier(inner.this.this), name)
    if isinstance(inner, exp.Identifier) and isinstance(node.expression, exp.Func):
        raise SqlError("3F000", f'schema "{identifier(inner)}" does not exist')
    raise SqlError("0A000", f"{node.sql('postgres')} is not supported")


def _field(row: n.Expr, name: str) -> n.Expr:
    """A field of what a function of rows gives."""
    names = [field for field, _type in row.type.row]
    if name not in names:
        message = f'column "{name}" not found in data type {row.type.name}'
        raise SqlError("42703" if names else "42809", message)
    place = names.index(name)
    return n.RowField(row.type.row[place][1], row, place, name)
