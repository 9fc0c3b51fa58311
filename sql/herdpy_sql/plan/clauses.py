"""Clauses of a statement, bound over a scope: SELECT list and RETURNING, conditions, LIMIT and OFFSET.

Output columns have PostgreSQL's names. ``project`` gives the function that makes output rows.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Protocol

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn
from herdpy_sql.expr import ColumnScope, NotOwn, Params, bind, coerce, compile_expr, settle, sql_type
from herdpy_sql.expr.nodes import ColumnRef
from herdpy_sql.expr.syntax import named_call
from herdpy_sql.expr.typenames import catalog_name
from herdpy_sql.plan.scope import TableScope, name_of
from herdpy_sql.types import BIGINT, BOOLEAN, Base

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from herdpy_sql.execute.base import Row
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.storage import Clock
    from herdpy_sql.types import SqlType


UNNAMED = "?column?"

# Names that sqlglot makes one class of: told apart by the length of the word, which it remembers.
_FUNCTION_NAMES: dict[type[object], tuple[str, ...]] = {
    exp.AtTimeZone: ("timezone",),
    exp.Ceil: ("ceil", "ceiling"),
    exp.CurrentTimestamp: ("current_timestamp", "now"),
    exp.Exists: ("exists",),
    exp.Extract: ("extract",),
    exp.IntDiv: ("div",),
    exp.Length: ("length", "char_length", "character_length"),
    exp.Mod: ("mod",),
    exp.Pow: ("power", "pow"),
    exp.Rand: ("random",),
    exp.Uuid: ("gen_random_uuid",),
    exp.Substring: ("substring", "substr"),
    exp.TimestampTrunc: ("date_trunc",),
}
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}


def output_columns(outputs: Sequence[tuple[str, Expr]], scope: TableScope) -> tuple[OutputColumn, ...]:
    """What a result with these names and expressions looks like; they are numbered as ``scope`` does."""
    return tuple(
        OutputColumn(name, expr.type, scope.origin(expr.index) if isinstance(expr, ColumnRef) else None)
        for name, expr in outputs
    )


def output_name(node: exp.Expression) -> str:
    """The name that PostgreSQL gives an output column without an alias (FigureColname)."""
    return _figure(node)[0]


def _figure(node: exp.Expression) -> tuple[str, int]:
    """The name and how sure it is: 2 for columns and functions, 1 for casts and CASE, else 0."""
    if isinstance(node, exp.Column):
        return name_of(node.this), 2
    if isinstance(node, exp.Paren | exp.Collate | exp.Bracket):
        return _figure(node.this)
    if isinstance(node, exp.Cast):
        name, strength = _figure(node.this)
        if strength > 1:
            return name, strength
        kind = node.args["to"]
        return _type_name(kind), 1
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        name, strength = _figure(default) if default is not None else (UNNAMED, 0)
        return (name, strength) if strength > 1 else ("case", 1)
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower(), 2
    called = "start" in node.meta
    if isinstance(node, exp.Mod | exp.Pow) and not called:
        return UNNAMED, 0
    if isinstance(node, exp.StrPosition):
        return "strpos" if called else "position", 2
    if isinstance(node, exp.Pad):
        return "lpad" if node.args.get("is_left") else "rpad", 2
    if isinstance(node, exp.Trim):
        return _TRIMS.get(str(node.args.get("position") or "").upper(), "btrim"), 2
    names = _FUNCTION_NAMES.get(type(node))
    if names is not None:
        length = node.meta["end"] - node.meta["start"] + 1 if called else 0
        return next((name for name in names if len(name) == length), names[0]), 2
    if isinstance(node, exp.Func) and not isinstance(node, exp.Binary | exp.Connector):
        known = named_call(node)
        if known is not None and known[0].isidentifier():
            return known[0], 2
        return node.sql_name().lower(), 2
    return UNNAMED, 0


def _type_name(kind: exp.Expression) -> str:
    if isinstance(kind, exp.Interval):
        return "interval"
    try:
        return catalog_name(sql_type(kind))
    except SqlError:  # told, or left to the other engine, where the cast is bound
        return UNNAMED


def project(exprs: Sequence[Expr]) -> Callable[[Row, Row, Clock], Row]:
    """A function that makes an output row: (row, params, clock) -> row."""
    plain = [expr.index for expr in exprs if isinstance(expr, ColumnRef)]
    if len(plain) == len(exprs) and len(plain) > 1:
        pick = operator.itemgetter(*plain)
        return lambda row, params, clock: pick(row)
    if len(plain) == len(exprs) == 1:
        only = plain[0]
        return lambda row, params, clock: (row[only],)
    compiled = [compile_expr(expr) for expr in exprs]
    if len(compiled) == 1:
        single = compiled[0]
        return lambda row, params, clock: (single(row, params, clock),)
    return lambda row, params, clock: tuple([one(row, params, clock) for one in compiled])


def condition(node: exp.Expression, scope: TableScope, params: Params, clause: str) -> Expr:
    """A bound condition; SqlError 42804 when it is not boolean."""
    found = bind(node, scope, params, BOOLEAN)
    if found.type.base is Base.UNKNOWN:
        found = coerce(found, BOOLEAN, "implicit", params)
    if found.type != BOOLEAN:
        raise SqlError("42804", f"argument of {clause} must be type boolean, not type {found.type}")
    return found


class OutputScope(ColumnScope, Protocol):
    """A scope in which a SELECT list can be bound."""

    def star(self, alias: str | None) -> list[ColumnRef]:
        """What ``*`` or ``alias.*`` stands for."""


def bind_outputs(
    nodes: Sequence[exp.Expression],
    scope: OutputScope,
    params: Params,
    targets: Sequence[SqlType] | None = None,
) -> list[tuple[str, Expr]]:
    """The columns of a SELECT list or RETURNING: names and expressions, stars written out.

    ``targets`` are the types that bare literals and parameters take at their places.
    """
    found: list[tuple[str, Expr]] = []

    def bind_as(one: exp.Expression) -> Expr:
        target = targets[len(found)] if targets is not None and len(found) < len(targets) else None
        return settle(bind(one, scope, params, target), params)

    for node in nodes:
        if isinstance(node, exp.Star):
            if any(node.args.values()):
                raise NotOwn("* with EXCEPT or REPLACE")
            found += [(column.name, column) for column in scope.star(None)]
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            found += [(column.name, column) for column in scope.star(name_of(node.args["table"]))]
        elif isinstance(node, exp.Alias):
            found.append((name_of(node.args["alias"]), bind_as(node.this)))
        else:
            found.append((output_name(node), bind_as(node)))
    return found


def limits_of(tree: exp.Select, params: Params) -> tuple[Expr | None, Expr | None]:
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    found: list[Expr | None] = []
    for node in (limit, offset):
        if node is None:
            found.append(None)
            continue
        if isinstance(node, exp.Fetch):
            options = node.args.get("limit_options")
            if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
                raise NotOwn("FETCH with PERCENT or TIES")
            value = node.args.get("count") or exp.Literal.number(1)
        else:
            if node.args.get("offset") or node.args.get("expressions"):
                raise SqlError("42601", "LIMIT #,# syntax is not supported", hint="Use LIMIT and OFFSET.")
            value = node.expression
        if isinstance(value, exp.Var) and str(value.this).upper() == "ALL":
            found.append(None)
            continue
        bound = bind(value, TableScope(), params, BIGINT)
        found.append(coerce(bound, BIGINT, "assignment", params))
    return found[0], found[1]
