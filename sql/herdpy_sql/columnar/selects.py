"""One SELECT of the columnar engine: its clauses bound in PostgreSQL's order.

FROM comes first and WHERE with it, then GROUP BY, the select list, HAVING, ORDER BY, DISTINCT and LIMIT.
What comes out is ``Parts``: bound, but its columns not yet text, since a set operation or an INSERT above
may still give them types. A bound query names its columns c0, c1, ... and, where the display scale of a
NUMERIC differs from row to row and the reader wants it, s<i> beside c<i>.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from herdpy_sql.catalog import ColumnOrigin
from herdpy_sql.columnar import casts, grouping, names, relations
from herdpy_sql.columnar.binder import Binder
from herdpy_sql.columnar.key_conditions import note_bounds
from herdpy_sql.columnar.limits import Limit, bind_limit
from herdpy_sql.columnar.operators import condition, is_row, order_key
from herdpy_sql.columnar.ordering import column_key, direction_of, output_place
from herdpy_sql.columnar.scalar import from_column
from herdpy_sql.columnar.scope import Col, Scope
from herdpy_sql.columnar.typed import NO_VARS, Typed, Vars, numeric_text, retyped
from herdpy_sql.columnar.typenames import name_of
from herdpy_sql.errors import SqlError


@dataclass(slots=True)
class Bound:
    """A bound query."""

    sql: str
    columns: list[Typed]
    vars: Vars = NO_VARS

    def names(self) -> str:
        """Its columns' names, for an alias list."""
        scales = [f"s{i}" for i, c in enumerate(self.columns) if c.scale_sql is not None]
        return ", ".join([*(f"c{i}" for i in range(len(self.columns))), *scales])


# ---------------------------------------------------------------------------- output


def output_list(outs: Sequence[Typed], mixed: bool) -> tuple[str, list[Typed]]:
    """The select list's text and what the reader of the query sees."""
    items, scales, columns = [], [], []
    for i, given in enumerate(outs):
        out = given
        if out.unknown:
            items.append(f"NULL AS c{i}")
            columns.append(out)
            continue
        if out.scale_sql is not None and mixed:
            items.append(f"{out.sql} AS c{i}")
            scales.append(f"{out.scale_sql} AS s{i}")
            columns.append(out)
            continue
        if out.scale_sql is not None:
            out = retyped(out, numeric_text(out), out.type)
        items.append(f"{out.sql} AS c{i}")
        columns.append(out)
    return ", ".join(items + scales), columns


