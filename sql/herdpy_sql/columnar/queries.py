"""DuckDB's text of bound queries: SELECT, VALUES, set operations, WITH, ORDER BY and LIMIT.

``emit_query`` takes any query of ``bind.nodes``. The text names its columns c0, c1, ... and, where the
display scale of a NUMERIC differs from row to row and the reader wants it, s<i> beside c<i>. Queries inside
others, in FROM, in WITH and in expressions, come back here by ``Emission.query``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from herdpy_sql.bind import nodes as q
from herdpy_sql.columnar import aggregates as _aggregates  # noqa: F401 - registers itself
from herdpy_sql.columnar import subqueries as _subqueries  # noqa: F401
from herdpy_sql.columnar import windows as _windows  # noqa: F401
from herdpy_sql.columnar.comparisons import direction, group_key, order_key
from herdpy_sql.columnar.emission import Emission, EmittedQuery
from herdpy_sql.columnar.emit import NULL, Emitter, Groups, aligned, coerce, unify
from herdpy_sql.columnar.relations import emit_from
from herdpy_sql.duck import Typed, numeric_text, retyped
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.types import Base, array_of


def emit_query(emission: Emission, query: q.Query, mixed: bool) -> EmittedQuery:
    """The text of a query; ``mixed``: display scales are columns of their own, not part of the text."""
    prefix = _with(emission, query.with_queries, recursive=query.recursive)
    found = _QUERIES[type(query)](emission, query, mixed)
    return EmittedQuery(prefix + found.sql, found.columns)


def column_key(alias: str, i: int, column: Typed) -> str:
    """What sorts and groups as column ``i`` of the query called ``alias``."""
    return order_key(replace(column, sql=f"{alias}.c{i}"))


# ---------------------------------------------------------------------------- WITH


def _with(emission: Emission, queries: Sequence[q.WithQuery], *, recursive: bool) -> str:
    """The clause that defines the queries; empty without one."""
    if not queries:
        return ""
    parts = [_with_query(emission, one) for one in queries]
    return f"WITH {'RECURSIVE ' if recursive else ''}{', '.join(parts)} "


def _with_query(emission: Emission, one: q.WithQuery) -> str:
    name = emission.alias("w")
    if one.step is not None:
        return _recursive(emission, one, one.step, name)
    found = emission.query(one.query, mixed=True)
    emission.named[id(one)] = name, found.columns
    return f"{name}({found.names()}) AS ({found.sql})"


def _recursive(emission: Emission, one: q.WithQuery, step: q.Query, name: str) -> str:
    prefix = _with(emission, one.before, recursive=one.before_recursive)
    first = emission.query(one.query)
    columns = [_growing(replace(column, sql=f"q.c{i}")) for i, column in enumerate(first.columns)]
    emission.named[id(one)] = name, columns
    second = emission.query(step)
    others = [
        f"{_as_before(emission, replace(x, sql=f'q.c{i}', scale_sql=None), wanted).sql} AS c{i}"
        for i, (x, wanted) in enumerate(zip(second.columns, columns, strict=True))
    ]
    items = [f"{column.sql} AS c{i}" for i, column in enumerate(columns)]
    word = "UNION" if one.union else "UNION ALL"
    left = f"SELECT {', '.join(items)} FROM ({first.sql}) AS q({first.names()})"
    right = f"SELECT {', '.join(others)} FROM ({second.sql}) AS q({second.names()})"
    names = ", ".join(f"c{i}" for i in range(len(columns)))
    return f"{name}({names}) AS ({prefix}({left}) {word} ({right}))"


def _growing(column: Typed) -> Typed:
    """A column of a recursion; NUMERICs are text, as digits may grow from round to round."""
    if column.base is not Base.NUMERIC or column.array:
        return column
    return retyped(column, numeric_text(column), column.type)


def _as_before(emission: Emission, x: Typed, wanted: Typed) -> Typed:
    """A column of the recursive term in the type that the other term gave it."""
    whole = array_of(wanted.type, wanted.array) if wanted.array else wanted.type
    return _growing(coerce(emission, x, whole))


# ---------------------------------------------------------------------------- LIMIT


@dataclass(frozen=True, slots=True)
class LimitText:
    """Counts as DuckDB text, each empty where the clause is not there.

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


