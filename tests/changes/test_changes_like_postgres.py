"""Random ON CONFLICT, MERGE, UPDATE ... FROM, DELETE ... USING and WITH: as PostgreSQL does it.

The table has a key, a unique index, a partial unique index, a CHECK, a generated column and a foreign key,
and each statement meets all of them. HERDPY_SEED=n begins with another seed, HERDPY_CASES=n makes more cases.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import psycopg

import herdpy.dbapi

SEED = int(os.environ.get("HERDPY_SEED", "20240611"))
CASES = int(os.environ.get("HERDPY_CASES", "4"))
STATEMENTS = 35

SCHEMA = (
    "CREATE TABLE p (id int PRIMARY KEY, w int)",
    "INSERT INTO p VALUES (0, 5), (1, 6), (2, 7), (3, 8)",
    "CREATE TABLE t (k int PRIMARY KEY, u int UNIQUE, a int CHECK (a < 9), b int DEFAULT 1, "
    "g int GENERATED ALWAYS AS (a * 10 + b) STORED, r int DEFAULT 1 REFERENCES p ON DELETE SET NULL)",
    "CREATE UNIQUE INDEX t_part ON t (b) WHERE a > 6",
    "CREATE TABLE s (k int, u int, a int)",
)


class Statements:
    """Makes statements from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def any(self) -> str:
        kinds = [self.insert, self.insert, self.insert, self.merge, self.merge, self.update, self.delete]
        return self.random.choice([*kinds, self.with_changes, self.with_changes, self.source, self.parent])()

    def number(self, most: int = 9) -> str:
        return "NULL" if self.random.random() < 0.1 else str(self.random.randrange(most + 1))

    def values(self, count: int) -> str:
        rows = self.random.randrange(1, 4)
        return ", ".join(f"({', '.join(self.number() for _ in range(count))})" for _ in range(rows))

    def insert(self) -> str:
        return f"{self._insert()} RETURNING k, u, a, b, g, r"

    def _insert(self) -> str:
        pick = self.random.choice
        rows = pick(
            [
                f"(k, u, a) VALUES {self.values(3)}",
                f"(k, a, r) VALUES {self.values(3)}",
                f"(k, b, a) VALUES ({self.number()}, DEFAULT, {self.number()})",
                "(k, u, a) SELECT DISTINCT ON (k) k, u, a FROM s ORDER BY k, u, a",
                f"(k, u) SELECT k + {self.number(3)}, u FROM t",
            ]
        )
        target = pick(["", "(k)", "(u)", "(b) WHERE a > 6", "ON CONSTRAINT t_pkey"])
        change = "DO NOTHING"
        if target and self.random.random() < 0.7:
            sets = pick(
                [
                    "a = excluded.a",
                    "u = excluded.u, a = t.a + 1",
                    "(a, b) = (excluded.b, t.a)",
                    "k = t.k + 1, b = DEFAULT",
                    "r = excluded.a",
                ]
            )
            change = f"DO UPDATE SET {sets}{pick(['', ' WHERE t.a < excluded.a', ' WHERE excluded.k > 3'])}"
        return f"INSERT INTO t {rows} ON CONFLICT {target} {change}"

    def merge(self) -> str:
        pick = self.random.choice
        source = pick(
            ["(SELECT DISTINCT ON (k) * FROM s ORDER BY k, u, a)", f"(VALUES {self.values(3)})", "s"]
        )
        matched = pick(
            ["DELETE", "DO NOTHING", "UPDATE SET a = v.a, b = DEFAULT", "UPDATE SET (u, a) = (v.u, t.a + 1)"]
        )
        other = pick(["DO NOTHING", "INSERT (k, u, a) VALUES (v.k, v.u, v.a)", "INSERT (k) VALUES (v.k)"])
        text = f"MERGE INTO t USING {source} AS v (k, u, a) ON t.{pick(['k = v.k', 'u = v.u'])}"
        text += f" WHEN MATCHED AND t.a {pick(['>', '<'])} v.a THEN {matched}"
        if self.random.random() < 0.4:
            text += " WHEN MATCHED THEN DO NOTHING"
        return f"{text} WHEN NOT MATCHED AND v.k IS NOT NULL THEN {other}"

    def update(self) -> str:
        pick = self.random.choice
        sets = pick(["a = v.a", "(u, a) = (SELECT max(u), min(a) FROM s)", "b = v.k + t.b", "r = v.a"])
        where = pick(["t.k = v.k", "t.k = v.k AND v.a > 2"])
        source = "(SELECT DISTINCT ON (k) k, max(u) AS u, min(a) AS a FROM s GROUP BY k)"
        returning = "t.k, t.u, t.a, t.b, t.g, t.r, v.k, v.a"
        return f"UPDATE t SET {sets} FROM {source} AS v WHERE {where} RETURNING {returning}"

    def delete(self) -> str:
        return f"DELETE FROM t USING p WHERE p.id = t.r AND t.a = {self.number()} RETURNING t.*, p.w"

    def with_changes(self) -> str:
        pick = self.random.choice
        first = pick(
            [
                f"{self._insert()} RETURNING *",
                f"DELETE FROM t WHERE a = {self.number()} RETURNING *",
                f"UPDATE t SET b = b + 1 WHERE k < {self.number()} RETURNING *",
            ]
        )
        second = pick(
            [
                "SELECT count(*), sum(g) FROM q",
                "SELECT q.k, t.k AS other FROM q LEFT JOIN t ON t.k = q.k",
                "INSERT INTO s SELECT k, u, a FROM q RETURNING *",
                "DELETE FROM s USING q WHERE q.k = s.k RETURNING s.*",
                "UPDATE s SET a = q.b FROM q WHERE q.k = s.k",
            ]
        )
        return f"WITH q AS ({first}) {second}"

    def source(self) -> str:
        return f"INSERT INTO s VALUES {self.values(3)}"

    def parent(self) -> str:
        return self.random.choice(
            [
                f"DELETE FROM p WHERE id = {self.number(3)}",
                f"INSERT INTO p VALUES ({self.number(5)}, 3) ON CONFLICT (id) DO UPDATE SET w = p.w + 1",
            ]
        )


