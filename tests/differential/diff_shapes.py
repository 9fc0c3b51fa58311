"""Random queries of rarer shapes: LATERAL, grouping sets, frames, WITH TIES, rows, nested correlation."""

# ruff: noqa: E501 - a statement is one line

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from diff_expressions import Scope, condition
from diff_run import Statement
from diff_values import FAMILY, INTEGERS

if TYPE_CHECKING:
    from diff_expressions import Column
    from diff_queries import Table


def _same(rng: random.Random, left: Table, right: Table) -> tuple[str, str] | None:
    """A column of each table, both of one type."""
    pairs = [(a.name, b.name) for a in left.comparable for b in right.comparable if a.type == b.type]
    return rng.choice(pairs) if pairs else None


def _two(rng: random.Random, tables: list[Table]) -> tuple[Table, Table, str, str]:
    """Two tables with a pair of like columns; a table and itself when there is no such pair."""
    left, right = rng.choice(tables), rng.choice(tables)
    pair = _same(rng, left, right)
    if pair is None:
        right = left
        column = rng.choice(left.comparable or left.columns)
        pair = (column.name, column.name)
    return left, right, *pair


def _sums(column: Column, alias: str = "") -> str:
    """An aggregate of a column that does not depend on the order of rows."""
    name = f"{alias}.{column.name}" if alias else column.name
    if column.type in INTEGERS or column.type.startswith("numeric"):
        return f"sum({name})"
    return f"count({name})"


def lateral(rng: random.Random, tables: list[Table]) -> Statement:
    """A derived table, an aggregate or a series that sees the table before it."""
    left, right, a, b = _two(rng, tables)
    column = rng.choice(right.columns)
    join = rng.choice(["CROSS JOIN LATERAL {} q", "LEFT JOIN LATERAL {} q ON true", ", LATERAL {} q"])
    scope = Scope(rng, [("b", c) for c in right.columns])
    where = f"b.{b} = a.{a}" + (f" AND {condition(scope, 0)}" if rng.random() < 0.4 else "")
    if rng.random() < 0.6:
        inner = f"(SELECT {_sums(column, 'b')} AS x, count(*) AS n FROM {right.name} b WHERE {where})"
        return Statement(
            f"SELECT a.{a}, q.x, q.n FROM {left.name} a{_spaced(join).format(inner)}", scope.params
        )
    if not right.key:
        return Statement(f"SELECT a.{a}, q.x FROM {left.name} a, LATERAL (SELECT a.{a} AS x) q")
    order = ", ".join(f"b.{name}" for name in right.key)
    inner = f"(SELECT b.{column.name} AS x FROM {right.name} b WHERE {where} ORDER BY {order} LIMIT {rng.randrange(3)})"
    return Statement(f"SELECT a.{a}, q.x FROM {left.name} a{_spaced(join).format(inner)}", scope.params)


def _spaced(join: str) -> str:
    return join if join.startswith(",") else f" {join}"


def grouping_sets(rng: random.Random, tables: list[Table]) -> Statement:
    """ROLLUP, CUBE and GROUPING SETS, DISTINCT too, with GROUPING()."""
    table = rng.choice(tables)
    names = [c.name for c in rng.sample(table.comparable, min(len(table.comparable), 2))]
    if len(names) < 2:
        names = [table.columns[0].name] * 2 if table.comparable else names
    if not names:
        return Statement(f"SELECT count(*) FROM {table.name} GROUP BY ()")
    a, b = names
    clause = rng.choice(
        [
            f"ROLLUP ({a}, {b})", f"CUBE ({a}, {b})", f"GROUPING SETS (({a}), ({b}), ())", f"{a}, ROLLUP ({b})",
            f"DISTINCT ROLLUP ({a}, {b}), ROLLUP ({a})", f"GROUPING SETS (({a}, {b}), ROLLUP ({b}))",
        ]
    )  # fmt: skip
    if a == b:
        clause = f"ROLLUP ({a})"
    having = f" HAVING count(*) > {rng.randrange(3)}" if rng.random() < 0.3 else ""
    call = _sums(rng.choice(table.columns))
    return Statement(
        f"SELECT {a}, {b}, grouping({a}, {b}) AS g, {call}, count(*) FROM {table.name} GROUP BY {clause}{having}"
    )


