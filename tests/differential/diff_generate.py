"""Random sessions: definitions, changes, transactions and queries, which follow what became of each other.

A seed gives the same session every time, as long as the statements fare the same.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

from diff_changes import CHANGES, alter_table
from diff_expressions import Column, Scope, condition, of_family
from diff_queries import Table, select
from diff_run import Statement
from diff_values import FAMILY, INTEGERS, KEY_TYPES, POOLS, TYPES, literal, value

# What is known to differ from PostgreSQL, how the generator keeps out of its way, and why it is so.
EXCLUDED = {
    "group-scale, min-ties": "the pool of bare NUMERIC has no equal values of different scale "
    "(docs/sql-differences.md: which of the equals is shown)",
    "float sums": "no SUM or AVG of floats: the last digits depend on the order of the additions",
    "order of key changes": "a key is only set to constants: PostgreSQL checks uniqueness row by row, in "
    "the order in which rows lie in its heap",
    "which error first": "a statement over many rows that may fail in several ways (Statement.loose) may "
    "name another of its errors, of classes 22 and 23",
    "early errors": "WHERE and JOIN conditions raise no errors; expressions that may are in SELECT lists "
    "without LIMIT (docs/sql-differences.md: early-errors)",
    "groups of NUMERIC": "no subquery refers to a group of a NUMERIC without precision "
    "(docs/sql-differences.md: numeric-groups)",
    "NaN of NUMERIC, arrays, to_char, row values": "not generated (docs/sql-differences.md: 0A000)",
    "DDL within a failed transaction's rest": "after an error in a transaction the generator rolls back",
}


class Generator:
    """Gives statements one by one (``next``) and is told how each went (``told``)."""

    def __init__(self, seed: int, *, ddl_in_transactions: bool = True) -> None:
        self.rng = random.Random(seed)
        self.tables: dict[str, Table] = {}
        self._at_begin: dict[str, Table] | None = None
        self._savepoints: list[tuple[str, dict[str, Table]]] = []
        self._failed = False
        self._effect: Callable[[], None] | None = None
        self._names = 0
        self._ddl_in_transactions = ddl_in_transactions

    def next(self) -> Statement:
        """The next statement."""
        rng = self.rng
        self._effect = None
        if self._failed:
            return self._end("ROLLBACK")
        if len(self.tables) < 2 or (len(self.tables) < 5 and rng.random() < 0.03):
            if self._at_begin is not None and not self._ddl_in_transactions:
                return self._end("COMMIT")
            return self._create_table()
        if self._at_begin is not None and rng.random() < 0.12:
            return self._end(rng.choice(["COMMIT", "ROLLBACK", "COMMIT"]))
        kinds: list[tuple[float, Callable[[], Statement]]] = [
            (0.21, self._insert),
            (0.06, lambda: rng.choice(CHANGES)(self)),
            (0.012, lambda: alter_table(self) if self._ddl_possible else self._insert()),
            (0.11, self._update),
            (0.06, self._delete),
            (0.02, self._create_index if self._ddl_possible else self._insert),
            (0.008, self._drop_index if self._ddl_possible else self._update),
            (0.004, self._drop_table if self._ddl_possible else self._update),
            (0.006, self._truncate),
            (0.035, self._transaction),
            (0.487, lambda: select(rng, list(self.tables.values()))),
        ]
        weights = [weight for weight, _ in kinds]
        return rng.choices([make for _, make in kinds], weights)[0]()

    def told(self, failed: bool) -> None:
        """How the statement went."""
        if not failed and self._effect is not None:
            self._effect()
        if failed and self._at_begin is not None:
            self._failed = True

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._at_begin is not None

    @property
    def _ddl_possible(self) -> bool:
        return self._ddl_in_transactions or self._at_begin is None

    def finish(self) -> Statement | None:
        """What ends the session's open transaction."""
        if self._at_begin is None:
            return None
        self._effect = None
        return self._end("ROLLBACK" if self._failed else "COMMIT")

    # Transactions.

    def _transaction(self) -> Statement:
        if self._at_begin is None:

            def begun() -> None:
                self._at_begin = copy.deepcopy(self.tables)

            self._effect = begun
            return Statement("BEGIN")
        name = f"s{self.rng.randrange(3)}"

        def marked() -> None:
            self._savepoints.append((name, copy.deepcopy(self.tables)))

        known = [n for n, _ in self._savepoints]
        if known and self.rng.random() < 0.6:
            name = self.rng.choice(known)
            at = max(i for i, n in enumerate(known) if n == name)
            if self.rng.random() < 0.3:
                self._effect = lambda: self._savepoints.__delitem__(slice(at, None))
                return Statement(f"RELEASE SAVEPOINT {name}")

            def undone() -> None:
                self.tables = copy.deepcopy(self._savepoints[at][1])
                del self._savepoints[at + 1 :]

            self._effect = undone
            return Statement(f"ROLLBACK TO SAVEPOINT {name}")
        self._effect = marked
        return Statement(f"SAVEPOINT {name}")

    def _end(self, how: str) -> Statement:
        if self._failed and self._savepoints and self.rng.random() < 0.5:
            name, tables = self._savepoints[-1]

            def recovered() -> None:
                self.tables = copy.deepcopy(tables)

            self._failed = False
            self._effect = recovered
            return Statement(f"ROLLBACK TO SAVEPOINT {name}")
        before = self._at_begin
        assert before is not None
        undo = how == "ROLLBACK" or self._failed
        self._at_begin, self._failed, self._savepoints = None, False, []
        if undo:
            self.tables = before
        return Statement(how)

    # Definitions.

    def _create_table(self) -> Statement:
        rng = self.rng
        self._names += 1
        name = f"t{self._names}"
        columns = []
        for i in range(rng.randrange(2, 8)):
            type_ = rng.choice(
                TYPES if rng.random() < 0.6 else ["integer", "text", "bigint", "numeric(10,2)"]
            )
            default = None
            if rng.random() < 0.2:
                default = literal(type_, value(rng, type_, 0), bare=rng.random() < 0.5)
            columns.append(Column(f"c{i}", type_, rng.random() < 0.15, default))
        table = Table(name, columns)
        keyed = [c for c in columns if c.type in KEY_TYPES]
        parts = []
        for column in columns:
            null = " NOT NULL" if column.not_null else ""
            default = f" DEFAULT {column.default}" if column.default is not None else ""
            parts.append(f"{column.name} {column.type}{default}{null}")
        if keyed and rng.random() < 0.85:
            table.key = [c.name for c in rng.sample(keyed, min(len(keyed), rng.choice([1, 1, 1, 2, 2, 3])))]
            for column in columns:
                column.not_null = column.not_null or column.name in table.key
            parts.append(f"PRIMARY KEY ({', '.join(table.key)})")
        if keyed and rng.random() < 0.25:
            unique = [c.name for c in rng.sample(keyed, min(len(keyed), rng.choice([1, 2, 2])))]
            parts.append(f"UNIQUE ({', '.join(unique)})")
            table.indexes[f"{name}_{'_'.join(unique)}_key"] = (unique, True)
        numbers = [c.name for c in columns if c.type in INTEGERS]
        if numbers and rng.random() < 0.15:
            parts.append(
                f"CHECK ({rng.choice(numbers)} {rng.choice(['> -5', '<> 7', 'IS NULL OR c0 IS NOT NULL'])})"
            )
        self._effect = lambda: self.tables.__setitem__(name, table)
        return Statement(f"CREATE TABLE {name} ({', '.join(parts)})")

    def _create_index(self) -> Statement:
        rng = self.rng
        table = self._any()
        names = [
            c.name for c in rng.sample(table.comparable, min(len(table.comparable), rng.choice([1, 1, 2])))
        ]
        if not names:
            return self._insert()
        self._names += 1
        unique = rng.random() < 0.2
        name = f"i{self._names}"
        parts = ", ".join(n + rng.choice(["", "", " DESC", " ASC"]) for n in names)
        self._effect = lambda: table.indexes.__setitem__(name, (names, unique))
        return Statement(f"CREATE {'UNIQUE ' if unique else ''}INDEX {name} ON {table.name} ({parts})")

    def _drop_index(self) -> Statement:
        table = self._any()
        made = [name for name in table.indexes if name.startswith("i")]
        if not made:
            return self._create_index()
        name = self.rng.choice(made)
        self._effect = lambda: table.indexes.__delitem__(name)
        return Statement(f"DROP INDEX {name}")

    def _drop_table(self) -> Statement:
        name = self._any().name
        self._effect = lambda: self.tables.__delitem__(name)
        return Statement(f"DROP TABLE {name}")

    def _truncate(self) -> Statement:
        return Statement(f"TRUNCATE {self._any().name}")

    def _any(self) -> Table:
        return self.rng.choice(list(self.tables.values()))

    # Changes.

    def _insert(self) -> Statement:
        rng = self.rng
        table = self._any()
        if rng.random() < 0.08:
            return self._insert_select(table)
        columns = table.columns
        named = ""
        if rng.random() < 0.5:
            columns = [
                c for c in columns if c.name in table.key or c.not_null or rng.random() < 0.7
            ] or columns
            columns = rng.sample(columns, len(columns))
            named = f" ({', '.join(c.name for c in columns)})"
        count = rng.choice([1, 1, 1, 2, 3, 8, 12])
        params: list[tuple[str, str | None]] = []
        with_params = rng.random() < 0.5
        rows = []
        for _ in range(count):
            cells = []
            for column in columns:
                text = value(rng, column.type, 0.01 if column.not_null else 0.15)
                if column.type == "text" and rng.random() < 0.02:
                    text = "k" * rng.choice([479, 480, 481, 600, 2500]) + rng.choice("abc")
                if rng.random() < 0.05:
                    cells.append("DEFAULT")
                elif with_params and len(params) < 60:
                    params.append((column.type, text))
                    cells.append(f"${len(params)}")
                else:
                    cells.append(literal(column.type, text, bare=rng.random() < 0.7))
            rows.append(f"({', '.join(cells)})")
        text = f"INSERT INTO {table.name}{named} VALUES {', '.join(rows)}{self._returning(table)}"
        return Statement(text, params, loose=True, typed=rng.random() < 0.5)

    def _insert_select(self, table: Table) -> Statement:
        rng = self.rng
        source = self._any()
        items = []
        for column in table.columns:
            fitting = [c.name for c in source.columns if c.type == column.type]
            if fitting and rng.random() < 0.8:
                items.append(rng.choice(fitting))
            else:
                items.append(literal(column.type, value(rng, column.type, 0.1), bare=rng.random() < 0.3))
        scope = Scope(rng, [("", c) for c in source.columns])
        return Statement(
            f"INSERT INTO {table.name} SELECT {', '.join(items)} FROM {source.name} "
            f"WHERE {condition(scope, 1)}",
            scope.params,
            loose=True,
        )

    def _returning(self, table: Table) -> str:
        if self.rng.random() < 0.8:
            return ""
        names = ", ".join(c.name for c in self.rng.sample(table.columns, min(2, len(table.columns))))
        return f" RETURNING {self.rng.choice(['*', names])}"

    def _where(self, table: Table, scope: Scope) -> str:
        rng = self.rng
        kind = rng.random()
        if table.key and kind < 0.45:
            return " AND ".join(f"{n} = {scope.constant(table.column(n).type)}" for n in table.key)
        other = self._any()
        if kind < 0.6 and other.name != table.name:
            pairs = [(a.name, b.name) for a in table.comparable for b in other.comparable if a.type == b.type]
            if pairs:
                mine, its = rng.choice(pairs)
                if rng.random() < 0.5:
                    return f"{mine} IN (SELECT {its} FROM {other.name})"
                return f"EXISTS (SELECT 1 FROM {other.name} AS o WHERE o.{its} = {table.name}.{mine})"
        if table.indexes and kind < 0.75:
            names, _ = rng.choice(list(table.indexes.values()))
            return f"{names[0]} = {scope.constant(table.column(names[0]).type)}"
        return condition(scope, 1)

    def _update(self) -> Statement:
        rng = self.rng
        table = self._any()
        scope = Scope(rng, [("", c) for c in table.columns])
        unique = {*table.key, *(n for names, is_unique in table.indexes.values() if is_unique for n in names)}
        sets = []
        for column in rng.sample(table.columns, min(len(table.columns), rng.choice([1, 1, 2]))):
            family = FAMILY.get(column.type)
            if column.name not in unique and family in {"int", "numeric", "text"} and rng.random() < 0.5:
                inner = Scope(rng, scope.columns, with_params=False)
                sets.append(f"{column.name} = {of_family(inner, str(family), 1)}")
            elif rng.random() < 0.06:
                sets.append(f"{column.name} = DEFAULT")
            else:
                text = value(rng, column.type, 0.02 if column.not_null else 0.15)
                if rng.random() < 0.4:
                    sets.append(f"{column.name} = {scope.param(column.type, text)}")
                else:
                    sets.append(f"{column.name} = {literal(column.type, text, bare=True)}")
        where = f" WHERE {self._where(table, scope)}" if rng.random() < 0.95 else ""
        text = f"UPDATE {table.name} SET {', '.join(sets)}{where}{self._returning(table)}"
        return Statement(text, scope.params, loose=True, typed=rng.random() < 0.5)

    def _delete(self) -> Statement:
        rng = self.rng
        table = self._any()
        scope = Scope(rng, [("", c) for c in table.columns])
        where = self._where(table, scope)
        if not table.key or rng.random() < 0.6:
            where = f"({where}) AND {condition(scope, 0)}"
        return Statement(
            f"DELETE FROM {table.name} WHERE {where}{self._returning(table)}",
            scope.params,
            typed=rng.random() < 0.5,
        )


__all__ = ["EXCLUDED", "POOLS", "Generator"]