@dataclass(slots=True)
class Parts:
    """A SELECT bound, its output expressions not yet rendered (a set operation may retype them)."""

    binder: Binder
    node: Any
    scope: Scope
    outs: list[Typed]
    body: str
    order: list[tuple[str, int | None, Typed | None]]
    distinct: bool
    distinct_on: list[str]
    limit: Limit

    def render(self, outs: list[Typed], mixed: bool) -> Bound:
        """The DuckDB text with these outputs."""
        text, columns = output_list(outs, mixed)
        keyed = any(o.is_text_numeric for o in columns)
        order = ", ".join(self._order_item(item, columns) for item in self.order)
        tail = f" ORDER BY {order}" if order else ""
        if self.distinct and keyed:
            inner = f"SELECT {text} FROM {self.body}" if self.body else f"SELECT {text}"
            alias = self.binder.alias()
            bound = Bound(inner, columns)
            keys = ", ".join(column_key(alias, i, c) for i, c in enumerate(columns))
            order = ", ".join(
                f"{column_key(alias, place, columns[place])}{direction}"
                for direction, place, _ in self.order
                if place is not None
            )
            inner = f"SELECT DISTINCT ON ({keys}) * FROM ({inner}) AS {alias}({bound.names()})"
            tail = f" ORDER BY {order}" if order else ""
            ties = self.limit.tied([order] if order else [])
            sql = f"SELECT * FROM ({inner}) AS {alias}({bound.names()}){ties}{tail}{self.limit.text}"
            return Bound(sql, columns)
        word = "DISTINCT " if self.distinct else ""
        if self.distinct_on:
            word = f"DISTINCT ON ({', '.join(self.distinct_on)}) "
        sql = f"SELECT {word}{text}"
        if self.body:
            sql += f" FROM {self.body}"
        if self.limit.ties:
            return self._tied(sql, word, columns, tail)
        return Bound(sql + tail + self.limit.text, columns)

    def _tied(self, sql: str, word: str, columns: list[Typed], tail: str) -> Bound:
        """The text WITH TIES: rows are ranked once DISTINCT has left those that there are."""
        keys = [self._order_item(item, columns, named=True) for item in self.order]
        if not word:
            return Bound(sql + self.limit.tied(keys) + tail + self.limit.text, columns)
        if any(place is None for _, place, _ in self.order):
            raise SqlError("0A000", "WITH TIES of DISTINCT ON is supported in the order of output columns")
        alias = self.binder.alias()
        keys = [
            f"{column_key(alias, place, columns[place])}{direction}"
            for direction, place, _ in self.order
            if place is not None
        ]
        first = tail if self.distinct_on else ""
        names_ = Bound(sql, columns).names()
        sql = f"SELECT * FROM ({sql}{first}) AS {alias}({names_}){self.limit.tied(keys)}"
        return Bound(f"{sql} ORDER BY {', '.join(keys)}{self.limit.text}", columns)

    def _order_item(
        self, item: tuple[str, int | None, Typed | None], columns: list[Typed], *, named: bool = False
    ) -> str:
        """An item of ORDER BY: an output column by its number, unless it must be ``named``."""
        direction, place, x = item
        if place is not None:
            column = columns[place]
            key = order_key(column)
            return f"{place + 1 if key == column.sql and not named else key}{direction}"
        assert x is not None
        return order_key(x) + direction


def select_parts(binder: Binder, node: Any, scope: Scope) -> Parts:
    """Bind everything of a SELECT."""
    for clause in (
        "locks",
        "into",
        "hint",
        "qualify",
        "sample",
        "laterals",
        "match",
        "pivots",
        "connect",
        "prewhere",
    ):
        value = node.args.get(clause)
        if value and clause != "locks":
            raise SqlError("0A000", f"{clause} in SELECT is not supported")
    body = relations.bind_from(binder, node, scope)
    where = node.args.get("where")
    if where is not None:
        scope.clause = "WHERE"
        x = condition(binder, binder.bind(where.this, scope), "WHERE")
        note_bounds(binder, where.this, scope)
        body = f"{body or '(SELECT 1) AS one'} WHERE {x.sql}"
    for window in node.args.get("windows") or ():
        scope.windows[name_of(window.this)] = window
    scope.clause = "SELECT"
    group = node.args.get("group")
    groups = grouping.bind_group(binder, node, group, scope) if group is not None else None
    outs = _outputs(binder, node, scope)
    scope.clause = "HAVING"
    having = node.args.get("having")
    condition_ = None
    if having is not None:
        condition_ = condition(binder, binder.bind(having.this, scope), "HAVING")
        if condition_.window:
            raise SqlError("42P20", "window functions are not allowed in HAVING")
    scope.clause = "ORDER BY"
    order = _order(binder, node, scope, outs)
    distinct = node.args.get("distinct")
    on: list[str] = []
    if distinct is not None and distinct.args.get("on") is not None:
        on = _distinct_on(binder, distinct.args["on"], scope, outs, order)
    checked = [*outs, *([condition_] if condition_ else []), *(x for _, _, x in order if x is not None)]
    if any(rel.is_recursion for rel in scope.rels) and any(x.agg for x in checked):
        raise SqlError("42P19", "aggregate functions are not allowed in a recursive query's recursive term")
    if groups is not None or having is not None or any(x.agg for x in checked):
        extra = grouping.check(scope, checked, simple=groups is None or groups.simple)
        if groups is not None:
            body = f"{body or '(SELECT 1) AS one'} GROUP BY {groups.text(extra)}"
        if condition_ is not None:
            body = f"{body or '(SELECT 1) AS one'} HAVING {condition_.sql}"
    scope.clause = "LIMIT"
    limit = bind_limit(binder, node, scope)
    return Parts(binder, node, scope, outs, body, order, distinct is not None and not on, on, limit)


