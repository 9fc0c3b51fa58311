"""Columns of texts that repeat are kept as dictionaries; queries of them answer as queries of the rows do."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import herdpy
from herdpy_server.store import columns

ROWS = 3000
TABLE = "CREATE TABLE t (a int PRIMARY KEY, b text, c varchar(9), d text)"
QUERIES = (
    "SELECT b, c, count(*) FROM t GROUP BY b, c ORDER BY b, c",
    "SELECT count(*), min(b), max(c) FROM t WHERE b IN ('red', '') OR c LIKE '%1'",
    "SELECT b IS NULL, count(DISTINCT c), string_agg(DISTINCT b || c, ',' ORDER BY b || c) FROM t GROUP BY 1",
    "SELECT x.b, count(*) FROM t x JOIN (SELECT DISTINCT b, c FROM t) y ON x.b = y.c GROUP BY x.b ORDER BY 1",
    "SELECT a, b, c, d FROM t WHERE a % 5 <> 7",
)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[pa.Schema]:
    """The schema of each table of columns that queries were given."""
    seen: list[pa.Schema] = []
    real = columns.KeptColumns.answer

    def answer(self: columns.KeptColumns, *arguments: Any) -> pa.Table | None:
        found = real(self, *arguments)
        if found is not None:
            found.validate(full=True)
            seen.append(found.schema)
        return found

    monkeypatch.setattr(columns.KeptColumns, "answer", answer)
    return seen


def filled(path: Path) -> None:
    with herdpy.connect(path, autocommit=True) as connection:
        connection.execute(TABLE)
        rows = [
            (a, (None, "", "red", "grün")[a % 4], f"n{a % 50}" if a % 3 else "red", f"only {a}")
            for a in range(ROWS)
        ]
        connection.cursor().executemany("INSERT INTO t VALUES (%s, %s, %s, %s)", rows)


def answers(connection: herdpy.Connection, table: str = "t") -> list[Any]:
    queries = [query.replace("FROM t", f"FROM {table}") for query in QUERIES]
    return [sorted(connection.execute(query).fetchall(), key=repr) for query in queries]


def types(kept: list[pa.Schema]) -> set[tuple[str, bool]]:
    """The text columns that were given, and whether as dictionaries."""
    return {
        (one.name, pa.types.is_dictionary(one.type)) for schema in kept for one in schema if one.name != "a"
    }


def test_texts_that_repeat_are_dictionaries(tmp_path: Path, kept: list[pa.Schema]) -> None:
    filled(tmp_path / "db")
    for _ in range(2):  # the second time they come out of a segment
        with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
            found = answers(connection)
            assert types(kept) == {("b", True), ("c", True), ("d", False)}
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(columns, "_REPEATED", ROWS + 1)
                connection.execute("ALTER TABLE t ADD COLUMN e int")  # so the columns are built anew
                kept.clear()
                assert answers(connection) == found
                assert types(kept) == {("b", False), ("c", False), ("d", False)}
                kept.clear()
            connection.execute("ALTER TABLE t DROP COLUMN e")
            connection.execute("CHECKPOINT")


def test_changes_since_are_in_the_same_form(tmp_path: Path, kept: list[pa.Schema]) -> None:
    filled(tmp_path / "db")
    draw = random.Random(5)
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        answers(connection)
        for turn in range(6):
            a = draw.randrange(ROWS)
            connection.execute("UPDATE t SET b = %s, c = 'new' WHERE a = %s", (f"b{turn}", a))
            connection.execute("UPDATE t SET b = NULL WHERE a = %s", (a + 1,))
            connection.execute("DELETE FROM t WHERE a = %s", (a + 2,))
            connection.execute("INSERT INTO t VALUES (%s, 'red', 'more', NULL)", (ROWS + turn,))
            if turn == 3:
                connection.execute("CHECKPOINT")
            kept.clear()
            found = answers(connection)
            assert types(kept) == {("b", True), ("c", True), ("d", False)}
            assert found == _of_rows(connection)


def _of_rows(connection: herdpy.Connection) -> list[Any]:
    """The answers of a table that has the same rows, and no dictionaries."""
    rows = connection.execute("SELECT a, b, c, d FROM t WHERE a >= 0").fetchall()
    connection.execute("DROP TABLE IF EXISTS u")
    connection.execute(TABLE.replace("t (", "u ("))
    connection.cursor().executemany("INSERT INTO u VALUES (%s, %s, %s, %s)", rows)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(columns, "_REPEATED", 10 * ROWS)
        return answers(connection, "u")
