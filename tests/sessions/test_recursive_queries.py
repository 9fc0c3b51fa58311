"""Queries that read themselves: which PostgreSQL 15 refuses and how, and those that would never end."""

# ruff: noqa: E501 - a query is one line
from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import herdpy

POSTGRES: list[tuple[str, str | list[int]]] = [
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n+1 FROM r WHERE n<3 AND n IN (SELECT n FROM r)) SELECT * FROM r",
        "42P19",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT (SELECT max(n)+1 FROM r) WHERE false) SELECT * FROM r",
        "42P19",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT 2 WHERE EXISTS (SELECT 1 FROM r WHERE n<0)) SELECT * FROM r",
        "42P19",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n+1 FROM r WHERE n<3 FOR UPDATE) SELECT * FROM r",
        "0A000",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL (SELECT n+1 FROM r WHERE n<3 FOR UPDATE)) SELECT * FROM r",
        "0A000",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT r.n+1 FROM t LEFT JOIN r ON r.n=t.a WHERE r.n<3) SELECT * FROM r",
        "42P19",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT r.n+1 FROM r LEFT JOIN t ON r.n=t.a WHERE r.n<3) SELECT * FROM r",
        [1, 2, 3],
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT r.n+1 FROM r RIGHT JOIN t ON r.n=t.a WHERE r.n<3) SELECT * FROM r",
        "42P19",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT r.n+1 FROM t RIGHT JOIN r ON r.n=t.a WHERE r.n<3) SELECT * FROM r",
        [1, 2, 3],
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT r.n+1 FROM r FULL JOIN t ON r.n=t.a WHERE r.n<3) SELECT * FROM r",
        "42P19",
    ),
    ("WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT max(n)+1 FROM r WHERE n<3) SELECT * FROM r", "42P19"),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n+1 FROM r WHERE n<3 GROUP BY n) SELECT * FROM r",
        [1, 2, 3],
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n+1 FROM r WHERE n<3 GROUP BY n HAVING count(*)>0) SELECT * FROM r",
        "42P19",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT DISTINCT n+1 FROM r WHERE n<3) SELECT * FROM r",
        [1, 2, 3],
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT CAST(row_number() OVER () AS int)+n FROM r WHERE n<3) SELECT * FROM r",
        [1, 2, 3],
    ),
    ("WITH RECURSIVE r AS (SELECT 1 n EXCEPT SELECT n+1 FROM r WHERE n<3) SELECT * FROM r", "42P19"),
    ("WITH RECURSIVE r AS (SELECT 1 n INTERSECT SELECT n+1 FROM r WHERE n<3) SELECT * FROM r", "42P19"),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL (SELECT n+1 FROM r WHERE n<3 EXCEPT SELECT 5)) SELECT * FROM r",
        [1, 2, 3],
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL (SELECT 5 EXCEPT SELECT n+1 FROM r WHERE n<3)) SELECT * FROM r",
        "42P19",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL (SELECT 5 INTERSECT SELECT n+1 FROM r WHERE n<3)) SELECT * FROM r",
        [1],
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT a.n+1 FROM r a, r b WHERE a.n<3) SELECT * FROM r",
        "42P19",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL (SELECT n+1 FROM r WHERE n<3 UNION ALL SELECT n+2 FROM r WHERE n<3)) SELECT * FROM r",
        "42P19",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n+1 FROM r WHERE n<3 ORDER BY 1) SELECT * FROM r",
        "0A000",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n+1 FROM r WHERE n<3 LIMIT 2) SELECT * FROM r",
        "0A000",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n+1 FROM r WHERE n<3 OFFSET 1) SELECT * FROM r",
        "0A000",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL (SELECT n+1 FROM r WHERE n<3 ORDER BY 1)) SELECT * FROM r",
        [1, 2, 3],
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL (SELECT n+1 FROM r WHERE n<3 LIMIT 1)) SELECT * FROM r",
        [1, 2, 3],
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL (SELECT n+1 FROM r WHERE n<3 OFFSET 0)) SELECT * FROM r",
        [1, 2, 3],
    ),
    (
        "WITH RECURSIVE r AS (SELECT n+1 AS n FROM s WHERE n<3), s AS (SELECT n FROM r) SELECT * FROM r",
        "0A000",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n+1 FROM s WHERE n<3), s AS (SELECT 1 n UNION ALL SELECT n+1 FROM r WHERE n<3) SELECT * FROM r",
        "0A000",
    ),
    ("WITH RECURSIVE r AS (SELECT n FROM r) SELECT * FROM r", "42P19"),
    ("WITH RECURSIVE r(n) AS (SELECT n FROM r UNION ALL SELECT 1) SELECT * FROM r", "42P19"),
    ("WITH RECURSIVE r(n) AS (SELECT n FROM r UNION ALL SELECT n FROM r) SELECT * FROM r", "42P19"),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM (SELECT n FROM r WHERE n<3) q) SELECT * FROM r",
        [1, 2, 3],
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM (SELECT max(n) n FROM r WHERE n<3) q) SELECT * FROM r",
        "42P19",
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM (SELECT n FROM r WHERE n<3 LIMIT 1) q) SELECT * FROM r",
        [1, 2, 3],
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT q.n+1 FROM (SELECT n FROM r WHERE n<3 ORDER BY n) q) SELECT * FROM r",
        [1, 2, 3],
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT q.n+1 FROM t LEFT JOIN (SELECT n FROM r WHERE n<3) q ON q.n=t.a) SELECT * FROM r",
        "42P19",
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r WHERE n<(SELECT max(a) FROM t)) SELECT * FROM r",
        [1, 2],
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL (WITH q AS (SELECT n FROM r) SELECT n+1 FROM q WHERE n<3)) SELECT * FROM r",
        [1, 2, 3],
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL (WITH q AS (SELECT n FROM r) SELECT a.n+1 FROM q a, q b WHERE a.n<3)) SELECT * FROM r",
        [1, 2, 3],
    ),
    ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+'a' FROM r) SELECT * FROM r", "22P02"),
    ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1.5 FROM r WHERE n<3) SELECT * FROM r", "42804"),
    ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1, 2 FROM r WHERE n<3) SELECT * FROM r", "42601"),
    ("WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n FROM r) SELECT * FROM r", [1]),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r JOIN t ON t.a=r.n AND t.a IN (SELECT n FROM r)) SELECT * FROM r",
        "42P19",
    ),
    (
        "WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL VALUES ((SELECT max(n) FROM r))) SELECT * FROM r",
        "42P19",
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r WHERE n<3 FOR SHARE OF r) SELECT * FROM r",
        "0A000",
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT t.a+1 FROM r, t WHERE n<1 FOR UPDATE OF t) SELECT * FROM r",
        "0A000",
    ),
    ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT 1 FROM t WHERE false) SELECT * FROM r", [1]),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r, LATERAL (SELECT max(a) FROM t WHERE a<=r.n) l WHERE n<3) SELECT * FROM r",
        [1, 2, 3],
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT t.a FROM t, LATERAL (SELECT n FROM r WHERE r.n<t.a) l) SELECT * FROM r",
        [1, 2],
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r WHERE n<3 ORDER BY (SELECT n FROM r)) SELECT * FROM r",
        "0A000",
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r WHERE n<3 LIMIT (SELECT n FROM r)) SELECT * FROM r",
        "0A000",
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT count(*)::int FROM r JOIN t ON t.a = n WHERE n<3) SELECT * FROM r",
        "42P19",
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT (SELECT count(*) FROM t WHERE a<=r.n)::int+n FROM r WHERE n<3) SELECT * FROM r",
        [1, 2, 4],
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT q.n+1 FROM r q WHERE q.n<3) SELECT * FROM r",
        [1, 2, 3],
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT 1 FROM r WHERE false UNION ALL SELECT n+1 FROM r WHERE n<3) SELECT * FROM r",
        "42P19",
    ),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT n+1 FROM r WHERE n<3) SELECT * FROM r",
        [1, 2, 2, 3, 3],
    ),
    (
        "WITH RECURSIVE r(n) AS ((SELECT 1 UNION ALL SELECT n+1 FROM r WHERE n<3) LIMIT 2) SELECT * FROM r",
        "0A000",
    ),
    ("WITH r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r) SELECT * FROM r", "42P01"),
    ("WITH RECURSIVE r(n) AS (INSERT INTO t SELECT n,1 FROM r RETURNING a) SELECT * FROM r", "42P19"),
    (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r), r(n) AS (SELECT 1) SELECT * FROM r",
        "42712",
    ),
]
"""What PostgreSQL 15 answers: the SQLSTATE, or the rows."""

