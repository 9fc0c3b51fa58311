"""Random schemas with foreign keys and random statements: the same answers and rows as PostgreSQL's.

Every case has a schema of its own: tables that refer to one another and to themselves, with every action
and deferral there is. HERDPY_SEED=n begins with another case, HERDPY_CASES=n makes more of them.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import herdpy

SEED = int(os.environ.get("HERDPY_SEED", "1"))
CASES = int(os.environ.get("HERDPY_CASES", "25"))
STATEMENTS = 40
ACTIONS = ("", "NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT")
TABLES = ("a", "b", "c")
RULES = {"21000", "23502", "23505", "23514"}
"""Of several rows, HerdPy looks at each by itself first, and at its keys when all of them are made."""


class Case:
    """A schema, and statements over it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.constraints: list[tuple[str, str]] = []

    def schema(self) -> Iterator[str]:
        rng = self.rng
        for name in TABLES:
            columns = [
                "id INT PRIMARY KEY",
                f"u INT{' UNIQUE' if rng.random() < 0.8 else ''}",
                f"p INT DEFAULT {rng.choice(('NULL', '1', '2'))}{' NOT NULL' if rng.random() < 0.1 else ''}",
                "q BIGINT",
                "v INT CHECK (v < 9)",
            ]
            columns += ["UNIQUE (u, v)"] if rng.random() < 0.5 else []
            yield f"CREATE TABLE {name} ({', '.join(columns)})"
        for _ in range(rng.randint(2, 5)):
            yield self.reference()
        for name in TABLES:
            if rng.random() < 0.5:
                yield f"CREATE INDEX ON {name} ({rng.choice(('p', 'q', 'p, q', 'q DESC', 'v, p'))})"

    def reference(self) -> str:
        rng = self.rng
        child, parent = rng.choice(TABLES), rng.choice(TABLES)
        name = f"f{len(self.constraints)}"
        self.constraints.append((child, name))
        here, there = rng.choice(
            [
                ("p", ""),
                ("q", ""),
                ("p", "(id)"),
                ("q", "(u)"),
                ("u", "(u)"),
                ("q, p", "(u, v)"),
                ("p, q", "(u, v)"),
            ]
        )
        text = f"ALTER TABLE {child} ADD CONSTRAINT {name} FOREIGN KEY ({here}) REFERENCES {parent} {there}"
        if rng.random() < 0.2:
            text += " MATCH FULL"
        for event in ("DELETE", "UPDATE"):
            action = rng.choice(ACTIONS)
            if action:
                text += f" ON {event} {action}"
                if event == "DELETE" and action.startswith("SET") and rng.random() < 0.3:
                    text += f" ({rng.choice(here.split(', '))})"
        text += rng.choice(("", "", " DEFERRABLE", " DEFERRABLE INITIALLY DEFERRED"))
        return text + (" NOT VALID" if rng.random() < 0.1 else "")

    def statement(self) -> str:
        rng = self.rng
        table = rng.choice(TABLES)
        kind = rng.random()
        if kind < 0.4:
            rows = ", ".join(self.row() for _ in range(rng.choice((1, 1, 1, 2, 3))))
            return f"INSERT INTO {table} VALUES {rows}{self.conflict() if rng.random() < 0.2 else ''}"
        if kind < 0.6:
            column = rng.choice(("id", "u", "p", "q", "v"))
            return f"UPDATE {table} SET {column} = {self.value(column)} WHERE id = {rng.randint(0, 5)}"
        if kind < 0.66:
            return f"UPDATE {table} SET p = {self.value('p')}, q = {self.value('q')}"
        if kind < 0.78:
            return f"DELETE FROM {table} WHERE {rng.choice(('id', 'id', 'u', 'p'))} = {rng.randint(0, 5)}"
        if kind < 0.8:
            return f"DELETE FROM {table}"
        if kind < 0.82:
            other = rng.choice(TABLES)
            return f"DELETE FROM {table} USING {other} WHERE {table}.p = {other}.id"
        if kind < 0.84:
            return f"TRUNCATE {table}{rng.choice(('', ' CASCADE'))}"
        if kind < 0.86:
            return self.definition()
        return rng.choice(
            (
                "BEGIN", "BEGIN", "BEGIN", "COMMIT", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s",
                "SET CONSTRAINTS ALL DEFERRED", "SET CONSTRAINTS ALL IMMEDIATE", self.constraint_mode(),
            )
        )  # fmt: skip

    def constraint_mode(self) -> str:
        name = self.rng.choice(self.constraints)[1]
        return f"SET CONSTRAINTS {name} {self.rng.choice(('DEFERRED', 'IMMEDIATE'))}"

    def definition(self) -> str:
        rng = self.rng
        table, name = rng.choice(self.constraints)
        return rng.choice(
            (
                self.reference(), f"ALTER TABLE {table} DROP CONSTRAINT {name}",
                f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}",
                f"ALTER TABLE {table} ALTER CONSTRAINT {name} DEFERRABLE",
                f"ALTER TABLE {table} ALTER CONSTRAINT {name} NOT DEFERRABLE",
                f"ALTER TABLE {rng.choice(TABLES)} DROP CONSTRAINT {rng.choice(TABLES)}_pkey",
            )
        )  # fmt: skip

    def conflict(self) -> str:
        if self.rng.random() < 0.5:
            return " ON CONFLICT DO NOTHING"
        return f" ON CONFLICT (id) DO UPDATE SET p = {self.value('p')}, u = excluded.u"

    def row(self) -> str:
        return f"({', '.join(self.value(column) for column in ('id', 'u', 'p', 'q', 'v'))})"

    def value(self, column: str) -> str:
        rng = self.rng
        if column != "id" and rng.random() < 0.3:
            return "DEFAULT" if rng.random() < 0.4 else "NULL"
        return str(rng.randint(0, 5) if column != "v" else rng.choice((0, 1, 2, 9)))


