"""Bound expressions as text, for EXPLAIN: what the plan holds, not what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.expr import nodes as e
from herdpy_sql.values import to_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from herdpy_sql.expr.nodes import Expr

_PLAIN = {"SMALLINT", "INTEGER", "BIGINT", "REAL", "DOUBLE", "NUMERIC", "BOOLEAN"}


def expr_text(expr: Expr, *, qualified: bool = False) -> str:
    """A readable form of an expression: ``(a > $1) AND (b = 'x')``; ``qualified`` names tables too."""
    return _Writer(qualified=qualified).text(expr)


class _Writer:
    """Writes expressions, with or without the tables of columns."""

    def __init__(self, *, qualified: bool) -> None:
        self.qualified = qualified

    def text(self, expr: Expr) -> str:
        one, listed = self.text, self.listed
        match expr:
            case e.ColumnRef(name=name, table=table):
                return f"{table}.{name}" if self.qualified and table else name
            case e.Const():
                return constant_text(expr)
            case e.SubqueryValues():
                return "rows of subquery"
            case e.Elements(number=number):
                return f"${number}[]"
            case e.Param(number=number):
                return f"${number}"
            case e.Comparison(op=op, left=left, right=right):
                return f"({one(left)} {op} {one(right)})"
            case e.And(args=args):
                return "(" + " AND ".join(map(one, args)) + ")"
            case e.Or(args=args):
                return "(" + " OR ".join(map(one, args)) + ")"
            case e.Not(arg=arg):
                return f"(NOT {one(arg)})"
            case e.IsNull(arg=arg, negated=negated):
                return f"({one(arg)} IS {_not(negated)}NULL)"
            case e.IsTruth(arg=arg, truth=truth, negated=negated):
                return f"({one(arg)} IS {_not(negated)}{'TRUE' if truth else 'FALSE'})"
            case e.In(arg=arg, items=items, negated=negated):
                return f"({one(arg)} {_not(negated)}IN ({listed(items)}))"
            case e.Between(arg=arg, low=low, high=high):
                return f"({one(arg)} BETWEEN {one(low)} AND {one(high)})"
            case e.Like(arg=arg, pattern=pattern, insensitive=insensitive, negated=negated):
                return f"({one(arg)} {_not(negated)}{'I' if insensitive else ''}LIKE {one(pattern)})"
            case e.Quantified(test=test):
                return one(_spelled(expr, test))
            case e.Element():
                return "element"
            case e.Distinct(left=left, right=right, negated=negated):
                return f"({one(left)} IS {_not(negated)}DISTINCT FROM {one(right)})"
            case e.Cast(arg=arg, type=target):
                return f"{one(arg)}::{target}"
            case e.Call(function=function, args=args):
                return self.call(function.name, args)
            case e.Coalesce(args=args):
                return f"coalesce({listed(args)})"
            case _:
                return type(expr).__name__.lower()

    def call(self, name: str, args: tuple[Expr, ...]) -> str:
        """A function with its arguments, or an operator between them."""
        if name[:1].isalpha() or len(args) not in {1, 2}:
            return f"{name}({self.listed(args)})"
        if len(args) == 1:
            return f"({name}{self.text(args[0])})"
        return f"({self.text(args[0])} {name} {self.text(args[1])})"

    def listed(self, items: Iterable[Expr]) -> str:
        """Several, with commas."""
        return ", ".join(map(self.text, items))


def _spelled(expr: e.Quantified, test: Expr) -> Expr:
    """The test of one element, over the operand and ``any(array)`` or ``all(array)``."""
    word = e.Function("all" if expr.every else "any", lambda: None)
    among = e.Call(expr.array.type, word, (expr.array,))
    parts = {e.CaseOperand: expr.arg, e.Element: among}
    return e.rebuild(test, lambda one: parts.get(type(one)))


def _not(negated: bool) -> str:
    return "NOT " if negated else ""


def constant_text(expr: e.Const) -> str:
    """A constant as a literal."""
    if expr.value is None:
        return "NULL"
    if isinstance(expr.value, bool):
        return "true" if expr.value else "false"
    text = to_text(expr.type)(expr.value)
    if expr.type.base.name in _PLAIN and text.lstrip("-")[:1].isdigit():
        return text
    return "'" + text.replace("'", "''") + "'"