ENDLESS = "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n+1 FROM r) "


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[herdpy.Connection]:
    with herdpy.connect(f"herdpy://{tmp_path_factory.mktemp('recursive')}", autocommit=True) as made:
        made.execute("CREATE TABLE t (a int PRIMARY KEY, b int)")
        made.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
        yield made


def _answer(connection: herdpy.Connection, query: str) -> str | list[int]:
    try:
        return [row[0] for row in connection.execute(query).fetchall()]
    except herdpy.Error as error:
        return str(error.sqlstate)


@pytest.mark.parametrize(("query", "answer"), POSTGRES)
def test_as_in_postgres(connection: herdpy.Connection, query: str, answer: str | list[int]) -> None:
    found = _answer(connection, query)
    if isinstance(found, list) and isinstance(answer, list) and " ORDER BY " not in query:
        found, answer = sorted(found), sorted(answer)  # the parts of a UNION ALL come in any order
    assert found == answer


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("SELECT * FROM r LIMIT 5", [1, 2, 3, 4, 5]),
        ("SELECT n FROM r WHERE n % 2 = 0 OFFSET 3 LIMIT 2", [8, 10]),
        ("SELECT n FROM r LIMIT (SELECT max(a) FROM t) OFFSET 1 + 1", [3, 4]),
        ("SELECT n FROM r LIMIT 0", []),
        ("SELECT n FROM r FETCH FIRST 2 ROWS ONLY", [1, 2]),
        ("SELECT r.n FROM r JOIN t ON t.a = r.n LIMIT 2", [1, 2]),
        ("SELECT n FROM (SELECT n FROM r LIMIT 3) q ORDER BY n DESC", [3, 2, 1]),
        ("SELECT EXISTS (SELECT 1 FROM r WHERE n = 10)", [True]),
        ("SELECT (SELECT n FROM r LIMIT 1)", [1]),
        (", s AS (SELECT n * 2 m FROM r) SELECT m FROM s LIMIT 2", [2, 4]),
    ],
)
def test_a_limit_ends_it(connection: herdpy.Connection, query: str, answer: list[int]) -> None:
    assert _answer(connection, ENDLESS.rstrip() + " " * (query[0] != ",") + query) == answer


