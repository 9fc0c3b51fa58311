"""Indexes on expressions, and partial ones: hidden generated columns, and ordinary indexes over those.

What is indexed is stored with each row, so that the store needs to compute nothing. A condition or an order
that says the same expression is about that column; and an index that has only the rows of a condition is a
way to rows where the statement asks for that condition, or for more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import Column
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import NotOwn, Params, bind, coerce, rebuild, settle, split_conjuncts
from herdpy_sql.expr.nodes import Between, ColumnRef, Comparison, Const, In, IsNull, Like
from herdpy_sql.plan.rules import is_immutable, scalar
from herdpy_sql.plan.scope import TableScope
from herdpy_sql.types import BOOLEAN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from herdpy_sql.catalog import Index, Table
    from herdpy_sql.execute.alter_table import TableChange
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.plan.scope import ScopeItem
    from herdpy_sql.types import SqlType


def expression_column(change: TableChange, node: exp.Expression) -> int:
    """The hidden column that has an indexed expression, made if there is none; where it stands."""
    found = settle(_bound(change.table, node, "index expressions"), Params())
    return _column(change, node, found)


def predicate_column(change: TableChange, node: exp.Expression) -> int:
    """The hidden column that is true of the rows of a partial index, made if there is none."""
    found = _bound(change.table, node, "index predicates")
    if found.type != BOOLEAN:
        try:
            found = coerce(found, BOOLEAN, "implicit", Params())
        except SqlError:
            raise SqlError(
                "42804", f"argument of WHERE must be type boolean, not type {found.type}"
            ) from None
    return _column(change, node, found)


def _bound(table: Table, node: exp.Expression, what: str) -> Expr:
    if node.find(exp.Subquery, exp.Select):
        raise SqlError("0A000", f"cannot use subquery in {what.removesuffix('s')}")
    if node.find(exp.Rand, exp.Uuid):
        raise _not_immutable(what)
    if node.find(exp.AggFunc):
        raise SqlError("42803", f"aggregate functions are not allowed in {what}")
    if node.find(exp.Window):
        raise SqlError("42P20", f"window functions are not allowed in {what}")
    scope, params = TableScope(volatile=True), Params()
    scope.add(table.name, table)
    try:
        found = bind(node, scope, params)
    except NotOwn as refusal:
        raise SqlError("0A000", f"{what.removesuffix('s')}: {refusal.reason} is not supported") from None
    if len(params.types):
        raise SqlError("42P02", "there is no parameter $1")
    if not is_immutable(found):
        raise _not_immutable(what)
    return found


def _not_immutable(what: str) -> SqlError:
    kind = what.removesuffix("s").removeprefix("index ")
    return SqlError("42P17", f"functions in index {kind} must be marked IMMUTABLE")


def _column(change: TableChange, node: exp.Expression, found: Expr) -> int:
    text = node.sql("postgres", normalize_functions="lower")
    for position, column in enumerate(change.table.columns):
        if column.hidden and not column.dropped and column.generated == text:
            return position
    name = f"__expr_{len(change.table.columns)}"
    change.rewritten = True
    return change.add_column(Column(name, found.type, hidden=True, generated=text))


def expression_type(table: Table, position: int) -> SqlType:
    """The type that the expression of a hidden column has. SqlError when it has none any more."""
    text = table.columns[position].generated
    assert text is not None
    return settle(_bound(table, scalar(text), "index expressions"), Params()).type


def indexed_expression(table: Table, node: exp.Expression) -> int | None:
    """The hidden column that has this expression; None when no index is on it."""
    try:
        wanted = settle(_bound(table, node, "index expressions"), Params())
    except SqlError:
        return None
    scope = TableScope()
    item = scope.add(table.name, table)
    return next((at for at in _hidden_parts(table) if _over(item, at) == wanted), None)


# What the planner asks.


def substituted(conditions: Iterable[Expr], items: Sequence[ScopeItem]) -> list[Expr]:
    """The expressions over the hidden columns of indexes, where they say what those have."""
    known = {expr: ref for item in items for expr, ref in _indexed(item)}
    if not known:
        return list(conditions)
    return [rebuild(one, lambda part: known.get(part)) for one in conditions]


def has_expressions(items: Sequence[ScopeItem]) -> bool:
    """Whether a table among them has an index on an expression."""
    return any(_hidden_parts(item.table) for item in items)


def _hidden_parts(table: Table) -> tuple[int, ...]:
    """The positions of the expressions that indexes have; kept with the table."""
    found = table.derived.get("indexed expressions")
    if found is None:
        parts = {part.position for index in table.indexes for part in index.parts}
        found = tuple(at for at in sorted(parts) if table.columns[at].hidden and table.columns[at].generated)
        table.derived["indexed expressions"] = found
    return found  # type: ignore[return-value]


def _indexed(item: ScopeItem) -> list[tuple[Expr, ColumnRef]]:
    """The expressions that indexes of a table have, over the wide row, and the columns for them."""
    return [(_over(item, position), item.column(position)) for position in _hidden_parts(item.table)]


def _over(item: ScopeItem, position: int) -> Expr:
    """The expression of a hidden column over the wide row of a statement."""
    table = item.table
    found = table.derived.get(f"expression {position}")
    if found is None:
        text = table.columns[position].generated
        assert text is not None
        scope = TableScope()
        scope.add(table.name, table)
        found = settle(bind(scalar(text), scope, Params()), Params())
        table.derived[f"expression {position}"] = found
    return rebuild(
        found,  # type: ignore[arg-type]
        lambda part: item.column(part.index) if isinstance(part, ColumnRef) else None,
    )


def implies(item: ScopeItem, index: Index, conditions: Sequence[Expr]) -> bool:
    """Whether the rows that satisfy ``conditions`` are all in a partial index; true of any other index."""
    if index.predicate is None:
        return True
    wanted = substituted(split_conjuncts(_over(item, index.predicate)), [item])
    return all(any(_says(one, want) for one in conditions) for want in wanted)


def _says(given: Expr, wanted: Expr) -> bool:
    """Whether ``given`` being true means that ``wanted`` is; False where that is not plain."""
    if given == wanted:
        return True
    if isinstance(wanted, IsNull) and wanted.negated:
        return wanted.arg in _not_null_in(given)
    if isinstance(given, Comparison) and isinstance(wanted, Comparison) and given.left == wanted.left:
        low, high = given.right, wanted.right
        if isinstance(low, Const) and isinstance(high, Const) and low.type == high.type:
            return _ranges(given.op, low.value, wanted.op, high.value)
    return False


def _not_null_in(given: Expr) -> list[Expr]:
    """What cannot be NULL where the condition is true."""
    if isinstance(given, Comparison):
        return [given.left, given.right]
    return [given.arg] if isinstance(given, In | Between | Like) else []


def _ranges(op: str, value: object, wanted_op: str, bound: object) -> bool:
    """Whether ``x op value`` means ``x wanted_op bound``, both known and of one type."""
    if value is None or bound is None or isinstance(value, float):
        return False
    try:
        below, above, same = value < bound, value > bound, value == bound  # type: ignore[operator]
    except TypeError:
        return False
    match wanted_op:
        case "<":
            return (op in {"=", "<", "<="} and below) or (op == "<" and same)
        case "<=":
            return op in {"=", "<", "<="} and (below or same)
        case ">":
            return (op in {"=", ">", ">="} and above) or (op == ">" and same)
        case ">=":
            return op in {"=", ">", ">="} and (above or same)
        case "<>":
            return (
                (op == "=" and not same)
                or (op == "<" and (below or same))
                or (op == "<=" and below)
                or (op == ">" and (above or same))
                or (op == ">=" and above)
            )
    return False