def _outputs(binder: Binder, node: Any, scope: Scope) -> list[Typed]:
    outs: list[Typed] = []
    for item in node.expressions:
        if isinstance(item, exp.Star):
            if not scope.star and not scope.rels:
                raise SqlError("42601", "SELECT * with no tables specified is not valid")
            outs += _expanded(scope, [_as_it_is(c, scope.number) for c in scope.star])
            continue
        if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            table = name_of(item.args["table"])
            found = scope.relation(table)
            if found is None:
                raise SqlError("42P01", f'missing FROM-clause entry for table "{table}"')
            outs += _expanded(scope, [_as_it_is(c, found[0].number) for c in found[1].columns])
            continue
        inner = item.this if isinstance(item, exp.Alias) else item
        out = binder.bind(inner, scope)

        name = name_of(item.args["alias"]) if isinstance(item, exp.Alias) else names.figure(inner, out)
        outs.append(replace(out, name=name, origin=_origin(inner, scope)))
    return outs


def _as_it_is(column: Col, number: int) -> Typed:
    return replace(from_column(column, number), origin=column.origin)


def _origin(node: Any, scope: Scope) -> ColumnOrigin | None:
    """The table's column that an output shows as it is, through subqueries too."""
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.Column) or node.args.get("db"):
        return None
    table = node.args.get("table")
    try:
        return scope.find(name_of(table) if table is not None else None, name_of(node.this))[1].origin
    except SqlError:
        return None  # it was bound as something else, such as a whole row


def _expanded(scope: Scope, columns: list[Typed]) -> list[Typed]:
    if not scope.grouped:
        return columns
    own = scope.number
    return [
        replace(c, vars=frozenset(v for v in c.vars if v[0] != own)) if c.sql in scope.groups else c
        for c in columns
    ]


def _order(
    binder: Binder, node: Any, scope: Scope, outs: list[Typed]
) -> list[tuple[str, int | None, Typed | None]]:
    order = node.args.get("order")
    if order is None:
        return []
    items: list[tuple[str, int | None, Typed | None]] = []
    distinct = node.args.get("distinct")
    for ordered in order.expressions:
        inner = ordered.this
        if is_row(inner) and distinct is None:
            # NULL is the greatest value of a row's field, whatever is said of rows that are NULL.
            direction = " DESC NULLS FIRST" if ordered.args.get("desc") else " NULLS LAST"
            parts = [casts.settle_text(binder, one) for one in binder.bind_all(inner.expressions, scope)]
            items += [(direction, None, part) for part in parts]
            continue
        place = output_place(inner, outs, "ORDER BY")
        direction = direction_of(ordered)
        if place is not None:
            items.append((direction, place, None))
            continue
        x = casts.settle_text(binder, binder.bind(inner, scope))
        if distinct is not None and distinct.args.get("on") is None:
            same = [i for i, out in enumerate(outs) if out.sql == x.sql]
            if not same:
                raise SqlError(
                    "42P10", "for SELECT DISTINCT, ORDER BY expressions must appear in select list"
                )
            items.append((direction, same[0], None))
            continue
        items.append((direction, None, x))
    return items


def _distinct_on(
    binder: Binder,
    on: Any,
    scope: Scope,
    outs: list[Typed],
    order: list[tuple[str, int | None, Typed | None]],
) -> list[str]:
    keys = []
    for item in on.expressions if isinstance(on, exp.Tuple) else [on]:
        place = output_place(item, outs, "SELECT DISTINCT ON")
        x = outs[place] if place is not None else casts.settle_text(binder, binder.bind(item, scope))
        keys.append(order_key(x))
    wanted = set(keys)
    for _, place, other in order:
        one = outs[place] if place is not None else other
        assert one is not None
        key = order_key(one)
        if not wanted:
            break
        if key not in keys:
            raise SqlError("42P10", "SELECT DISTINCT ON expressions must match initial ORDER BY expressions")
        wanted.discard(key)
    return keys
