"""GROUP BY: what is grouped, and what may stand outside aggregates.

An expression is the same as one that is grouped by when their trees are (``expr.nodes.fingerprint``).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.bind.nodes import BoundInnerQuery, GroupItem
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.coerce import settle
from herdpy_sql.expr.scope import Relation, TableRelation
from herdpy_sql.expr.syntax import identifier
from herdpy_sql.types import need_equality

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from herdpy_sql.bind.binder import Binder
    from herdpy_sql.expr.scope import Scope

MAX_SETS = 4096
"""Grouping sets of one GROUP BY, as PostgreSQL has it."""


def bind_group(binder: Binder, node: Any, scope: Scope) -> list[GroupItem] | None:
    """The items of the clause; None without it."""
    group = node.args.get("group")
    if group is None:
        return None
    scope.clause = "GROUP BY"
    if group.args.get("totals"):
        raise SqlError("0A000", "this form of GROUP BY is not supported")
    listed = [*group.expressions]
    for key in ("grouping_sets", "rollup", "cube"):
        listed += group.args.get(key) or []
    if group.args.get("all") is False:  # GROUP BY DISTINCT
        listed = different(listed)
    return [_item(binder, node, item, scope) for item in listed]


def different(items: list[Any]) -> list[Any]:
    """GROUP BY DISTINCT as GROUPING SETS, of which none stands twice."""
    if not any(isinstance(item, exp.GroupingSets | exp.Rollup | exp.Cube) for item in items):
        return items
    found: dict[frozenset[str], Any] = {}
    for chosen in itertools.product(*(_sets(item) for item in items)):
        kept = {node.sql("postgres"): node for part in chosen for node in part}
        found.setdefault(frozenset(kept), exp.Tuple(expressions=[node.copy() for node in kept.values()]))
        if len(found) > MAX_SETS:
            raise SqlError("54011", f"too many grouping sets present (maximum {MAX_SETS})")
    return [exp.GroupingSets(expressions=list(found.values()))]


def _sets(item: Any) -> list[list[Any]]:
    """The grouping sets of one item: lists of expressions."""
    if isinstance(item, exp.GroupingSets):
        return [one for part in item.expressions for one in _sets(part)]
    if isinstance(item, exp.Rollup):
        parts = [_sets(part)[0] for part in item.expressions]
        return [_flattened(parts[:count]) for count in range(len(parts), -1, -1)]
    if isinstance(item, exp.Cube):
        parts = [_sets(part)[0] for part in item.expressions]
        if len(parts) > 12:
            raise SqlError("54011", "CUBE is limited to 12 elements")
        some = [itertools.combinations(parts, count) for count in range(len(parts), -1, -1)]
        return [_flattened(one) for of_length in some for one in of_length]
    return [list(item.expressions) if isinstance(item, exp.Tuple) else [item]]


def _flattened(parts: Sequence[list[Any]]) -> list[Any]:
    return [node for part in parts for node in part]


_WORDS: dict[type, str] = {exp.GroupingSets: "GROUPING SETS", exp.Rollup: "ROLLUP", exp.Cube: "CUBE"}


def _item(binder: Binder, node: Any, item: Any, scope: Scope) -> GroupItem:
    word = _WORDS.get(type(item), "")
    if word or isinstance(item, exp.Tuple):
        return GroupItem(word, tuple([_item(binder, node, part, scope) for part in item.expressions]))
    return GroupItem(expr=_expression(binder, node, item, scope))


def _expression(binder: Binder, node: Any, item: Any, scope: Scope) -> n.Expr:
    inner = item
    while isinstance(inner, exp.Paren):
        inner = inner.this
    found: n.Expr | None = None
    if isinstance(inner, exp.Literal) and not inner.is_string and str(inner.this).isdigit():
        place = int(inner.this)
        outputs = _flat(node, scope)
        if not 1 <= place <= len(outputs):
            raise SqlError("42P10", f"GROUP BY position {place} is not in select list")
        inner = outputs[place - 1]
        found = inner if isinstance(inner, n.Expr) else None
    elif isinstance(inner, exp.Column) and not inner.args.get("table"):
        inner = _aliased(node, inner, scope)
    if found is None:
        found = binder.tree(inner, scope)
    binder.note("Group by:", found)
    found = settle(found, binder.params)
    need_equality(found.type)
    return found


def _aliased(node: Any, column: exp.Column, scope: Scope) -> Any:
    """What a bare name means: an input column goes before an output column of the same name."""
    name = identifier(column.this)
    if any(part.find(name) for part in scope.star):
        return column
    for one in node.expressions:
        if isinstance(one, exp.Alias) and identifier(one.args["alias"]) == name:
            return one.this
    return column


def _flat(node: Any, scope: Scope) -> list[Any]:
    """Output expressions with stars expanded, for ordinals: syntax, and trees of the columns of a star."""
    out: list[Any] = []
    for item in node.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        if isinstance(inner, exp.Star):
            out += [expr for _, expr in scope.starred()]
        elif isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star):
            out += [expr for _, expr in scope.starred(identifier(inner.args["table"]))]
        else:
            out.append(inner)
    return out


# ---------------------------------------------------------------------------- what is not grouped


def fixed_columns(
    scope: Scope, items: Sequence[GroupItem] | None, exprs: Iterable[n.Expr]
) -> list[n.ColumnRef]:
    """Columns to group by as well, because a grouped primary key determines them.

    Args:
        exprs: all that stands outside of GROUP BY and WHERE.

    Raises:
        SqlError: 42803 for a column that is neither grouped nor in an aggregate.
    """
    groups = {n.fingerprint(one) for item in items or () for one in item.expressions()}
    simple = all(item.is_plain for item in items or ())
    extra: dict[int, n.ColumnRef] = {}
    for expr in exprs:
        for column in _ungrouped(expr, groups, scope):
            relation = scope.numbering.relation_of(column.index)
            if column.index in extra:
                continue
            if not (simple and _is_keyed(relation, groups)):
                raise _not_grouped(scope, column)
            extra[column.index] = column
    return list(extra.values())


def _ungrouped(expr: n.Expr, groups: set[Hashable], scope: Scope) -> Iterator[n.ColumnRef]:
    """The SELECT's columns outside of aggregates and of what is grouped by."""
    stack = [expr]
    while stack:
        one = stack.pop()
        if groups and _is_grouped(one, groups):
            continue
        if isinstance(one, n.ColumnRef):
            if scope.is_own(one):
                yield one
        elif isinstance(one, n.Grouping):
            _check_grouping(one, groups)
        elif isinstance(one, n.Subquery) and isinstance(one.query, BoundInnerQuery):
            inner = sorted(one.query.query.outer, key=lambda column: column.index)
            stack += [*inner, *n.children(one)]
        elif isinstance(one, n.Window) and one.args and isinstance(one.args[0], n.Aggregate):
            stack += [*n.children(one)[1:], *n.children(one.args[0])]
        elif not isinstance(one, n.Aggregate):
            stack += reversed(n.children(one))


