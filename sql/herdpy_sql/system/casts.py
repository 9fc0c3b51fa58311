"""Casts in queries over the catalog: to regclass and its relatives, to name and oid, to arrays.

PostgreSQL's regclass is an id that is written as a name. DuckDB has no such thing, so the place decides:
a name that is cast becomes the id; an id that is cast becomes the name where it is shown, made text or
concatenated, and stays an id where it is compared.
"""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr.typenames import ENUM, builtin
from herdpy_sql.system_relations import column_types
from herdpy_sql.types import EnumType
from herdpy_sql.values.reg_types import REG_TYPES

_ID_TYPES = {"regclass": "class", "regtype": "type", "regnamespace": "namespace", "regrole": "role"}
_DUCK = {
    "text": "VARCHAR", "name": "VARCHAR", "char": "VARCHAR", "varchar": "VARCHAR", "bpchar": "VARCHAR",
    "cstring": "VARCHAR", "regproc": "VARCHAR", "regprocedure": "VARCHAR", "regoper": "VARCHAR",
    "regoperator": "VARCHAR", "aclitem": "VARCHAR", "xml": "VARCHAR", "json": "VARCHAR", "jsonb": "VARCHAR",
    "inet": "VARCHAR", "pg_node_tree": "VARCHAR", "information_schema.sql_identifier": "VARCHAR",
    "oid": "BIGINT", "xid": "BIGINT", "int8": "BIGINT", "int4": "INTEGER", "int2": "SMALLINT",
    "int": "INTEGER", "integer": "INTEGER", "bigint": "BIGINT", "smallint": "SMALLINT", "bool": "BOOLEAN",
    "boolean": "BOOLEAN", "float4": "FLOAT", "float8": "DOUBLE", "numeric": "DECIMAL(38,10)",
    "timestamptz": "TIMESTAMPTZ", "timestamp": "TIMESTAMP", "date": "DATE", "interval": "INTERVAL",
    "uuid": "UUID", "bytea": "BLOB",
}  # fmt: skip
_TEXTUAL = frozenset({"text", "name", '"char"'})
_ARRAY = re.compile(r"\{.*\}\Z", re.DOTALL)
_ELEMENT = re.compile(r',\s*(?:"((?:[^"\\]|\\.)*)"\s*|((?:[^,\\]|\\.)*))', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def target_name(to: exp.Expression) -> str | None:
    """The PostgreSQL name of a cast's type where sqlglot has none of its own; None for the others."""
    if isinstance(to, exp.ObjectIdentifier):
        return str(to.this).lower()
    if not isinstance(to, exp.DataType):
        return None
    if to.this is exp.DataType.Type.NAME:
        return "name"
    if to.this is not exp.DataType.Type.USERDEFINED:
        return None
    kind = to.args.get("kind")
    while isinstance(kind, exp.Dot):
        kind = kind.expression
    if isinstance(kind, exp.Identifier):
        return str(kind.this) if kind.args.get("quoted") else str(kind.this).lower()
    return str(kind).lower().removeprefix("pg_catalog.").strip('"')


def names_system_type(to: exp.Expression) -> bool:
    """Whether a cast's type is one that only queries over the catalog know: no ENUM, no other user's name."""
    while isinstance(to, exp.DataType) and to.this is exp.DataType.Type.ARRAY and to.expressions:
        to = to.expressions[0]
    name = target_name(to)
    if name is None or to.args.get(ENUM) is not None:
        return False
    found = builtin(to) if isinstance(to, exp.DataType | exp.ObjectIdentifier) else None
    if found is not None and found.base not in REG_TYPES:
        return False
    return name.removeprefix("_") in _DUCK or name in _ID_TYPES


def duck_cast_type(to: exp.Expression) -> exp.Expression:
    """DuckDB's type for a cast's. SqlError 42704 for a type that is not known."""
    if isinstance(to, exp.DataType) and to.this is exp.DataType.Type.ARRAY and to.expressions:
        return exp.DataType(
            this=exp.DataType.Type.ARRAY, expressions=[duck_cast_type(to.expressions[0])], nested=True
        )
    enum = to.args.get(ENUM)
    if enum is not None:
        return duck_enum(enum)
    name = target_name(to)
    if name is None:
        return to
    if name.startswith("_") and name[1:] in _DUCK:
        return exp.DataType.build(f"{_DUCK[name[1:]]}[]", dialect="duckdb")
    if to.args.get(ENUM) is not None:
        raise SqlError("0A000", f'type "{name}" is not supported in queries over the catalog')
    found = _DUCK.get(name)
    if found is None:
        raise SqlError("42704", f'type "{name}" does not exist')
    return exp.DataType.build(found, dialect="duckdb")


def duck_enum(enum: EnumType) -> exp.Expression:
    """DuckDB's type for an ENUM: the same labels in the same order, so that values compare alike."""
    labels: list[exp.Expression] = [exp.Literal.string(label) for label, _place in enum.labels]
    return exp.DataType(this=exp.DataType.Type.ENUM, expressions=labels)


def element_name(to: exp.Expression) -> str | None:
    """PostgreSQL's name of the elements of an array type: "oid" of ``oid[]`` and ``_oid``; None of others."""
    name = target_name(to)
    if name is not None:
        return name[1:] if name.startswith("_") else None
    if isinstance(to, exp.DataType) and to.this is exp.DataType.Type.ARRAY and to.expressions:
        inner = to.expressions[0]
        return target_name(inner) or str(inner.sql("postgres")).lower()
    return None


def id_kind(to: exp.Expression) -> str | None:
    """What an id type is about: "class", "type", "namespace", "role"; None for other types."""
    return _ID_TYPES.get(target_name(to) or "")


def is_text(node: exp.Expression) -> bool:
    """Whether an expression is text, as far as one can see."""
    if isinstance(node, exp.Paren):
        return is_text(node.this)
    if isinstance(node, exp.Literal):
        return bool(node.is_string) and not str(node.this).isdigit()
    if isinstance(node, exp.Column):
        name = node.name
        return column_types().get(name) in _TEXTUAL or name.endswith(("name", "_schema", "l_text"))
    if isinstance(node, exp.Cast):
        kind = target_name(node.args["to"])
        return kind in _TEXTUAL if kind else node.args["to"].this in exp.DataType.TEXT_TYPES
    if isinstance(node, exp.Subquery):  # such as what pg_get_serial_sequence has become
        shown = node.selects[0] if len(node.selects) == 1 else None
        shown = shown.this if isinstance(shown, exp.Min) else shown
        return isinstance(shown, exp.Expression) and is_text(shown)
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in {"quote_ident", "s_quote_ident", "format", "concat"}
    return isinstance(node, exp.DPipe | exp.Concat | exp.Parameter)


def wants_name(node: exp.Expression) -> bool:
    """Whether the place of an id cast shows it: a column of the result, text, an ORDER BY."""
    parent: Any = node.parent
    while isinstance(parent, exp.Paren | exp.Alias | exp.Coalesce | exp.Case | exp.If):
        parent = parent.parent
    if isinstance(parent, exp.Cast):
        return id_kind(parent.args["to"]) is None and target_name(parent.args["to"]) not in {
            "oid",
            "int4",
            "int8",
        }
    if isinstance(parent, exp.Select):
        return True
    return isinstance(
        parent, exp.DPipe | exp.Concat | exp.Ordered | exp.ArrayAgg | exp.GroupConcat | exp.RegexpLike
    )


def array_literal(node: exp.Expression) -> list[str] | None:
    """The elements of a literal like '{a,b}', or None."""
    if not isinstance(node, exp.Literal) or not node.is_string or not _ARRAY.match(str(node.this)):
        return None
    inner = str(node.this)[1:-1]
    if not inner:
        return []
    parts = _ELEMENT.findall("," + inner)
    return [_ESCAPED.sub(r"\1", quoted or bare.strip()) for quoted, bare in parts]
