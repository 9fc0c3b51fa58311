"""Queries of the columnar engine, as DuckDB text: SELECT, VALUES, TABLE, set operations, ORDER BY and LIMIT.

``bind_query`` takes any query and gives a ``BoundQuery``: text and typed columns. Of a SELECT, FROM comes
first and WHERE with it, then GROUP BY, the select list, HAVING, ORDER BY, DISTINCT and LIMIT; that gives
``SelectParts``, whose columns are not yet text, since a set operation or an INSERT above may still give them
types. A bound query names its columns c0, c1, ... and, where the display scale of a NUMERIC differs from row
to row and the reader wants it, s<i> beside c<i>.

Queries inside others, in FROM, in WITH and in expressions, come back here by ``Binder.query``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import casts, emit, grouping, relations, trees
from herdpy_sql.columnar.binder import Binder
from herdpy_sql.columnar.bounds import note_bounds
from herdpy_sql.columnar.comparisons import direction_of, group_key, order_key
from herdpy_sql.columnar.emit import Emitted, unify
from herdpy_sql.columnar.routines import full_type
from herdpy_sql.columnar.scope import BoundQuery, Col, Scope, from_column
from herdpy_sql.columnar.with_queries import bind_with
from herdpy_sql.duck import NO_VARS, Typed, numeric_text, retyped
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.output_names import output_name
from herdpy_sql.expr.syntax import identifier, is_row, unsupported
from herdpy_sql.types import BIGINT, TEXT, Base, need_equality, need_ordering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import ColumnOrigin


def column_key(alias: str, i: int, column: Typed) -> str:
    """What sorts and groups as column ``i`` of the query called ``alias``."""
    return order_key(replace(column, sql=f"{alias}.c{i}"))


def output_place(node: Any, outs: Sequence[Typed], clause: str) -> int | None:
    """The output column that an ordinal or a bare name in ORDER BY or GROUP BY means."""
    if isinstance(node, exp.Literal):
        if node.is_string or not str(node.this).isdigit():
            raise SqlError("42601", f"non-integer constant in {clause}")
        place = int(node.this)
        if not 1 <= place <= len(outs):
            raise SqlError("42P10", f"{clause} position {place} is not in select list")
        return place - 1
    if isinstance(node, exp.Column) and not node.args.get("table") and not isinstance(node.this, exp.Star):
        name = identifier(node.this)
        matches = [i for i, out in enumerate(outs) if out.name == name]
        if len({outs[i].sql for i in matches}) > 1:
            raise SqlError("42702", f'{clause} "{name}" is ambiguous')
        if matches:
            return matches[0]
    return None


@dataclass(frozen=True, slots=True)
class LimitClause:
    """Bound counts as DuckDB text, each empty where the clause is not there.

    Attributes:
        ties: rows that sort as the last one come, too.
    """

    count: str = ""
    offset: str = ""
    ties: bool = False

    @property
    def text(self) -> str:
        """What follows ORDER BY."""
        out = f" LIMIT {self.count}" if self.count and not self.ties else ""
        return out + (f" OFFSET {self.offset}" if self.offset else "")

    def tied(self, keys: Sequence[str]) -> str:
        """The condition that keeps the rows WITH TIES, for QUALIFY; ``keys`` are the items of ORDER BY.

        Raises SqlError 42601 without an order.
        """
        if not self.ties:
            return ""
        if not keys:
            raise SqlError("42601", "WITH TIES cannot be specified without ORDER BY clause")
        last = f"{self.offset} + {self.count}" if self.offset else self.count
        return f" QUALIFY {self.count} > 0 AND rank() OVER (ORDER BY {', '.join(keys)}) <= {last}"


def bind_limit(binder: Binder, node: Any, scope: Scope) -> LimitClause:
    """The clauses of a query; SqlError 2201W or 2201X for negative constants."""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    count, ties = "", False
    if isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None and options.args.get("percent"):
            raise SqlError("0A000", "FETCH FIRST ... PERCENT is not supported")
        ties = options is not None and bool(options.args.get("with_ties"))
        count = _rows(binder, limit.args.get("count") or exp.Literal.number(1), scope, "LIMIT")
    elif limit is not None:
        count = _rows(binder, limit.expression, scope, "LIMIT")
    skipped = _rows(binder, offset.expression, scope, "OFFSET") if offset is not None else ""
    return LimitClause(count, skipped, ties and bool(count))


def _rows(binder: Binder, node: Any, scope: Scope, word: str) -> str:
    if isinstance(node, (exp.Column, exp.Var)) and node.name.lower() == "all":
        return ""
    inner = Scope(scope.number, None)
    x = binder.bind(node, inner)
    if x.null:
        return ""
    if x.literal is not None and not x.unknown:
        if x.literal.startswith("-"):
            state = "2201W" if word == "LIMIT" else "2201X"
            raise SqlError(state, f"{word} must not be negative")
        return x.literal
    if x.base in (Base.NUMERIC, Base.REAL, Base.DOUBLE):
        x = casts.cast(binder, x, BIGINT)
    x = emit.coerce(binder, x, BIGINT)
    return f"(SELECT pg_{word.lower()}_rows({x.sql}))"


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
class SelectParts:
    """A SELECT bound, its output expressions not yet rendered (a set operation may retype them)."""

    binder: Binder
    node: Any
    scope: Scope
    outs: list[Typed]
    body: str
    order: list[tuple[str, int | None, Typed | None]]
    distinct: bool
    distinct_on: list[str]
    limit: LimitClause

    def render(self, outs: list[Typed], mixed: bool) -> BoundQuery:
        """The DuckDB text with these outputs."""
        text, columns = output_list(outs, mixed)
        keyed = any(o.is_text_numeric for o in columns)
        order = ", ".join(self._order_item(item, columns) for item in self.order)
        tail = f" ORDER BY {order}" if order else ""
        if self.distinct and keyed:
            inner = f"SELECT {text} FROM {self.body}" if self.body else f"SELECT {text}"
            alias = self.binder.alias()
            bound = BoundQuery(inner, columns)
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
            return BoundQuery(sql, columns)
        word = "DISTINCT " if self.distinct else ""
        if self.distinct_on:
            word = f"DISTINCT ON ({', '.join(self.distinct_on)}) "
        sql = f"SELECT {word}{text}"
        if self.body:
            sql += f" FROM {self.body}"
        if self.limit.ties:
            return self._tied(sql, word, columns, tail)
        return BoundQuery(sql + tail + self.limit.text, columns)

    def _tied(self, sql: str, word: str, columns: list[Typed], tail: str) -> BoundQuery:
        """The text WITH TIES: rows are ranked once DISTINCT has left those that there are."""
        keys = [self._order_item(item, columns, named=True) for item in self.order]
        if not word:
            return BoundQuery(sql + self.limit.tied(keys) + tail + self.limit.text, columns)
        if any(place is None for _, place, _ in self.order):
            raise SqlError("0A000", "WITH TIES of DISTINCT ON is supported in the order of output columns")
        alias = self.binder.alias()
        keys = [
            f"{column_key(alias, place, columns[place])}{direction}"
            for direction, place, _ in self.order
            if place is not None
        ]
        first = tail if self.distinct_on else ""
        names_ = BoundQuery(sql, columns).names()
        sql = f"SELECT * FROM ({sql}{first}) AS {alias}({names_}){self.limit.tied(keys)}"
        return BoundQuery(f"{sql} ORDER BY {', '.join(keys)}{self.limit.text}", columns)

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


def select_parts(binder: Binder, node: Any, scope: Scope) -> SelectParts:
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
        x = trees.condition(binder, where.this, scope, "WHERE")
        note_bounds(binder, where.this, scope)
        body = f"{body or '(SELECT 1) AS one'} WHERE {x.sql}"
    for window in node.args.get("windows") or ():
        scope.windows[identifier(window.this)] = window
    scope.clause = "SELECT"
    group = node.args.get("group")
    groups = grouping.bind_group(binder, node, group, scope) if group is not None else None
    outs = _outputs(binder, node, scope)
    scope.clause = "HAVING"
    having = node.args.get("having")
    condition_ = None
    if having is not None:
        condition_ = trees.condition(binder, having.this, scope, "HAVING")
        if condition_.window:
            raise SqlError("42P20", "window functions are not allowed in HAVING")
    scope.clause = "ORDER BY"
    order = _order(binder, node, scope, outs)
    distinct = node.args.get("distinct")
    on: list[str] = []
    if distinct is not None and distinct.args.get("on") is not None:
        on = _distinct_on(binder, distinct.args["on"], scope, outs, order)
    elif distinct is not None:
        for out in outs:
            need_equality(full_type(out))
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
    return SelectParts(binder, node, scope, outs, body, order, distinct is not None and not on, on, limit)


def _outputs(binder: Binder, node: Any, scope: Scope) -> list[Typed]:
    outs: list[Typed] = []
    for item in node.expressions:
        if isinstance(item, exp.Star):
            if not scope.star and not scope.rels:
                raise SqlError("42601", "SELECT * with no tables specified is not valid")
            outs += _expanded(binder, scope, scope.star, scope.number)
            continue
        if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            table = identifier(item.args["table"])
            found = scope.relation(table)
            if found is None:
                raise SqlError("42P01", f'missing FROM-clause entry for table "{table}"')
            outs += _expanded(binder, scope, found[1].columns, found[0].number)
            continue
        inner = item.this if isinstance(item, exp.Alias) else item
        tree, out = trees.bound(binder, inner, scope)
        name = identifier(item.args["alias"]) if isinstance(item, exp.Alias) else output_name(inner, out.name)
        binder.note(f"Output: {name}", tree)
        outs.append(replace(out, name=name, origin=_origin(inner, scope)))
    return outs


def _origin(node: Any, scope: Scope) -> ColumnOrigin | None:
    """The table's column that an output shows as it is, through subqueries too."""
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.Column) or node.args.get("db"):
        return None
    table = node.args.get("table")
    try:
        return scope.find(identifier(table) if table is not None else None, identifier(node.this))[1].origin
    except SqlError:
        return None  # it was bound as something else, such as a whole row


