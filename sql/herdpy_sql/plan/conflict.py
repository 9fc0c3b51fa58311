"""ON CONFLICT: which unique keys decide, and what becomes of the row that has one already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.collations import check_stored
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.change import row_mode
from herdpy_sql.execute.conflict import Arbiter, Change, IndexArbiter, KeyArbiter, OnConflict
from herdpy_sql.expr import NotOwn, Params, compile_expr, split_conjuncts
from herdpy_sql.plan.assignment import assignments, own_assign
from herdpy_sql.plan.expression_index import implies, indexed_expression, substituted
from herdpy_sql.plan.rules import rules_of
from herdpy_sql.plan.scope import TableScope, name_of
from herdpy_sql.plan.select import condition
from herdpy_sql.plan.text import expr_text
from herdpy_sql.types import TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.base import Compiled

_KNOWN = {"expressions", "action", "conflict_keys", "constraint", "where", "index_predicate"}


def bind_conflict(node: exp.OnConflict, table: Table, alias: str, params: Params) -> OnConflict:
    """What ON CONFLICT asks for.

    Raises:
        SqlError: 42P10 when no unique key fits, 42704 for an unknown constraint, 42601 for DO UPDATE
            without either, and what the expressions of DO UPDATE raise.
    """
    for key, value in node.args.items():
        if value and key not in _KNOWN:
            raise SqlError("0A000", f"ON CONFLICT: {key.rstrip('_').upper()} is not supported")
    arbiters = _arbiters(node, table)
    updates = str(node.args.get("action")).upper() == "DO UPDATE"
    if not updates:
        return OnConflict(table, arbiters, None, rules_of(table))
    if not node.args.get("conflict_keys") and not node.args.get("constraint"):
        raise SqlError(
            "42601",
            "ON CONFLICT DO UPDATE requires inference specification or constraint name",
            hint="For example, ON CONFLICT (column_name).",
        )
    scope = TableScope()
    scope.add(alias, table)
    scope.add("excluded", table)
    try:
        assign = own_assign(table, assignments(node, table), scope, params)
        where = node.args.get("where")
        filtered = condition(where.this, scope, params, "WHERE") if where is not None else None
    except NotOwn as refusal:
        raise SqlError("0A000", f"ON CONFLICT DO UPDATE: {refusal.reason} is not supported") from None
    change = Change(
        assign,
        None if filtered is None else compile_expr(filtered),
        "" if filtered is None else expr_text(filtered),
        row_mode(table, {position for position, _ in assign}),
    )
    return OnConflict(table, arbiters, change, rules_of(table))


def bind_upsert(table: Table, targets: Sequence[int]) -> OnConflict:
    """What UPSERT does: the row that has the key takes over the columns ``targets`` of the proposed one."""
    arbiters = () if table.has_hidden_key else (KeyArbiter(table),)
    assign = tuple(
        (position, _proposed(len(table.columns) + position))
        for position in targets
        if position not in table.key_positions and table.columns[position].generated is None
    )
    mode = row_mode(table, {position for position, _ in assign})
    return OnConflict(table, arbiters, Change(assign, None, "", mode), rules_of(table))


def _proposed(place: int) -> Compiled:
    return lambda row, params, clock: row[place]


def _arbiters(node: exp.OnConflict, table: Table) -> tuple[Arbiter, ...]:
    every: list[tuple[Arbiter, frozenset[int], bool]] = []
    if not table.has_hidden_key:
        every.append((KeyArbiter(table), frozenset(table.key_positions), True))
    for index in table.indexes:
        if index.unique:
            columns = frozenset(part.position for part in index.parts)
            every.append((IndexArbiter(table, index), columns, index.constraint))
    constraint = node.args.get("constraint")
    if constraint is not None:
        name = name_of(constraint)
        found = [one for one, _, is_constraint in every if is_constraint and one.name == name]
        if not found:
            raise SqlError(
                "42704", f'constraint "{name}" for table "{table.name}" does not exist', constraint=name
            )
        return tuple(found)
    keys = node.args.get("conflict_keys")
    if not keys:
        return tuple(one for one, _, _ in every)
    wanted = frozenset(_position(table, key) for key in keys)
    covers = _covers(node, table)
    found = [one for one, columns, _ in every if columns == wanted and covers(one)]
    if not found:
        raise SqlError(
            "42P10", "there is no unique or exclusion constraint matching the ON CONFLICT specification"
        )
    return tuple(found)


def _covers(node: exp.OnConflict, table: Table) -> Callable[[Arbiter], bool]:
    """Whether a unique index has all rows, or at least those that the WHERE of the keys is true of."""
    scope = TableScope()
    item = scope.add(table.name, table)
    where = node.args.get("index_predicate")
    given = () if where is None else split_conjuncts(condition(where.this, scope, Params(), "WHERE"))
    given = tuple(substituted(given, [item]))
    return lambda one: isinstance(one, KeyArbiter) or implies(item, one.index, given)


def _position(table: Table, node: exp.Expression) -> int:
    """The column that an item of ON CONFLICT (...) names."""
    if isinstance(node, exp.Ordered):
        if node.args.get("desc") is not None:
            raise SqlError("42P10", "ASC/DESC is not allowed in ON CONFLICT clause")
        node = node.this
    if isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Opclass):
        raise SqlError("0A000", "ON CONFLICT: operator classes are not supported")
    if isinstance(node, exp.Collate):
        check_stored(node.expression, TEXT)
        return _position(table, node.this)
    if not isinstance(node, exp.Column) or node.args.get("table"):
        indexed = indexed_expression(table, node)
        if indexed is not None:
            return indexed
        raise SqlError(
            "42P10", "there is no unique or exclusion constraint matching the ON CONFLICT specification"
        )
    name = name_of(node.this)
    position = table.positions.get(name)
    if position is None or table.columns[position].hidden:
        raise SqlError("42703", f'column "{name}" does not exist', column=name)
    return position
