"""Random SELECTs over generated tables, each of a shape that some part of a planner is there for."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from diff_expressions import Column, Scope, condition, expression, operator, ref
from diff_run import Statement
from diff_shapes import SHAPES
from diff_values import FAMILIES, FAMILY, INTEGERS, literal, value


@dataclass
class Table:
    """A generated table: its key, and its indexes as (columns, unique)."""

    name: str
    columns: list[Column]
    key: list[str] = field(default_factory=list)
    indexes: dict[str, tuple[list[str], bool]] = field(default_factory=dict)

    def column(self, name: str) -> Column:
        """The column of that name."""
        return next(c for c in self.columns if c.name == name)

    @property
    def comparable(self) -> list[Column]:
        """The columns that can be sorted and grouped by."""
        return [c for c in self.columns if c.type != "json"]


def select(rng: random.Random, tables: list[Table]) -> Statement:
    """A SELECT of any shape."""
    shapes = [
        _by_key, _by_key, _range, _range, _indexed, _plain, _plain, _expressions, _expressions, _join, _join,
        _outer_join, _aggregate, _aggregate, _grouped, _grouped, _distinct, _set_operation, _cte, _window,
        _exists, _in_subquery, _scalar_subquery, _values, _derived, *SHAPES,
    ]  # fmt: skip
    statement = rng.choice(shapes)(rng, tables)
    statement.typed = rng.random() < 0.5
    return statement


def _scope(rng: random.Random, table: Table, alias: str = "") -> Scope:
    return Scope(rng, [(alias, column) for column in table.columns])


def _list(rng: random.Random, table: Table, alias: str = "") -> str:
    if rng.random() < 0.3:
        return f"{alias}.*" if alias else "*"
    picked = rng.sample(table.columns, rng.randrange(1, len(table.columns) + 1))
    return ", ".join(ref(alias, column) for column in picked)


def _total(table: Table, alias: str = "") -> str:
    """An ORDER BY that leaves only rows that look alike in open order."""
    names = table.key or [c.name for c in table.comparable]
    return ", ".join(f"{alias}.{n}" if alias else n for n in names)


def _order(rng: random.Random, table: Table) -> tuple[str, bool]:
    """ORDER BY, maybe, with LIMIT and OFFSET; and whether the order is total."""
    if rng.random() < 0.4:
        return "", False
    first = []
    for column in rng.sample(table.comparable, min(len(table.comparable), rng.randrange(3))):
        nulls = rng.choice(["", "", " NULLS FIRST", " NULLS LAST"])
        first.append(f"{column.name}{rng.choice(['', ' DESC', ' ASC'])}{nulls}")
    if not table.key and len(table.comparable) < len(table.columns):
        return "", False
    direction = rng.choice(["", " DESC"])
    last = _total(table).replace(", ", f"{direction}, ") + direction
    text = " ORDER BY " + ", ".join([*first, last])
    if rng.random() < 0.5:
        text += f" LIMIT {rng.choice([0, 1, 2, 3, 5, 10, 1000])}"
        if rng.random() < 0.4:
            text += f" OFFSET {rng.choice([0, 1, 2, 7, 100])}"
    return text, True


def _by_key(rng: random.Random, tables: list[Table]) -> Statement:
    table = rng.choice(tables)
    if not table.key:
        return _plain(rng, tables)
    scope = _scope(rng, table)
    names = table.key if rng.random() < 0.8 else table.key[:1]
    parts = [f"{n} = {scope.constant(table.column(n).type)}" for n in names]
    if rng.random() < 0.2:
        parts.append(condition(scope, 0))
    return Statement(
        f"SELECT {_list(rng, table)} FROM {table.name} WHERE {' AND '.join(parts)}", scope.params
    )


def _range(rng: random.Random, tables: list[Table], names: list[str] | None = None) -> Statement:
    table = rng.choice(tables)
    keyed = names or table.key or [table.columns[0].name]
    scope = _scope(rng, table)
    last = rng.randrange(len(keyed))
    parts = [f"{n} = {scope.constant(table.column(n).type)}" for n in keyed[:last]]
    type_ = table.column(keyed[last]).type
    if type_ != "json":
        n = keyed[last]
        parts.append(
            rng.choice(
                [
                    lambda: f"{n} {rng.choice(['<', '<=', '>', '>='])} {scope.constant(type_)}",
                    lambda: f"{n} > {scope.constant(type_)} AND {n} <= {scope.constant(type_)}",
                    lambda: f"{n} BETWEEN {scope.constant(type_)} AND {scope.constant(type_)}",
                    lambda: f"{n} IN ({', '.join(scope.constant(type_) for _ in range(4))})",
                    lambda: f"({n} = {scope.constant(type_)} OR {n} = {scope.constant(type_)})",
                ]
            )()
        )
    order, total = _order(rng, table)
    where = f" WHERE {' AND '.join(parts)}" if parts else ""
    return Statement(f"SELECT {_list(rng, table)} FROM {table.name}{where}{order}", scope.params, total)


def _indexed(rng: random.Random, tables: list[Table]) -> Statement:
    having = [t for t in tables if t.indexes]
    if not having:
        return _range(rng, tables)
    table = rng.choice(having)
    names, _ = rng.choice(list(table.indexes.values()))
    return _range(rng, [table], names)


def _plain(rng: random.Random, tables: list[Table]) -> Statement:
    table = rng.choice(tables)
    scope = _scope(rng, table)
    where = f" WHERE {condition(scope, 2)}" if rng.random() < 0.8 else ""
    order, total = _order(rng, table)
    return Statement(f"SELECT {_list(rng, table)} FROM {table.name}{where}{order}", scope.params, total)


def _expressions(rng: random.Random, tables: list[Table]) -> Statement:
    table = rng.choice(tables)
    scope = _scope(rng, table)
    scope.with_params = False
    items = ", ".join(
        f"{expression(scope, 2)[0]} AS x{i}" if rng.random() < 0.8 else expression(scope, 1)[0]
        for i in range(rng.randrange(1, 4))
    )
    scope.with_params = True
    where = f" WHERE {condition(scope, 1)}" if rng.random() < 0.5 else ""
    return Statement(f"SELECT {items} FROM {table.name}{where}", scope.params)


def _pair(rng: random.Random, tables: list[Table]) -> tuple[Table, Table, str] | None:
    """Two tables and a condition that joins columns of one family."""
    left, right = rng.choice(tables), rng.choice(tables)
    pairs = [
        (a, b)
        for a in left.comparable
        for b in right.comparable
        if a.type == b.type or (a.type in FAMILY and FAMILY.get(a.type) == FAMILY.get(b.type))
    ]
    if not pairs:
        return None
    picked = rng.sample(pairs, min(len(pairs), rng.choice([1, 1, 2])))
    keyed = [p for p in pairs if p[1].name in right.key[:1]]
    if keyed and rng.random() < 0.6:
        picked = [rng.choice(keyed)]
    return left, right, " AND ".join(f"a.{x.name} = b.{y.name}" for x, y in picked)


def _both(rng: random.Random, left: Table, right: Table) -> tuple[Scope, str]:
    scope = Scope(rng, [("a", c) for c in left.columns] + [("b", c) for c in right.columns])
    picked = rng.sample(scope.columns, min(len(scope.columns), rng.randrange(1, 5)))
    return scope, ", ".join(ref(alias, column) for alias, column in picked)


def _join(rng: random.Random, tables: list[Table]) -> Statement:
    found = _pair(rng, tables)
    if found is None:
        return _plain(rng, tables)
    left, right, on = found
    scope, items = _both(rng, left, right)
    order, total = "", False
    if left.key and right.key and rng.random() < 0.4:
        order, total = f" ORDER BY {_total(left, 'a')}, {_total(right, 'b')}", True
        if rng.random() < 0.5:
            order += f" LIMIT {rng.choice([0, 1, 4, 20])}"
    if rng.random() < 0.2:
        text = f"SELECT {items} FROM {left.name} a, {right.name} b WHERE {on}"
        text += f" AND {condition(scope, 0)}" if rng.random() < 0.5 else ""
        return Statement(text + order, scope.params, total)
    where = f" WHERE {condition(scope, 1)}" if rng.random() < 0.6 else ""
    kind = rng.choice(["JOIN", "INNER JOIN", "LEFT JOIN", "LEFT JOIN"])
    return Statement(
        f"SELECT {items} FROM {left.name} a {kind} {right.name} b ON {on}{where}{order}", scope.params, total
    )


def _outer_join(rng: random.Random, tables: list[Table]) -> Statement:
    found = _pair(rng, tables)
    if found is None:
        return _plain(rng, tables)
    left, right, on = found
    scope, items = _both(rng, left, right)
    kind = rng.choice(["RIGHT JOIN", "FULL JOIN", "LEFT JOIN"])
    if kind != "FULL JOIN" and rng.random() < 0.5:
        on += f" AND {condition(scope, 0)}"
    where = f" WHERE {condition(scope, 1)}" if rng.random() < 0.4 else ""
    return Statement(f"SELECT {items} FROM {left.name} a {kind} {right.name} b ON {on}{where}", scope.params)


def aggregates(rng: random.Random, columns: list[tuple[str, Column]], count: int) -> list[str]:
    """Aggregate calls whose answers do not depend on the order of rows."""
    found = []
    for _ in range(count):
        alias, column = rng.choice(columns)
        name, type_ = ref(alias, column), column.type
        options = ["count(*)", f"count({name})"]
        if type_ != "json":
            options.append(f"count(DISTINCT {name})")
        if type_ not in {"json", "boolean", "uuid", "bytea"}:
            options += [f"min({name})", f"max({name})"] * 2
        if type_ in INTEGERS or type_.startswith("numeric"):
            options += [f"sum({name})", f"avg({name})", f"sum(DISTINCT {name})"]
        if type_ == "boolean":
            options += [f"bool_and({name})", f"bool_or({name})"]
        call = rng.choice(options)
        if rng.random() < 0.15 and alias == "":
            call += f" FILTER (WHERE {name} IS NOT NULL)"
        found.append(call)
    return found


def _aggregate(rng: random.Random, tables: list[Table]) -> Statement:
    table = rng.choice(tables)
    scope = _scope(rng, table)
    where = f" WHERE {condition(scope, 1)}" if rng.random() < 0.6 else ""
    items = ", ".join(aggregates(rng, scope.columns, rng.randrange(1, 5)))
    return Statement(f"SELECT {items} FROM {table.name}{where}", scope.params)


def _grouped(rng: random.Random, tables: list[Table]) -> Statement:
    table = rng.choice(tables)
    scope = _scope(rng, table)
    groups = [c.name for c in rng.sample(table.comparable, min(len(table.comparable), rng.choice([1, 1, 2])))]
    items = ", ".join([*groups, *aggregates(rng, scope.columns, rng.randrange(1, 4))])
    where = f" WHERE {condition(scope, 1)}" if rng.random() < 0.5 else ""
    having = f" HAVING count(*) {operator(rng)} {rng.randrange(4)}" if rng.random() < 0.4 else ""
    order = f" ORDER BY {', '.join(groups)}" if rng.random() < 0.5 else ""
    by = ", ".join(groups if rng.random() < 0.7 else [str(i + 1) for i in range(len(groups))])
    return Statement(
        f"SELECT {items} FROM {table.name}{where} GROUP BY {by}{having}{order}", scope.params, bool(order)
    )


def _distinct(rng: random.Random, tables: list[Table]) -> Statement:
    table = rng.choice(tables)
    scope = _scope(rng, table)
    names = [c.name for c in rng.sample(table.comparable, min(len(table.comparable), rng.randrange(1, 4)))]
    where = f" WHERE {condition(scope, 1)}" if rng.random() < 0.4 else ""
    order = rng.random() < 0.5
    text = f"SELECT DISTINCT {', '.join(names)} FROM {table.name}{where}"
    if order:
        text += f" ORDER BY {', '.join(names)}"
        text += f" LIMIT {rng.randrange(6)}" if rng.random() < 0.5 else ""
    return Statement(text, scope.params, order)


def _set_operation(rng: random.Random, tables: list[Table]) -> Statement:
    found = _pair(rng, tables)
    if found is None:
        return _distinct(rng, tables)
    left, right, _ = found
    pairs = [(a, b) for a in left.comparable for b in right.comparable if a.type == b.type]
    if not pairs:
        return _distinct(rng, tables)
    picked = rng.sample(pairs, min(len(pairs), rng.randrange(1, 3)))
    op = rng.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
    one, two = Scope(rng, [("", c) for c in left.columns]), Scope(rng, [("", c) for c in right.columns])
    where = f" WHERE {condition(one, 0)}" if rng.random() < 0.4 else ""
    two.params = one.params
    other = f" WHERE {condition(two, 0)}" if rng.random() < 0.4 else ""
    text = (
        f"SELECT {', '.join(a.name for a, _ in picked)} FROM {left.name}{where} {op} "
        f"SELECT {', '.join(b.name for _, b in picked)} FROM {right.name}{other}"
    )
    order = rng.random() < 0.4
    if order:
        text += " ORDER BY " + ", ".join(str(i + 1) for i in range(len(picked)))
    return Statement(text, one.params, order)


def _cte(rng: random.Random, tables: list[Table]) -> Statement:
    table = rng.choice(tables)
    scope = _scope(rng, table)
    inner = f"SELECT * FROM {table.name} WHERE {condition(scope, 1)}"
    if rng.random() < 0.5:
        items = ", ".join(aggregates(rng, scope.columns, 2))
        return Statement(f"WITH w AS ({inner}) SELECT {items} FROM w", scope.params)
    outer = condition(scope, 0)
    return Statement(f"WITH w AS ({inner}) SELECT {_list(rng, table)} FROM w WHERE {outer}", scope.params)


def _derived(rng: random.Random, tables: list[Table]) -> Statement:
    table = rng.choice(tables)
    scope = _scope(rng, table)
    order, total = _order(rng, table)
    inner = f"SELECT * FROM {table.name} WHERE {condition(scope, 1)}{order}"
    items = ", ".join(aggregates(rng, [("q", c) for c in table.columns], 2))
    del total
    return Statement(f"SELECT {items} FROM ({inner}) AS q", scope.params)


def _window(rng: random.Random, tables: list[Table]) -> Statement:
    table = rng.choice(tables)
    if not table.key:
        return _aggregate(rng, tables)
    part = f"PARTITION BY {rng.choice(table.comparable).name} " if rng.random() < 0.6 else ""
    first = rng.choice(table.comparable).name
    order = f"ORDER BY {first}{rng.choice(['', ' DESC'])}, {_total(table)}"
    column = rng.choice(table.comparable)
    calls = [
        f"row_number() OVER ({part}{order})",
        f"rank() OVER ({part}ORDER BY {first})",
        f"dense_rank() OVER ({part}ORDER BY {first} DESC)",
        f"count(*) OVER ({part})",
        f"lag({column.name}) OVER ({part}{order})",
        f"lead({column.name}, 2) OVER ({part}{order})",
        f"first_value({column.name}) OVER ({part}{order})",
        f"last_value({column.name}) OVER ({part}{order})",
    ]
    if column.type in INTEGERS or column.type.startswith("numeric"):
        calls += [
            f"sum({column.name}) OVER ({part}{order})",
            f"sum({column.name}) OVER ({part}{order} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        ]
    items = ", ".join(rng.sample(calls, 2))
    return Statement(f"SELECT {', '.join(table.key)}, {items} FROM {table.name}")


def _exists(rng: random.Random, tables: list[Table]) -> Statement:
    found = _pair(rng, tables)
    if found is None:
        return _plain(rng, tables)
    left, right, on = found
    scope = Scope(rng, [("a", c) for c in left.columns])
    inner = f"SELECT 1 FROM {right.name} b WHERE {on}"
    text = (
        f"SELECT {_list(rng, left, 'a')} FROM {left.name} a WHERE {rng.choice(['', 'NOT '])}EXISTS ({inner})"
    )
    if rng.random() < 0.4:
        text += f" {rng.choice(['AND', 'OR'])} {condition(scope, 0)}"
    return Statement(text, scope.params)


def _in_subquery(rng: random.Random, tables: list[Table]) -> Statement:
    found = _pair(rng, tables)
    if found is None:
        return _plain(rng, tables)
    left, right, on = found
    pair = on.split(" AND ")[0].replace("a.", "", 1).split(" = b.")
    scope = _scope(rng, right)
    where = f" WHERE {condition(scope, 0)}" if rng.random() < 0.5 else ""
    inner = f"(SELECT {pair[1]} FROM {right.name}{where})"
    how = rng.choice(["IN", "NOT IN", "= ANY", "<> ALL", "> ALL", "< ANY"])
    return Statement(
        f"SELECT {_list(rng, left)} FROM {left.name} WHERE {pair[0]} {how} {inner}", scope.params
    )


def _scalar_subquery(rng: random.Random, tables: list[Table]) -> Statement:
    found = _pair(rng, tables)
    if found is None:
        return _plain(rng, tables)
    left, right, on = found
    call = aggregates(rng, [("b", c) for c in right.columns], 1)[0]
    scope = Scope(rng, [("a", c) for c in left.columns])
    where = f" WHERE {condition(scope, 0)}" if rng.random() < 0.5 else ""
    inner = f"(SELECT {call} FROM {right.name} b WHERE {on})"
    return Statement(f"SELECT {_list(rng, left, 'a')}, {inner} AS s FROM {left.name} a{where}", scope.params)


def _values(rng: random.Random, tables: list[Table]) -> Statement:
    del tables
    type_ = rng.choice(["integer", "text", "numeric", "date", "boolean", "bigint", "uuid"])
    rows = ", ".join(f"({literal(type_, value(rng, type_))}, {rng.randrange(9)})" for _ in range(3))
    rows = f"({literal(type_, value(rng, type_, 0))}, 1), {rows}"
    return Statement(f"SELECT x, n FROM (VALUES {rows}) AS v (x, n) WHERE n < 7")


__all__ = ["FAMILIES", "Table", "select"]
