"""Parameters and casts in queries over the catalog; what names and ids mean."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr.coerce import MAX_PARAMS
from herdpy_sql.system import calls, casts
from herdpy_sql.system.advisory import NAMES
from herdpy_sql.system.rewrite_lists import list_of
from herdpy_sql.system.rewriter import Rewriter, handles
from herdpy_sql.system_relations import column_types
from herdpy_sql.types import BIGINT, BOOLEAN, INTEGER, OIDS, SMALLINT, TEXT, TIMESTAMPTZ, SqlType, array_of

_TYPES = {
    "oid": BIGINT, "xid": BIGINT, "int8": BIGINT, "int4": INTEGER, "int2": SMALLINT, "bool": BOOLEAN,
    "timestamptz": TIMESTAMPTZ,
}  # fmt: skip


@handles(exp.Parameter)
def _parameter(rewriter: Rewriter, node: Any) -> exp.Expression:
    text = str(node.this.this if isinstance(node.this, exp.Expression) else node.this)
    if not (text.isascii() and text.isdigit()):
        raise SqlError("42601", f'syntax error at or near "{node.sql("postgres")}"')
    number = int(text) if len(text) < 9 else 10**9
    if not 1 <= number <= MAX_PARAMS:
        raise SqlError("42P02", f"there is no parameter ${number}")
    return rewriter.parameter(number, _wanted(node))


def _wanted(node: exp.Expression) -> SqlType:
    """The type that a parameter's place asks for."""
    parent: Any = node.parent
    while isinstance(parent, exp.Paren):
        node, parent = parent, parent.parent
    if isinstance(parent, exp.Limit | exp.Offset):
        return BIGINT
    if isinstance(parent, exp.Anonymous) and str(parent.this).lower() in NAMES:
        return BIGINT if len(parent.expressions) == 1 else INTEGER
    if isinstance(parent, exp.Cast):
        element = casts.element_name(parent.args["to"])
        if element is not None:
            return OIDS if element == "oid" else array_of(_named(element))
        return _TYPES.get(casts.target_name(parent.args["to"]) or "", _standard(parent.args["to"]))
    if isinstance(parent, exp.Any) and isinstance(parent.parent, exp.Binary):
        other = parent.parent.this
        if isinstance(other, exp.Column) and other.name in column_types():
            return array_of(_TYPES.get(column_types()[other.name], TEXT))
        return TEXT
    if isinstance(parent, exp.Binary | exp.In):
        other = parent.this if parent.this is not node else parent.args.get("expression")
        if isinstance(other, exp.Column):
            return _TYPES.get(column_types().get(other.name, "text"), TEXT)
        if isinstance(other, exp.Anonymous):
            kind = calls.VALUES.get(str(other.this).lower(), ("", ""))[1]
            return {"INTEGER": INTEGER, "BOOLEAN": BOOLEAN, "TIMESTAMPTZ": TIMESTAMPTZ}.get(kind, TEXT)
    return TEXT


def _named(name: str) -> SqlType:
    plain = {"integer": INTEGER, "int": INTEGER, "bigint": BIGINT, "smallint": SMALLINT, "boolean": BOOLEAN}
    return _TYPES.get(name) or plain.get(name, TEXT)


def _standard(to: Any) -> SqlType:
    names = {"INT": INTEGER, "BIGINT": BIGINT, "SMALLINT": SMALLINT, "BOOLEAN": BOOLEAN}
    return names.get(getattr(getattr(to, "this", None), "name", ""), TEXT)


@handles(exp.Cast)
def _cast(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    to, inner = node.args["to"], node.this
    kind = casts.id_kind(to)
    if kind is not None:
        return _id_cast(rewriter, node, kind)
    elements = casts.array_literal(inner)
    nested = isinstance(to, exp.DataType) and to.args.get("nested")
    if elements is not None and (nested or casts.element_name(to) is not None):
        node.set("this", list_of(elements, number=False))
    if isinstance(inner, exp.Literal) and casts.target_name(to) in ("regproc", "regprocedure"):
        kind = str(casts.target_name(to)).removeprefix("reg")
        return rewriter.template(f"s_procedure('{kind}', CAST(:1 AS VARCHAR), 'cast', $s_asked)", inner)
    new = casts.duck_cast_type(to)
    if isinstance(inner, exp.Column) and new.sql("duckdb") == "TEXT" and _is_array(inner):
        return rewriter.template("'{' || array_to_string(:1, ',') || '}'", inner)
    if new is not to:
        node.set("to", new)
    return None


def _is_array(column: exp.Column) -> bool:
    return column_types().get(column.name, "").endswith("[]")


_ID = "s_resolve('{}', CAST(:1 AS VARCHAR), 'cast', $s_asked)"


def _id_cast(rewriter: Rewriter, node: Any, kind: str) -> exp.Expression:
    inner = node.this
    is_named = isinstance(inner, exp.Literal | exp.Subquery) or casts.is_text(inner)
    if is_named or inner.find(exp.Parameter):  # a subquery gives names or ids, and digits are an id
        inner = rewriter.template(_ID.format(kind), inner)
    return rewriter.template(calls.NAMES_OF_IDS[kind], inner) if casts.wants_name(node) else inner
