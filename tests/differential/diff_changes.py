"""Random changes of rarer kinds: ON CONFLICT, UPDATE FROM, DELETE USING, MERGE, changes in WITH, ALTER TABLE.

Each takes a ``Generator`` and gives a statement; what ALTER TABLE does to the generator's picture of the
table is done when the statement went well.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from diff_expressions import Column, Scope, condition
from diff_run import Statement
from diff_values import KEY_TYPES, literal, value

if TYPE_CHECKING:
    from diff_generate import Generator
    from diff_queries import Table


def _row(rng: random.Random, columns: list[Column], params: list[tuple[str, str | None]]) -> str:
    cells = []
    for column in columns:
        text = value(rng, column.type, 0.01 if column.not_null else 0.15)
        if rng.random() < 0.3:
            params.append((column.type, text))
            cells.append(f"${len(params)}")
        else:
            cells.append(literal(column.type, text, bare=True))
    return f"({', '.join(cells)})"


def _plain(table: Table) -> list[Column]:
    """The columns that no key or unique index has: changing them fails in one way at most."""
    unique = {*table.key, *(n for names, one in table.indexes.values() if one for n in names)}
    return [c for c in table.columns if c.name not in unique]


def _keyed(generator: Generator) -> Table | None:
    found = [t for t in generator.tables.values() if t.key and _plain(t)]
    return generator.rng.choice(found) if found else None


def on_conflict(generator: Generator) -> Statement:
    """INSERT ... ON CONFLICT by the key, of one row or several."""
    rng, table = generator.rng, _keyed(generator)
    if table is None:
        return generator._insert()
    params: list[tuple[str, str | None]] = []
    rows = ", ".join(_row(rng, table.columns, params) for _ in range(rng.choice([1, 1, 2, 4])))
    target = f" ({', '.join(table.key)})"
    if rng.random() < 0.4:
        action = "DO NOTHING"
        target = target if rng.random() < 0.6 else ""
    else:
        column = rng.choice(_plain(table))
        source = rng.choice([f"excluded.{column.name}", f"{table.name}.{column.name}", "DEFAULT"])
        where = f" WHERE {table.name}.{column.name} IS DISTINCT FROM excluded.{column.name}"
        if column.type == "json" or rng.random() < 0.6:
            where = ""
        action = f"DO UPDATE SET {column.name} = {source}{where}"
    names = ", ".join(c.name for c in table.columns)
    returning = generator._returning(table)
    return Statement(
        f"INSERT INTO {table.name} ({names}) VALUES {rows} ON CONFLICT{target} {action}{returning}",
        params,
        loose=True,
        typed=rng.random() < 0.5,
    )


def _matched(generator: Generator) -> tuple[Table, Table, str, str] | None:
    """A keyed table to change, and another with a column that is like its one-column key."""
    rng = generator.rng
    tables = list(generator.tables.values())
    found = [
        (table, other, table.key[0], other.key[0])
        for table in tables
        for other in tables
        if table is not other
        and len(table.key) == len(other.key) == 1
        and table.column(table.key[0]).type == other.column(other.key[0]).type
        and _plain(table)
    ]
    return rng.choice(found) if found else None


def update_from(generator: Generator) -> Statement:
    """UPDATE ... FROM a table that has one row at most for each row that changes."""
    rng, found = generator.rng, _matched(generator)
    if found is None:
        return on_conflict(generator)
    table, other, mine, its = found
    column = rng.choice(_plain(table))
    fitting = [c.name for c in other.columns if c.type == column.type]
    source = (
        f"o.{rng.choice(fitting)}" if fitting else literal(column.type, value(rng, column.type, 0), bare=True)
    )
    returning = f" RETURNING t.{mine}, o.*" if rng.random() < 0.3 else ""
    return Statement(
        f"UPDATE {table.name} AS t SET {column.name} = {source} FROM {other.name} AS o "
        f"WHERE t.{mine} = o.{its}{returning}",
        loose=True,
    )


def delete_using(generator: Generator) -> Statement:
    """DELETE ... USING."""
    rng, found = generator.rng, _matched(generator)
    if found is None:
        return on_conflict(generator)
    table, other, mine, its = found
    scope = Scope(rng, [("o", c) for c in other.columns])
    where = f"t.{mine} = o.{its} AND {condition(scope, 0)}"
    return Statement(f"DELETE FROM {table.name} AS t USING {other.name} AS o WHERE {where}", scope.params)


def merge(generator: Generator) -> Statement:
    """MERGE by the keys of two tables."""
    rng, found = generator.rng, _matched(generator)
    if found is None:
        return on_conflict(generator)
    table, other, mine, its = found
    column = rng.choice(_plain(table))
    fitting = [c.name for c in other.columns if c.type == column.type]
    source = (
        f"o.{rng.choice(fitting)}" if fitting else literal(column.type, value(rng, column.type, 0), bare=True)
    )
    matched = rng.choice(["DELETE", f"UPDATE SET {column.name} = {source}", "DO NOTHING"])
    items = []
    for one in table.columns:
        like = [c.name for c in other.columns if c.type == one.type]
        items.append(
            f"o.{rng.choice(like)}" if like else literal(one.type, value(rng, one.type, 0), bare=True)
        )
    items[table.columns.index(table.column(mine))] = f"o.{its}"
    unmatched = rng.choice(["DO NOTHING", f"INSERT VALUES ({', '.join(items)})"])
    return Statement(
        f"MERGE INTO {table.name} AS t USING {other.name} AS o ON t.{mine} = o.{its} "
        f"WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN {unmatched}",
        loose=True,
    )


def with_changes(generator: Generator) -> Statement:
    """A change in WITH, read by a query that sees the rows as they were."""
    rng, table = generator.rng, _keyed(generator)
    if table is None:
        return generator._insert()
    scope = Scope(rng, [("", c) for c in table.columns], with_params=False)
    where = condition(scope, 0)
    kind = rng.random()
    if kind < 0.5:
        change = f"DELETE FROM {table.name} WHERE {where} RETURNING *"
    else:
        column = rng.choice(_plain(table))
        new = literal(column.type, value(rng, column.type, 0), bare=True)
        change = f"UPDATE {table.name} SET {column.name} = {new} WHERE {where} RETURNING *"
    reads = rng.choice([
        f"SELECT (SELECT count(*) FROM w), (SELECT count(*) FROM {table.name})",
        f"SELECT {', '.join(table.key)} FROM w",
    ])  # fmt: skip
    return Statement(f"WITH w AS ({change}) {reads}", loose=True)


def alter_table(generator: Generator) -> Statement:
    """A column added, renamed, dropped or given another default."""
    rng = generator.rng
    table = generator._any()
    kind = rng.random()
    generator._names += 1
    if kind < 0.4 and len(table.columns) < 10:
        type_ = rng.choice(KEY_TYPES)
        default = literal(type_, value(rng, type_, 0)) if rng.random() < 0.6 else None
        added = Column(f"c{generator._names}x", type_, default is not None and rng.random() < 0.4, default)
        generator._effect = lambda: table.columns.append(added)
        null = " NOT NULL" if added.not_null else ""
        text = f" DEFAULT {default}" if default is not None else ""
        return Statement(f"ALTER TABLE {table.name} ADD COLUMN {added.name} {type_}{text}{null}")
    column = rng.choice(table.columns)
    used = {*table.key, "c0", *(n for names, _ in table.indexes.values() for n in names)}
    if kind < 0.6 and column.name not in used:
        name = f"c{generator._names}r"

        def renamed() -> None:
            column.name = name

        generator._effect = renamed
        return Statement(f"ALTER TABLE {table.name} RENAME COLUMN {column.name} TO {name}")
    if kind < 0.75 and column.name not in used and len(table.columns) > 2:
        generator._effect = lambda: table.columns.remove(column)
        return Statement(f"ALTER TABLE {table.name} DROP COLUMN {column.name}")
    default = literal(column.type, value(rng, column.type, 0))

    def given() -> None:
        column.default = default

    generator._effect = given
    return Statement(f"ALTER TABLE {table.name} ALTER COLUMN {column.name} SET DEFAULT {default}")


CHANGES = [on_conflict, on_conflict, update_from, delete_using, merge, with_changes]