def answer(connection: Any, statement: str) -> str:
    """What a statement gave: rows changed, or the SQLSTATE."""
    try:
        cursor = connection.execute(statement)
    except (psycopg.Error, herdpy.Error) as error:
        return str(error.sqlstate)
    return str(cursor.rowcount) if statement[:6] in {"INSERT", "UPDATE", "DELETE"} else "done"


def rows(connection: Any) -> list[list[tuple[Any, ...]]]:
    return [
        sorted(map(tuple, connection.execute(f"SELECT * FROM {name}").fetchall()), key=repr)
        for name in TABLES
    ]


def play(seed: int, ours: Any, theirs: Any) -> Counter[str]:
    """Play a case in both, and compare after each statement; what statements gave."""
    case = Case(seed)
    script: list[str] = []
    given_by_both: Counter[str] = Counter()

    def same(statement: str) -> str:
        script.append(f"{statement};")
        given, wanted = answer(ours, statement), answer(theirs, statement)
        if given != wanted and not {given, wanted} <= RULES:
            listing = "\n".join(script)
            pytest.fail(f"HERDPY_SEED={seed}: {given}, PostgreSQL {wanted}\n{listing}", pytrace=False)
        given_by_both[wanted] += 1
        return wanted

    for statement in case.schema():
        same(statement)
    for number in range(1, STATEMENTS + 1):
        same(case.statement())
        if not number % 4 and theirs.info.transaction_status != psycopg.pq.TransactionStatus.INERROR:
            here, there = rows(ours), rows(theirs)
            if here != there:
                listing = "\n".join(script)
                pytest.fail(f"HERDPY_SEED={seed}: rows {here}, PostgreSQL {there}\n{listing}", pytrace=False)
    for connection in (ours, theirs):
        connection.execute("ROLLBACK")
        connection.execute(f"DROP TABLE {', '.join(TABLES)} CASCADE")
    return given_by_both


def test_the_same_as_postgres(postgres: str, tmp_path: Path) -> None:
    with (
        psycopg.connect(postgres, autocommit=True) as theirs,
        herdpy.connect(tmp_path / "db", autocommit=True) as ours,
    ):
        theirs.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public; SET client_min_messages = error")
        given = sum((play(seed, ours, theirs) for seed in range(SEED, SEED + CASES)), Counter[str]())
    assert given["1"] > 0  # rows were changed
    assert given["23503"] > 0  # and rows were missed
