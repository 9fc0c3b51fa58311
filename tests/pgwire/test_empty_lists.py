"""SELECT with an empty list: rows without columns, described and fetched as PostgreSQL has them."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.pgwire.servers import ThreadServer

QUERIES = [
    "SELECT",
    "SELECT WHERE false",
    "SELECT FROM el_t",
    "SELECT FROM el_t WHERE a = 1",
    "SELECT FROM el_t WHERE a = 1 FOR UPDATE",
    "SELECT FROM el_t ORDER BY a DESC LIMIT 1",
    "SELECT FROM el_t x JOIN el_t y ON x.a = y.b",
]


@pytest.mark.parametrize("binary", [False, True])
def test_rows_without_columns(server: ThreadServer, postgres: str, binary: bool) -> None:
    found = [_answers(dsn, binary) for dsn in (server.dsn, postgres)]
    assert found[0] == found[1]
    assert found[0][0] == ([()], [], "SELECT 1")


def _answers(dsn: str, binary: bool) -> list[Any]:
    answers: list[Any] = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE el_t (a int PRIMARY KEY, b int)")
        try:
            connection.execute("INSERT INTO el_t VALUES (1, 2), (2, 3)")
            for query in QUERIES:
                cursor = connection.execute(query, prepare=binary, binary=binary)
                answers.append((cursor.fetchall(), cursor.description, cursor.statusmessage))
            with connection.transaction(), connection.cursor("el_c") as named:
                named.execute("SELECT FROM el_t")
                answers.append((named.fetchmany(1), named.fetchall(), named.description))
        finally:
            connection.execute("DROP TABLE el_t")
    return answers
