"""Names that mean nothing: HerdPy and PostgreSQL tell the same message, hint and position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import herdpy
from herdpy_sql.misspellings import distance_of

TABLES = (
    "CREATE TABLE grades (id INT PRIMARY KEY, grade TEXT, number INT)",
    "CREATE TABLE papers (id INT PRIMARY KEY, author INT, quantity INT, grade TEXT)",
)
STATEMENTS = [
    "SELECT nonesuch FROM grades",
    "SELECT grades.idd FROM grades",
    "SELECT id, grde FROM grades",
    "SELECT upper(numbr) FROM grades WHERE id = 1",
    "SELECT count(numbr) FROM grades",
    "SELECT x.id FROM grades",
    "SELECT grades.id FROM grades AS z",
    "SELECT max(grades.id) FROM grades AS z",
    "SELECT * FROM gradess",
    "SELECT count(*) FROM grades, public.paper",
    "SELECT nosuchfunction(1)",
    "SELECT 1 + lower(1)",
    "SELECT id, count(*) FROM grades",
    "SELECT g.id, p.grade FROM grades g, papers p WHERE g.id = p.id AND id = 1",
    "SELECT id FROM grades, papers",
    "SELECT quantit FROM grades, papers",
    "SELECT grad FROM grades, papers",
    "SELECT grad FROM grades x, grades y, grades z",
    "SELECT papers.numbr FROM grades, papers",
    "SELECT grade.number FROM grades, papers",
    "SELECT (SELECT numbr FROM papers) FROM grades",
    "SELECT id FROM grades ORDER BY nope",
    "SELECT id FROM grades GROUP BY nope",
    "SELECT id AS i FROM grades WHERE i = 1",
    "UPDATE grades SET grade = numbe",
    "DELETE FROM grades WHERE ide = 1",
    "INSERT INTO grades (id, nope) VALUES (1, 2)",
    "INSERT INTO nope VALUES (1)",
    'SELECT "ID" FROM grades',
    "SELECT sum(numbr) OVER () FROM grades",
    "WITH w AS (SELECT id AS key FROM grades) SELECT kez FROM w",
    "SELECT s.kee FROM (SELECT id AS key FROM grades) s",
    "SELECT /* é */ nop FROM grades",
]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[herdpy.Connection]:
    with herdpy.connect(tmp_path_factory.mktemp("names"), autocommit=True) as connection:
        for table in TABLES:
            connection.execute(table)
        yield connection


@pytest.fixture(scope="module")
def theirs(postgres: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA names")
        connection.execute("SET search_path = names")
        for table in TABLES:
            connection.execute(table.encode())
        yield connection


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_wrong_name_is_told_as_postgresql_tells_it(
    sql: str, ours: herdpy.Connection, theirs: psycopg.Connection[Any]
) -> None:
    with pytest.raises(herdpy.Error) as mine:
        ours.execute(sql)
    with pytest.raises(psycopg.Error) as other:
        theirs.execute(sql.encode())
    told = other.value.diag
    position = int(told.statement_position) if told.statement_position else None
    assert (mine.value.sqlstate, mine.value.message, mine.value.hint, mine.value.position) == (
        told.sqlstate, told.message_primary, told.message_hint, position,
    )  # fmt: skip


WORDS = st.text("abc", max_size=6)


@given(WORDS, WORDS, WORDS)
def test_distance_is_a_metric(a: str, b: str, c: str) -> None:
    assert (distance_of(a, b) == 0) == (a == b)
    assert distance_of(a, b) == distance_of(b, a)
    assert distance_of(a, c) <= distance_of(a, b) + distance_of(b, c)
    assert abs(len(a) - len(b)) <= distance_of(a, b) <= max(len(a), len(b))