def test_a_limit_that_is_a_parameter_ends_it(connection: herdpy.Connection) -> None:
    assert connection.execute(ENDLESS + "SELECT n FROM r LIMIT $1", (3,)).fetchall() == [(1,), (2,), (3,)]


def test_a_limit_ends_what_is_written(connection: herdpy.Connection) -> None:
    connection.execute("CREATE TABLE made AS " + ENDLESS + "SELECT n FROM r LIMIT 5")
    connection.execute("INSERT INTO made " + ENDLESS + "SELECT n FROM r LIMIT 5")
    assert connection.execute("SELECT count(*), sum(n) FROM made").fetchall() == [(10, 30)]


def test_arrays_grow_from_round_to_round(connection: herdpy.Connection) -> None:
    found = connection.execute(
        "WITH RECURSIVE r AS (SELECT 1 n, ARRAY[1] p UNION ALL SELECT n+1, p || (n+1) FROM r WHERE NOT n+1 > 3) "
        "SELECT n, p FROM r ORDER BY n"
    ).fetchall()
    assert found == [(1, [1]), (2, [1, 2]), (3, [1, 2, 3])]


def test_a_column_of_another_type_is_named(connection: herdpy.Connection) -> None:
    with pytest.raises(herdpy.Error, match=r"column 1 has type integer in .* but type integer\[\] overall"):
        connection.execute(
            "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT ARRAY[n] FROM r) SELECT * FROM r"
        )


def test_a_query_reads_one_that_comes_later(connection: herdpy.Connection) -> None:
    query = "WITH RECURSIVE a AS (SELECT n+1 AS n FROM b), b AS (SELECT 1 n) SELECT n FROM a"
    assert _answer(connection, query) == [2]


def test_with_within_a_recursive_query(connection: herdpy.Connection) -> None:
    query = "WITH RECURSIVE r AS (WITH q AS (SELECT 1 a) SELECT a FROM q UNION ALL SELECT r.a + q.a FROM r, q WHERE r.a < 3) SELECT a FROM r"
    assert _answer(connection, query) == [1, 2, 3]


def test_a_name_that_is_hidden_is_no_recursion(connection: herdpy.Connection) -> None:
    query = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL (WITH r AS (SELECT 5 m) SELECT max(m) FROM r)) SELECT n FROM r"
    assert _answer(connection, query) == [1, 5]


def test_endless_ones_end_by_a_cancel(connection: herdpy.Connection) -> None:
    asked = threading.Event()

    def cancel() -> None:
        asked.wait()
        while not ended.wait(0.01):
            connection.cancel()

    ended = threading.Event()
    canceller = threading.Thread(target=cancel)
    canceller.start()
    try:
        asked.set()
        assert _answer(connection, ENDLESS.replace("n+1", "n") + "SELECT count(*) FROM r") == "57014"
    finally:
        ended.set()
        canceller.join()
    assert _answer(connection, "SELECT a FROM t ORDER BY a") == [1, 2]


@pytest.mark.parametrize("made_of", ["SELECT * FROM r", "CREATE TABLE kept AS SELECT * FROM r"])
def test_endless_rows_do_not_fill_memory(tmp_path: Path, made_of: str) -> None:
    rounds = "WITH RECURSIVE r AS (SELECT repeat('x', 100000) n UNION ALL SELECT n FROM r) "
    before, _, after = made_of.partition("SELECT")
    with herdpy.connect(f"herdpy://{tmp_path}", autocommit=True, query_memory_bytes=32 << 20) as connection:
        with pytest.raises(herdpy.Error, match="gave more than 33554432 bytes") as caught:
            connection.execute(f"{before}{rounds}SELECT{after}").fetchall()
        assert caught.value.sqlstate == "53200"
        assert _answer(connection, "SELECT 1") == [1]
