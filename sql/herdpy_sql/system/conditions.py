"""Conditions of CHECK as PostgreSQL prints them: with the casts that it puts in, operators and parentheses.

Beside ``definitions``. What is written here is the common: columns, literals, comparisons, AND, OR, NOT, IS
NULL, BETWEEN, IN, LIKE, casts and a few functions. Of all else there is no text (None), and the condition is
shown as it was kept. Source of the forms: PostgreSQL 15, src/backend/utils/adt/ruleutils.c.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr.typenames import sql_type
from herdpy_sql.plan.rules import scalar
from herdpy_sql.types import FACTS, Base, SqlType
from herdpy_sql.values import from_text, to_text

if TYPE_CHECKING:
    from herdpy_sql.catalog import Table

_COMPARISONS: dict[type, str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_INTEGERS = (Base.SMALLINT, Base.INTEGER, Base.BIGINT)
_STRINGS = (Base.TEXT, Base.VARCHAR)
_CALLS: dict[type, tuple[str, Base]] = {
    exp.Lower: ("lower", Base.TEXT), exp.Upper: ("upper", Base.TEXT), exp.Length: ("length", Base.INTEGER),
}  # fmt: skip


class _Other(Exception):  # noqa: N818 - a signal within this module
    """Something that is not printed here."""


def condition_text(table: Table, condition: str, *, pretty: bool) -> str | None:
    """The condition between the parentheses of CHECK; ``pretty`` leaves out those that are not needed."""
    try:
        text = _Printer(table, pretty).condition(scalar(condition), top=True)
    except (_Other, SqlError, RecursionError):  # of a condition of a thousand parts
        return None
    return text


def expression_text(table: Table, text: str) -> str:
    """An expression of a generated column or an index, in parentheses unless it is a call or a column."""
    found = condition_text(table, text, pretty=False)
    if found is not None:
        return found
    node = scalar(text)
    while isinstance(node, exp.Paren):
        node = node.this
    plain = node.sql("postgres", normalize_functions="lower")
    if isinstance(node, exp.Column) or (isinstance(node, exp.Func) and _CALL.match(plain)):
        return plain
    return f"({plain})"


_CALL = re.compile(r"\w+\(.*\)\Z", re.DOTALL)


class _Printer:
    def __init__(self, table: Table, pretty: bool) -> None:
        self._table = table
        self._pretty = pretty

    def condition(self, node: Any, *, top: bool = False) -> str:
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.And | exp.Or):
            word = "AND" if isinstance(node, exp.And) else "OR"
            parts = [self.condition(part) for part in _flat(node, type(node))]
            text = f" {word} ".join(parts)
            return text if self._pretty and top else f"({text})"
        if isinstance(node, exp.Not):
            inner = node.this
            while isinstance(inner, exp.Paren):
                inner = inner.this
            if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
                return self._wrapped(f"{self._operand(inner.this)[0]} IS NOT NULL")
            return self._wrapped(f"NOT {self.condition(inner)}")
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            word = "IS NOT NULL" if node.args.get("negate") else "IS NULL"
            return self._wrapped(f"{self._operand(node.this)[0]} {word}")
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            low = self._compared(node.this, ">=", node.args["low"])
            high = self._compared(node.this, "<=", node.args["high"])
            text = f"{low} AND {high}"
            return text if self._pretty and top else f"({text})"
        if isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
            return self._in(node)
        if isinstance(node, exp.Like):
            return self._compared(node.this, "~~", node.expression)
        if type(node) in _COMPARISONS:
            return self._compared(node.this, _COMPARISONS[type(node)], node.expression)
        text, found = self._operand(node)
        if found.base is not Base.BOOLEAN:
            raise _Other
        return text

    def _wrapped(self, text: str) -> str:
        return text if self._pretty else f"({text})"

    def _in(self, node: Any) -> str:
        left, found = self._operand(node.this)
        if found.base in _STRINGS:
            if found.base is Base.VARCHAR:
                raise _Other  # the casts of its array are of several kinds
            items = [self._literal(item, found) for item in node.expressions]
        elif found.base is Base.INTEGER:
            items = [self._literal(item, found) for item in node.expressions]
        else:
            raise _Other
        return self._wrapped(f"{left} = ANY (ARRAY[{', '.join(items)}])")

    def _compared(self, a: Any, symbol: str, b: Any) -> str:
        while isinstance(a, exp.Paren):
            a = a.this
        while isinstance(b, exp.Paren):
            b = b.this
        if _is_literal(a) and _is_literal(b):
            raise _Other
        if _is_literal(a):
            right, found = self._text_operand(b)
            left = self._literal(a, found)
        elif _is_literal(b):
            left, found = self._text_operand(a)
            right = self._literal(b, found)
        else:
            (left, one), (right, two) = self._text_operand(a), self._text_operand(b)
            if one.base is not two.base:
                raise _Other
        return self._wrapped(f"{left} {symbol} {right}")

    def _text_operand(self, node: Any) -> tuple[str, SqlType]:
        """An operand of a comparison: VARCHAR is compared as TEXT."""
        text, found = self._operand(node)
        if found.base is Base.VARCHAR:
            return self._cast(text, "text"), SqlType(Base.TEXT)
        return text, SqlType(found.base)

    def _operand(self, node: Any) -> tuple[str, SqlType]:
        from herdpy_sql.quoting import quote_ident

        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
            name = str(node.this.this) if node.this.args.get("quoted") else str(node.this.this).lower()
            position = self._table.positions.get(name)
            if position is None:
                raise _Other
            return quote_ident(name), self._table.columns[position].type
        if isinstance(node, exp.Cast):
            inner, _ = self._operand(node.this)
            target = sql_type(node.args["to"])
            return self._cast(inner, str(target)), target
        call = _CALLS.get(type(node))
        if call is not None:
            inner, found = self._operand(node.this)
            if found.base is Base.VARCHAR:
                inner = self._cast(inner, "text")
            elif found.base is not Base.TEXT:
                raise _Other
            return f"{call[0]}({inner})", SqlType(call[1])
        raise _Other

    def _cast(self, text: str, to: str) -> str:
        return f"{text}::{to}" if self._pretty and not text.startswith("-") else f"({text})::{to}"

    def _literal(self, node: Any, like: SqlType) -> str:
        """A literal that is compared with a value of a type."""
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
            return f"{_quoted(node.this)}::{sql_type(node.args['to'])}"
        if isinstance(node, exp.Literal) and node.is_string:
            if like.base in _STRINGS:
                return f"{_quoted(node)}::text"
            return f"{_constant(node, like)}::{like}"
        negative = isinstance(node, exp.Neg)
        number = node.this if negative else node
        if not isinstance(number, exp.Literal) or number.is_string:
            raise _Other
        digits = str(number.this)
        if like.base in _INTEGERS and digits.isdigit() and int(digits) < 2**31:
            return f"'-{digits}'::integer" if negative else digits
        if negative:
            raise _Other
        if like.base is Base.NUMERIC:
            return self._cast(digits, "numeric") if digits.isdigit() else digits
        if like.base is Base.DOUBLE:
            return (
                self._cast(digits, "double precision")
                if digits.isdigit()
                else f"'{digits}'::numeric::double precision"
            )
        raise _Other


def _is_literal(node: Any) -> bool:
    if isinstance(node, exp.Neg | exp.Cast):
        node = node.this
    return isinstance(node, exp.Literal)


def _constant(node: Any, like: SqlType) -> str:
    """A string literal that is read as a value of the type."""
    category = FACTS[like.base].category
    if category == "D":  # the zone of the session that reads it may matter
        return _quoted(node)
    if category not in {"T", "U"}:
        raise _Other
    return _in_quotes(to_text(like)(from_text(like)(str(node.this))))


def _quoted(node: Any) -> str:
    return _in_quotes(str(node.this))


def _in_quotes(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _flat(node: Any, kind: type[exp.Expression]) -> list[Any]:
    if isinstance(node, exp.Paren):
        return _flat(node.this, kind)
    if not isinstance(node, kind):
        return [node]
    return [*_flat(node.args["this"], kind), *_flat(node.args["expression"], kind)]