def _limit(emission: Emission, limit: q.LimitClause) -> LimitText:
    return LimitText(
        _count(emission, limit.count, "limit"), _count(emission, limit.offset, "offset"), limit.ties
    )


def _count(emission: Emission, count: n.Expr | None, word: str) -> str:
    if count is None:
        return ""
    if isinstance(count, n.Const) and isinstance(count.value, int):
        return str(count.value)
    return f"(SELECT pg_{word}_rows({Emitter(emission).emit(count).sql}))"


# ---------------------------------------------------------------------------- SELECT


def _output_list(outs: Sequence[Typed], mixed: bool) -> tuple[str, list[Typed]]:
    """The select list's text and what the reader of the query sees."""
    items, scales, columns = [], [], []
    for i, given in enumerate(outs):
        out = given
        if out.scale_sql is not None and mixed:
            scales.append(f"{out.scale_sql} AS s{i}")
        elif out.scale_sql is not None:
            out = retyped(out, numeric_text(out), out.type)
        items.append(f"{out.sql} AS c{i}")
        columns.append(out)
    return ", ".join(items + scales) or _EMPTY, columns


@dataclass(slots=True)
class _Select:
    """The parts of a SELECT as text; ``columns`` are what its reader sees of ``items``."""

    emission: Emission
    query: q.Select
    items: str
    columns: list[Typed]
    body: str
    order: list[tuple[str, int | None, Typed | None]]
    distinct_on: list[str]
    limit: LimitText

    def text(self) -> str:
        """All of it."""
        keys = [self._order_item(item) for item in self.order]
        tail = f" ORDER BY {', '.join(keys)}" if keys else ""
        if self.query.distinct and any(column.is_text_numeric for column in self.columns):
            return self._distinct_by_keys()
        word = "DISTINCT " if self.query.distinct else ""
        if self.distinct_on:
            word = f"DISTINCT ON ({', '.join(self.distinct_on)}) "
        sql = f"SELECT {word}{self.items}"
        if self.body:
            sql += f" FROM {self.body}"
        if self.limit.ties:
            return self._tied(sql, word, tail)
        return sql + tail + self.limit.text

    def _distinct_by_keys(self) -> str:
        """DISTINCT where a column's text is not what makes values equal."""
        inner = f"SELECT {self.items} FROM {self.body}" if self.body else f"SELECT {self.items}"
        alias = self.emission.alias()
        names = EmittedQuery(inner, self.columns).names()
        keys = ", ".join(column_key(alias, i, column) for i, column in enumerate(self.columns))
        order = ", ".join(self._placed_keys(alias))
        inner = f"SELECT DISTINCT ON ({keys}) * FROM ({inner}) AS {alias}({names})"
        tail = f" ORDER BY {order}" if order else ""
        ties = self.limit.tied([order] if order else [])
        return f"SELECT * FROM ({inner}) AS {alias}({names}){ties}{tail}{self.limit.text}"

    def _placed_keys(self, alias: str) -> list[str]:
        """The items of ORDER BY that are output columns, outside of the query."""
        return [
            f"{column_key(alias, place, self.columns[place])}{words}"
            for words, place, _ in self.order
            if place is not None
        ]

    def _tied(self, sql: str, word: str, tail: str) -> str:
        """The text WITH TIES: rows are ranked once DISTINCT has left those that there are."""
        keys = [self._order_item(item, named=True) for item in self.order]
        if not word:
            return sql + self.limit.tied(keys) + tail + self.limit.text
        if any(place is None for _, place, _ in self.order):
            raise SqlError("0A000", "WITH TIES of DISTINCT ON is supported in the order of output columns")
        alias = self.emission.alias()
        keys = self._placed_keys(alias)
        first = tail if self.distinct_on else ""
        names = EmittedQuery(sql, self.columns).names()
        sql = f"SELECT * FROM ({sql}{first}) AS {alias}({names}){self.limit.tied(keys)}"
        return f"{sql} ORDER BY {', '.join(keys)}{self.limit.text}"

    def _order_item(self, item: tuple[str, int | None, Typed | None], *, named: bool = False) -> str:
        """An item of ORDER BY: an output column by its number, unless it must be ``named``."""
        words, place, x = item
        if place is not None:
            column = self.columns[place]
            key = order_key(column)
            return f"{place + 1 if key == column.sql and not named else key}{words}"
        assert x is not None
        return order_key(x) + words


