"""What is done to a partitioned table comes to the same as done to one table, whichever engine looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from herdpy_server.embedded import Database, opened
from herdpy_server.sessions import Session
from herdpy_sql.errors import SqlError
from tests.sessions.stepping import ask

SPREADS = (
    "RANGE (id)",
    "RANGE (g, id)",
    "LIST (g)",
    "HASH (id)",
    "HASH (g, id)",
)
"""Each with a key that has its columns in it, before others or behind them."""
VALUES = st.tuples(st.integers(0, 29), st.integers(0, 4), st.sampled_from(["a", "b", "c"]))
STATEMENTS = st.one_of(
    st.builds(lambda row: f"INSERT INTO {{t}} VALUES ({row[0]}, {row[1]}, '{row[2]}')", VALUES),
    st.builds(
        lambda row: (
            f"INSERT INTO {{t}} VALUES ({row[0]}, {row[1]}, '{row[2]}')"
            " ON CONFLICT (id, g) DO UPDATE SET v = excluded.v"
        ),
        VALUES,
    ),
    st.builds(lambda row: f"UPDATE {{t}} SET v = 'u' WHERE id = {row[0]} AND g = {row[1]}", VALUES),
    st.builds(lambda row: f"UPDATE {{t}} SET id = id + 3 WHERE id = {row[0]}", VALUES),
    st.builds(
        lambda row: f"UPDATE {{t}} SET g = {row[1]} WHERE id BETWEEN {row[0]} AND {row[0] + 4}", VALUES
    ),
    st.builds(lambda row: f"DELETE FROM {{t}} WHERE id > {row[0]} AND g = {row[1]}", VALUES),
    st.builds(lambda row: f"DELETE FROM {{t}} WHERE v = '{row[2]}' AND id = {row[0]}", VALUES),
)
QUESTIONS = st.one_of(
    st.builds(lambda row: f"SELECT * FROM {{t}} WHERE id = {row[0]} AND g = {row[1]}", VALUES),
    st.builds(lambda row: f"SELECT * FROM {{t}} WHERE id BETWEEN {row[0]} AND {row[0] + row[1]}", VALUES),
    st.builds(lambda row: f"SELECT * FROM {{t}} WHERE id IN ({row[0]}, {row[1]}) AND g < {row[1]}", VALUES),
    st.builds(lambda row: f"SELECT * FROM {{t}} WHERE g = {row[1]} AND id >= {row[0]}", VALUES),
    st.builds(lambda row: f"SELECT * FROM {{t}} WHERE v = '{row[2]}' AND g <> {row[1]}", VALUES),
    st.builds(lambda row: f"SELECT * FROM {{t}} WHERE (id, g) > ({row[0]}, {row[1]})", VALUES),
    st.builds(lambda row: f"SELECT g, count(*), max(id) FROM {{t}} WHERE id > {row[0]} GROUP BY g", VALUES),
)
ORDERED = (
    "SELECT * FROM {t} ORDER BY id, g LIMIT 7",
    "SELECT * FROM {t} ORDER BY id DESC, g DESC LIMIT 7",
    "SELECT * FROM {t} ORDER BY v, id, g LIMIT 9",
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with opened(tmp_path_factory.mktemp("spread") / "db") as database:
        yield database


def make(session: Session, spread: str, key: str) -> None:
    ask(session, "DROP TABLE IF EXISTS parted, plain")
    columns = f"(id int, g int, v text, PRIMARY KEY ({key}))"
    ask(session, f"CREATE TABLE plain {columns}")
    ask(session, f"CREATE TABLE parted {columns} PARTITION BY {spread}")
    for table in ("plain", "parted"):
        ask(session, f"CREATE INDEX ON {table} (v, id)")
    for nth, bound in enumerate(bounds(spread)):
        ask(session, f"CREATE TABLE parted{nth} PARTITION OF parted {bound}")


def bounds(spread: str) -> list[str]:
    if spread.startswith("HASH"):
        return [f"FOR VALUES WITH (MODULUS 3, REMAINDER {rest})" for rest in range(3)]
    if spread.startswith("LIST"):
        return ["FOR VALUES IN (0, 3)", "FOR VALUES IN (1)", "DEFAULT"]
    if spread == "RANGE (id)":
        return ["FOR VALUES FROM (10) TO (20)", "FOR VALUES FROM (MINVALUE) TO (10)", "DEFAULT"]
    return [
        "FOR VALUES FROM (MINVALUE, MINVALUE) TO (1, 5)",
        "FOR VALUES FROM (1, 5) TO (3, 0)",
        "FOR VALUES FROM (3, 0) TO (MAXVALUE, MAXVALUE)",
    ]


def answer(session: Session, statement: str, table: str) -> Any:
    try:
        result = ask(session, statement.format(t=table))
    except SqlError as error:
        return error.sqlstate
    return sorted(result) if "ORDER BY" not in statement else result


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    spread=st.sampled_from(SPREADS),
    key=st.sampled_from(["id, g", "g, id"]),
    statements=st.lists(STATEMENTS, min_size=4, max_size=14),
    questions=st.lists(QUESTIONS, min_size=2, max_size=5),
)
def test_the_same_as_one_table(
    database: Database, spread: str, key: str, statements: list[str], questions: list[str]
) -> None:
    session = database.session()
    make(session, spread, key)
    for statement in statements:
        wanted = answer(session, statement, "plain")
        assert answer(session, statement, "parted") == wanted
    for engine in ("own", "columnar", "auto"):
        ask(session, f"SET herdpy.engine = '{engine}'")
        for question in (*questions, *ORDERED):
            wanted = answer(session, question, "plain")
            found = answer(session, question, "parted")
            assert found == wanted or wanted == "0A000", question
    ask(session, "RESET herdpy.engine")


def test_parameters_choose_partitions_when_the_statement_runs(database: Database) -> None:
    session = database.session()
    make(session, "RANGE (id)", "id, g")
    ask(session, "INSERT INTO parted SELECT i, i % 5, 'x' FROM generate_series(0, 29) AS s (i)")
    ask(session, "PREPARE few (int, int) AS SELECT id FROM parted WHERE id >= $1 AND id < $2 ORDER BY id")
    for low, high in ((0, 5), (8, 12), (25, 99), (40, 50), (-5, 0)):
        assert ask(session, f"EXECUTE few ({low}, {high})") == [
            (id_,) for id_ in range(max(low, 0), min(high, 30))
        ]
    ask(session, "PREPARE sums (int) AS SELECT g, sum(id) FROM parted WHERE id = $1 GROUP BY g")
    assert ask(session, "EXECUTE sums (12)") == [(2, 12)]
    assert ask(session, "EXECUTE sums (NULL)") == []
    ask(session, "DEALLOCATE ALL")