def answer(cursor: Any, text: str) -> Any:
    """What a statement gives: its rows in any order and its count, or an SQLSTATE."""
    try:
        cursor.execute(text)
    except (psycopg.Error, herdpy.dbapi.Error) as error:
        state = getattr(error, "sqlstate", None) or repr(error)
        return (
            "23" if state.startswith("23") else state
        )  # which of several constraints is reported may differ
    rows = sorted(map(tuple, cursor.fetchall()), key=repr) if cursor.description else None
    return rows, cursor.rowcount


def test_changes_are_postgres(postgres: str, tmp_path: Path) -> None:
    wrong, errors, total = [], 0, 0
    with psycopg.connect(postgres, autocommit=True) as theirs:
        for case in range(CASES):
            seed = SEED + case
            print(f"seed {seed}")
            statements = Statements(seed)
            theirs.execute("DROP SCHEMA public CASCADE")
            theirs.execute("CREATE SCHEMA public")
            with herdpy.dbapi.connect(tmp_path / str(case), autocommit=True) as ours:
                for text in SCHEMA:
                    theirs.execute(text)
                    ours.cursor().execute(text)
                for _ in range(STATEMENTS):
                    text = statements.any()
                    given = answer(ours.cursor(), text)
                    wanted = answer(theirs.cursor(), text)
                    total += 1
                    errors += isinstance(wanted, str)
                    for table in ("t", "s", "p"):
                        query = f"SELECT * FROM {table}"
                        if answer(ours.cursor(), query) != answer(theirs.cursor(), query):
                            given = (given, f"{table} differs")
                    if given != wanted:
                        wrong.append((seed, text, given, wanted))
                        break
    assert wrong == []
    assert errors < total / 2, "most statements must do something"