def _is_grouped(expr: n.Expr, groups: set[Hashable]) -> bool:
    if isinstance(expr, n.In | n.Like) and expr.negated:
        expr = n.opposite(expr)
    return n.fingerprint(expr) in groups


def _check_grouping(expr: n.Grouping, groups: set[Hashable]) -> None:
    if not all(_is_grouped(arg, groups) for arg in expr.args):
        raise SqlError(
            "42803", "arguments to GROUPING must be grouping expressions of the associated query level"
        )


def _is_keyed(relation: Relation, groups: set[Hashable]) -> bool:
    """Whether a table's primary key is grouped by."""
    if not isinstance(relation, TableRelation) or not relation.table.key or relation.table.has_hidden_key:
        return False
    keys = [relation.column(position) for position in relation.table.key_positions]
    return all(n.fingerprint(key) in groups for key in keys)


def _not_grouped(scope: Scope, column: n.ColumnRef) -> SqlError:
    """42803 in PostgreSQL's words."""
    name = f"{column.table}.{column.name}" if column.table else column.name
    return SqlError(
        "42803", f'column "{name}" must appear in the GROUP BY clause or be used in an aggregate function'
    )


def has_aggregate(expr: n.Expr) -> bool:
    """Whether an aggregate of the SELECT's rows is in the tree, or GROUPING; one over a window is none."""
    stack = [expr]
    while stack:
        one = stack.pop()
        if isinstance(one, n.Aggregate | n.Grouping):
            return True
        if isinstance(one, n.Window) and one.args and isinstance(one.args[0], n.Aggregate):
            stack += [*n.children(one)[1:], *n.children(one.args[0])]
        else:
            stack += n.children(one)
    return False