def _expanded(binder: Binder, scope: Scope, star: Sequence[Col], number: int) -> list[Typed]:
    """The columns that ``*`` stands for, as they are."""
    columns = [replace(from_column(column, number), origin=column.origin) for column in star]
    for column, x in zip(star, columns, strict=True) if binder.notes is not None else ():
        binder.note(f"Output: {column.name}", Emitted(full_type(x), x, column))
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
            parts = [emit.settle_text(binder, one) for one in binder.bind_all(inner.expressions, scope)]
            for part in parts:
                need_ordering(full_type(part))
            items += [(direction, None, part) for part in parts]
            continue
        place = output_place(inner, outs, "ORDER BY")
        direction = direction_of(ordered)
        if place is not None:
            need_ordering(full_type(outs[place]))
            items.append((direction, place, None))
            continue
        tree, x = trees.bound(binder, inner, scope)
        binder.note("Order by:", tree)
        x = emit.settle_text(binder, x)
        need_ordering(full_type(x))
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
        x = outs[place] if place is not None else emit.settle_text(binder, binder.bind(item, scope))
        keys.append(group_key(x))
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


def bind_query(
    binder: Binder, node: Any, parent: Scope | None, *, mixed: bool = False, settle: bool = True
) -> BoundQuery:
    """Bind a query inside ``parent``.

    ``mixed``: keep display scales in columns of their own rather than turning such values to text.
    ``settle``: untyped columns become TEXT.
    """
    while isinstance(node, exp.Paren):
        node = node.this
    scope = binder.scope(parent)
    prefix = bind_with(binder, node.args.get("with_"), scope)
    if isinstance(node, exp.Subquery):
        if not any(node.args.get(k) for k in ("with_", "order", "limit", "offset", "joins")):
            return bind_query(binder, node.this, parent, mixed=mixed, settle=settle)
        bound = _wrapped(binder, node, scope, mixed)
    elif isinstance(node, exp.Select):
        bound = _select(binder, node, scope, mixed, settle)
    elif isinstance(node, exp.SetOperation):
        bound = _set_operation(binder, node, scope, mixed)
    elif isinstance(node, exp.Values):
        bound = _values(binder, node, scope, mixed)
    elif isinstance(node, exp.Table):
        star = exp.Select(expressions=[exp.Star()], from_=exp.From(this=node))
        bound = _select(binder, star, scope, mixed, settle)
    else:
        raise unsupported(node)
    return BoundQuery(prefix + bound.sql, bound.columns, frozenset(scope.outer_vars))