_NOTHING = "(SELECT 1) AS one"
_EMPTY = "NULL AS none"
"""What an empty select list is to DuckDB; no reader takes the column."""


def _select(emission: Emission, query: q.Select, mixed: bool) -> EmittedQuery:
    body = emit_from(emission, query.source)
    if query.where is not None:
        body = f"{body or _NOTHING} WHERE {Emitter(emission).emit(query.where).sql}"
    emitter = Emitter(emission)
    items: list[str] = []
    if query.groups is not None:
        items, emitter.groups = _groups(emission, query.groups)
    outs = [emitter.emit(output.expr) for output in query.outputs]
    having = None if query.having is None else emitter.emit(query.having)
    order = [_key(emitter, key) for key in query.order]
    on = [_distinct_key(emitter, key, outs) for key in query.distinct_on]
    if query.groups is not None:
        items += [emission.column(column).sql for column in query.fixed]
        body = f"{body or _NOTHING} GROUP BY {', '.join(items) or '()'}"
    if having is not None:
        body = f"{body or _NOTHING} HAVING {having.sql}"
    text, columns = _output_list(outs, mixed)
    limit = _limit(emission, query.limit)
    parts = _Select(emission, query, text, columns, body, order, on, limit)
    return EmittedQuery(parts.text(), columns)


def _key(emitter: Emitter, key: q.Key) -> tuple[str, int | None, Typed | None]:
    words = direction(key.descending, key.nulls_first)
    return words, key.place, None if key.expr is None else emitter.emit(key.expr)


def _distinct_key(emitter: Emitter, key: q.Key, outs: Sequence[Typed]) -> str:
    if key.place is not None:
        return group_key(outs[key.place])
    assert key.expr is not None
    return group_key(emitter.emit(key.expr))


def _groups(emission: Emission, groups: Sequence[q.GroupItem]) -> tuple[list[str], Groups]:
    """The items of GROUP BY, and what stands for each expression in what is made of a group."""
    grouped: list[tuple[n.Expr, Typed]] = []
    items = [_group_item(emission, item, grouped) for item in groups]
    return items, Groups(grouped)


def _group_item(emission: Emission, item: q.GroupItem, grouped: list[tuple[n.Expr, Typed]]) -> str:
    if item.expr is not None:
        return _group_expression(emission, item.expr, grouped)
    parts = ", ".join([_group_item(emission, part, grouped) for part in item.parts])
    return f"{item.word} ({parts})" if item.word else f"({parts})"


def _group_expression(emission: Emission, expr: n.Expr, grouped: list[tuple[n.Expr, Typed]]) -> str:
    """The same values in different digits are one group, which has the digits of none of them."""
    x = Emitter(emission).emit(expr)
    if x.is_text_numeric:
        x = replace(x, sql=f"pg_numnorm({x.sql})")
    if not any(isinstance(one, n.ColumnRef | n.Subquery) for one in n.walk(expr)):
        return x.sql if x.is_text_numeric else order_key(x)
    grouped.append((expr, replace(x, scale_sql=None)))
    return x.sql