def frames(rng: random.Random, tables: list[Table]) -> Statement:
    """Windows with frames of every mode, and what they exclude."""
    keyed = [t for t in tables if t.key and len(t.comparable) > 1]
    if not keyed:
        return grouping_sets(rng, tables)
    table = rng.choice(keyed)
    column = rng.choice(table.columns)
    order = rng.choice(table.comparable)
    start = rng.choice(["UNBOUNDED PRECEDING", "1 PRECEDING", "CURRENT ROW", "2 PRECEDING"])
    end = rng.choice(["CURRENT ROW", "UNBOUNDED FOLLOWING", "1 FOLLOWING"])
    exclude = rng.choice(
        ["", "", " EXCLUDE CURRENT ROW", " EXCLUDE TIES", " EXCLUDE GROUP", " EXCLUDE NO OTHERS"]
    )
    mode = rng.choice(["ROWS", "GROUPS", "RANGE"])
    by = order.name
    if mode == "RANGE":
        start, end = "UNBOUNDED PRECEDING", rng.choice(["CURRENT ROW", "UNBOUNDED FOLLOWING"])
    if mode == "ROWS":
        by += "".join(f", {name}" for name in table.key)
    call = _sums(column)
    part = f"PARTITION BY {rng.choice(table.comparable).name} " if rng.random() < 0.4 else ""
    return Statement(
        f"SELECT {', '.join(table.key)}, {call} OVER w, count(*) OVER w FROM {table.name} "
        f"WINDOW w AS ({part}ORDER BY {by}{rng.choice(['', ' DESC'])} {mode} BETWEEN {start} AND {end}{exclude})"
    )


def with_ties(rng: random.Random, tables: list[Table]) -> Statement:
    """FETCH FIRST ... WITH TIES: all that sort as the last."""
    table = rng.choice(tables)
    if not table.comparable:
        return lateral(rng, tables)
    names = [c.name for c in rng.sample(table.comparable, min(len(table.comparable), rng.choice([1, 1, 2])))]
    scope = Scope(rng, [("", c) for c in table.columns])
    where = f" WHERE {condition(scope, 0)}" if rng.random() < 0.4 else ""
    # Only what is sorted by is shown: which of the rows that tie OFFSET leaves out is open.
    direction = rng.choice(["", " DESC", " NULLS FIRST"])
    order = ", ".join(f"{name}{direction}" for name in names)
    offset = f" OFFSET {rng.randrange(4)}" if rng.random() < 0.3 else ""
    return Statement(
        f"SELECT {', '.join(names)} FROM {table.name}{where} ORDER BY {order}{offset} "
        f"FETCH FIRST {rng.randrange(5)} ROWS WITH TIES",
        scope.params,
        ordered=True,
    )


def rows_compared(rng: random.Random, tables: list[Table]) -> Statement:
    """Rows with rows, lists of rows and subqueries."""
    left, right, a, b = _two(rng, tables)
    scope = Scope(rng, [("", c) for c in left.columns])
    column = left.column(a)
    other = rng.choice(left.comparable)
    one, two = scope.constant(column.type, 0.1), scope.constant(other.type, 0.1)
    test = rng.choice(
        [
            lambda: f"({a}, {other.name}) {rng.choice(['=', '<', '<=', '>', '>=', '<>'])} ({one}, {two})",
            lambda: f"({a}, {other.name}) {rng.choice(['IN', 'NOT IN'])} (({one}, {two}), ({one}, {two}))",
            lambda: f"({a}, 1) {rng.choice(['IN', 'NOT IN'])} (SELECT {b}, 1 FROM {right.name})",
            lambda: f"ROW({a}, {other.name}) IS {rng.choice(['', 'NOT '])}DISTINCT FROM ROW({one}, {two})",
            lambda: f"({a}, {other.name}) IS {rng.choice(['', 'NOT '])}NULL",
            lambda: (
                f"({a}, {other.name}) {rng.choice(['', 'NOT '])}BETWEEN ({one}, {two}) AND ({one}, {two})"
            ),
            lambda: (
                f"({a}, 1) {rng.choice(['<', '<=', '>', '>=', '<>'])} {rng.choice(['ANY', 'ALL'])} (SELECT {b}, 1 FROM {right.name})"
            ),
        ]
    )()
    used = [p for i, p in enumerate(scope.params, 1) if f"${i}" in test]
    if len(used) < len(scope.params):  # a parameter that stands nowhere has no type
        test, scope.params = f"({a}, {other.name}) IS NULL", []
    shown = ", ".join(left.key or [a])
    if rng.random() < 0.3:
        shown = f"count(({a}, {other.name})), count(DISTINCT ({a}, {other.name}))"
    return Statement(f"SELECT {shown} FROM {left.name} WHERE {test}", scope.params)