def _settled(binder: Binder, outs: list[Typed]) -> list[Typed]:
    return [replace(emit.coerce(binder, o, TEXT), name=o.name) if o.unknown else o for o in outs]


def _select(binder: Binder, node: exp.Select, scope: Scope, mixed: bool, settle: bool) -> BoundQuery:
    parts = select_parts(binder, node, scope)
    outs = _settled(binder, parts.outs) if settle else parts.outs
    return parts.render(outs, mixed)


# ---------------------------------------------------------------------------- other queries


def _values(
    binder: Binder, node: Any, scope: Scope, mixed: bool, types: list[Typed] | None = None
) -> BoundQuery:
    rows = [
        binder.bind_all(row.expressions if isinstance(row, exp.Tuple) else [row], scope)
        for row in node.expressions
    ]
    if len({len(row) for row in rows}) != 1:
        raise SqlError("42601", "VALUES lists must all be the same length")
    columns = [_one_form(unify(binder, list(column), "VALUES")) for column in zip(*rows, strict=True)]
    shown = []
    for i, column in enumerate(columns):
        shown.append(replace(column[0], name=f"column{i + 1}"))
    listed = ", ".join("(" + ", ".join(c[r].sql for c in columns) + ")" for r in range(len(rows)))
    alias = binder.alias()
    names_ = ", ".join(f"c{i}" for i in range(len(columns)))
    sql = f"SELECT * FROM (VALUES {listed}) AS {alias}({names_})"
    return _ordered(binder, node, scope, BoundQuery(sql, shown))