# ---------------------------------------------------------------------------- other queries


def _values(emission: Emission, query: q.Values, mixed: bool) -> EmittedQuery:
    emitter = Emitter(emission)
    columns = [_one_form(aligned(emitter, column, "VALUES")) for column in zip(*query.rows, strict=True)]
    listed = ", ".join(
        "(" + ", ".join(column[i].sql for column in columns) + ")" for i in range(len(query.rows))
    )
    names = ", ".join(f"c{i}" for i in range(len(columns)))
    sql = f"SELECT * FROM (VALUES {listed}) AS {emission.alias()}({names})"
    return EmittedQuery(sql, [column[0] for column in columns])


def _ordered(emission: Emission, query: q.Ordered, mixed: bool) -> EmittedQuery:
    """A query whose rows are ordered by its columns alone, or limited."""
    found = emit_query(emission, query.inner, mixed)
    limit, alias = _limit(emission, query.limit), emission.alias()
    keys = [
        column_key(alias, key.place, found.columns[key.place]) + direction(key.descending, key.nulls_first)
        for key in query.order
        if key.place is not None
    ]
    tail = f" ORDER BY {', '.join(keys)}" if keys else ""
    names = found.names()
    sql = f"SELECT * FROM ({found.sql}) AS {alias}({names}){limit.tied(keys)}{tail}{limit.text}"
    return EmittedQuery(sql, found.columns)


def _set_operation(emission: Emission, query: q.SetOperation, mixed: bool) -> EmittedQuery:
    branches = [emit_query(emission, branch, False) for branch in query.branches]
    word, loose = query.word, query.word != "UNION"
    columns: list[list[Typed]] = []
    for i in range(len(query.outputs)):
        nulls = [_is_null(branch, i) for branch in query.branches]
        inside = [
            NULL if null else replace(branch.columns[i], sql=f"q.c{i}", scale_sql=None)
            for branch, null in zip(branches, nulls, strict=True)
        ]
        columns.append(_unified(emission, inside, word, loose=loose))
    first = [column[0] for column in columns]
    pieces = []
    for at, branch in enumerate(branches):
        items = ", ".join(f"{column[at].sql} AS c{i}" for i, column in enumerate(columns)) or _EMPTY
        pieces.append(f"(SELECT {items} FROM ({branch.sql}) AS q({branch.names()}))")
    if query.distinct and word == "UNION" and any(column.is_text_numeric for column in first):
        alias = emission.alias()
        keys = ", ".join(column_key(alias, i, column) for i, column in enumerate(first))
        names = ", ".join(f"c{i}" for i in range(len(first)))
        sql = f"SELECT DISTINCT ON ({keys}) * FROM ({' UNION ALL '.join(pieces)}) AS {alias}({names})"
    else:
        sql = f" {word}{'' if query.distinct else ' ALL'} ".join(pieces)
    return EmittedQuery(sql, first)


def _is_null(query: q.Query, place: int) -> bool:
    """Whether a column is NULL in every row, of whatever type that is."""
    found = query.outputs[place].expr
    return isinstance(query, q.Select) and isinstance(found, n.Const) and found.value is None


def _one_form(parts: list[Typed]) -> list[Typed]:
    """Values of mixed display scales as text, for a column that all share."""
    if parts[0].scale_sql is None:
        return parts
    return [retyped(part, numeric_text(part), part.type) for part in parts]


def _unified(emission: Emission, parts: list[Typed], word: str, *, loose: bool) -> list[Typed]:
    found = _one_form(unify(emission, parts, word, loose=loose))
    if loose and found[0].is_text_numeric:
        found = [replace(one, sql=f"pg_numnorm({one.sql})") for one in found]
    return found


_QUERIES: dict[type[q.Query], Callable[[Emission, Any, bool], EmittedQuery]] = {
    q.Select: _select,
    q.Values: _values,
    q.Ordered: _ordered,
    q.SetOperation: _set_operation,
}