def nested(rng: random.Random, tables: list[Table]) -> Statement:
    """Subqueries that reach two levels out, in SELECT, WHERE and ORDER BY."""
    left, right, a, b = _two(rng, tables)
    inner = f"SELECT count(*) FROM {right.name} b WHERE b.{b} = a.{a}"
    key = ", ".join(f"a.{name}" for name in left.key or [a])
    kind = rng.randrange(4)
    if kind == 0:
        text = f"SELECT {key} FROM {left.name} a WHERE EXISTS (SELECT FROM {right.name} b WHERE b.{b} = a.{a} AND ({inner.replace('b.', 'c.').replace(' b ', ' c ')}) > {rng.randrange(3)})"
    elif kind == 1:
        text = f"SELECT {key}, ({inner}) + (SELECT count(*) FROM {left.name}) AS n FROM {left.name} a"
    elif kind == 2 and left.column(a).type != "numeric":
        text = f"SELECT a.{a}, ({inner}) AS n FROM {left.name} a GROUP BY a.{a}"
    else:
        text = f"SELECT {key} FROM {left.name} a WHERE ({inner}) = (SELECT count(*) FROM {left.name} x WHERE x.{a} = a.{a})"
    return Statement(text)


def merged_columns(rng: random.Random, tables: list[Table]) -> Statement:
    """USING and NATURAL, of every side."""
    left, right = rng.choice(tables), rng.choice(tables)
    names = [
        c.name for c in left.comparable for d in right.comparable if c.name == d.name and c.type == d.type
    ]
    if not names:
        return nested(rng, tables)
    side = rng.choice(["", "LEFT ", "RIGHT ", "FULL "])
    if left is right:
        return Statement(f"SELECT * FROM {left.name} a {side}JOIN {right.name} b USING ({names[0]})")
    other = [c.name for c in left.columns for d in right.columns if c.name == d.name]
    mixed = {
        name for name in other
        if FAMILY.get(left.column(name).type, left.column(name).type)
        != FAMILY.get(right.column(name).type, right.column(name).type)
    }  # fmt: skip
    if rng.random() < 0.3 and not mixed and "json" not in {left.column(n).type for n in other}:
        return Statement(f"SELECT * FROM {left.name} NATURAL {side}JOIN {right.name}")
    return Statement(
        f"SELECT {names[0]}, count(*) FROM {left.name} {side}JOIN {right.name} USING ({names[0]}) GROUP BY {names[0]}"
    )


def distinct_on(rng: random.Random, tables: list[Table]) -> Statement:
    """The first row of each group."""
    keyed = [t for t in tables if t.key]
    if not keyed:
        return with_ties(rng, tables)
    table = rng.choice(keyed)
    name = rng.choice(table.comparable).name
    rest = ", ".join(f"{key}{rng.choice(['', ' DESC'])}" for key in table.key)
    return Statement(
        f"SELECT DISTINCT ON ({name}) * FROM {table.name} ORDER BY {name}{rng.choice(['', ' DESC'])}, {rest}",
        ordered=True,
    )


SHAPES = [lateral, grouping_sets, frames, with_ties, rows_compared, nested, merged_columns, distinct_on]