def _ordered(binder: Binder, node: Any, scope: Scope, bound: BoundQuery) -> BoundQuery:
    """ORDER BY, LIMIT and OFFSET over a query whose columns alone can be named."""
    order = node.args.get("order")
    limit = bind_limit(binder, node, scope)
    if order is None and not limit.text and not limit.ties:
        return bound
    alias = binder.alias()
    keys = []
    for ordered in order.expressions if order is not None else ():
        place = output_place(ordered.this, bound.columns, "ORDER BY")
        if place is None:
            if isinstance(ordered.this, exp.Column):
                raise SqlError("42703", f'column "{identifier(ordered.this.this)}" does not exist')
            raise SqlError(
                "0A000",
                "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                detail="Only result column names can be used, not expressions or functions.",
            )
        need_ordering(full_type(bound.columns[place]))
        keys.append(column_key(alias, place, bound.columns[place]) + direction_of(ordered))
    text = f" ORDER BY {', '.join(keys)}" if keys else ""
    sql = f"SELECT * FROM ({bound.sql}) AS {alias}({bound.names()}){limit.tied(keys)}{text}{limit.text}"
    return BoundQuery(sql, bound.columns)


def _wrapped(binder: Binder, node: Any, scope: Scope, mixed: bool) -> BoundQuery:
    """A parenthesised query with clauses of its own."""
    if node.args.get("joins"):
        star = exp.Select(expressions=[exp.Star()], from_=exp.From(this=node))
        return _select(binder, star, scope, mixed, True)
    inner = bind_query(binder, node.this, scope, mixed=mixed)
    return _ordered(binder, node, scope, inner)


_WORDS: dict[type[exp.Expression], str] = {
    exp.Union: "UNION",
    exp.Except: "EXCEPT",
    exp.Intersect: "INTERSECT",
}


def _branches(node: Any) -> list[Any]:
    """The queries of a chain of the same operation (UNION ALL of many, deep to the left)."""
    cls, distinct = type(node), bool(node.args.get("distinct"))
    out = []
    current = node
    while True:
        out.append(current.expression)
        left = current.this
        plain = not any(left.args.get(k) for k in ("order", "limit", "offset", "with_"))
        if (
            type(left) is cls
            and bool(left.args.get("distinct")) is distinct
            and plain
            and cls is not exp.Except
        ):
            current = left
            continue
        out.append(left)
        return out[::-1]


def _set_operation(binder: Binder, node: Any, scope: Scope, mixed: bool) -> BoundQuery:
    word = _WORDS[type(node)]
    distinct = bool(node.args.get("distinct"))
    bounds = [bind_query(binder, branch, scope, settle=False) for branch in _branches(node)]
    width = len(bounds[0].columns)
    if any(len(b.columns) != width for b in bounds):
        raise SqlError("42601", f"each {word} query must have the same number of columns")
    loose = word != "UNION"
    columns: list[list[Typed]] = []
    for i in range(width):
        inside = []
        for b in bounds:
            c = b.columns[i]
            inside.append(c if c.unknown else replace(c, sql=f"q.c{i}", scale_sql=None))
        columns.append(_unify_column(binder, inside, word, loose=loose))
    first = [
        replace(columns[i][0], name=bounds[0].columns[i].name, vars=NO_VARS, origin=None)
        for i in range(width)
    ]
    for column in first if distinct or word != "UNION" else ():
        need_equality(full_type(column))
    pieces = []
    for at, b in enumerate(bounds):
        items = ", ".join(f"{columns[i][at].sql} AS c{i}" for i in range(width))
        pieces.append(f"(SELECT {items} FROM ({b.sql}) AS q({b.names()}))")
    keyed = any(c.is_text_numeric for c in first)
    if distinct and keyed and word == "UNION":
        alias = binder.alias()
        keys = ", ".join(column_key(alias, i, c) for i, c in enumerate(first))
        named = ", ".join(f"c{i}" for i in range(width))
        sql = f"SELECT DISTINCT ON ({keys}) * FROM ({' UNION ALL '.join(pieces)}) AS {alias}({named})"
    else:
        sql = f" {word}{'' if distinct else ' ALL'} ".join(pieces)
    return _ordered(binder, node, scope, BoundQuery(sql, first))


def _one_form(parts: list[Typed]) -> list[Typed]:
    """Values of mixed display scales as text, for a column that all share."""
    if parts[0].scale_sql is None:
        return parts
    return [retyped(p, numeric_text(p), p.type) for p in parts]


def _unify_column(binder: Binder, parts: list[Typed], word: str, *, loose: bool) -> list[Typed]:
    unified = _one_form(unify(binder, parts, word, loose=loose))
    if loose and unified[0].is_text_numeric:
        unified = [replace(u, sql=f"pg_numnorm({u.sql})") for u in unified]
    return unified


__all__ = ["BoundQuery", "bind_query"]
