"""The same messages sent to HerdPy and to PostgreSQL: the same messages come back, in the same order.

Compared are types of messages, SQLSTATE and severity of errors, transaction status, command tags,
descriptions and rows. Each sequence has a connection of its own, and fresh tables.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from tests.pgwire.sequences import ALL, BAD, INSERT, KEY, ONE, SEQUENCES
from tests.pgwire.servers import ThreadServer
from tests.pgwire.wire import FLUSH, SYNC, TERMINATE, Wire, bind, close, describe, execute, parse, query

TABLES = (
    "DROP TABLE IF EXISTS w",
    "CREATE TABLE w (a int PRIMARY KEY, b text, c numeric(10,2))",
    "INSERT INTO w VALUES (1, 'one', 1.5), (2, 'two', NULL), (3, NULL, 3)",
)


def converse(address: Any, dsn: str, sequence: list[bytes]) -> list[Any]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in TABLES:
            connection.execute(statement)
    with Wire(address) as wire:
        wire.start(database="postgres")
        wire.send(*sequence, TERMINATE)
        return [one.meaning() for one in wire.rest() if one.kind != "S"]


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_sequence_is_answered_as_postgres_does(
    name: str, server: ThreadServer, postgres: str, postgres_address: str
) -> None:
    expected = converse(postgres_address, postgres, SEQUENCES[name])
    assert converse(server.address, server.dsn, SEQUENCES[name]) == expected


_names = st.sampled_from(["", "s", "t"])
_values = st.lists(st.sampled_from([None, b"1", b"2", b"x", ONE]), max_size=2)
_formats = st.sampled_from([(), (0,), (1,), (0, 0)])
_texts = st.sampled_from(
    [
        ALL,
        KEY,
        INSERT,
        BAD,
        "",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SELECT 1; SELECT 2",
        "SELECT nothing",
        "UPDATE w SET b = $1",
    ]
)
_messages = st.one_of(
    st.builds(parse, _texts, _names),
    st.builds(
        lambda v, p, s, f, r: bind(v, portal=p, statement=s, formats=f, results=r),
        _values,
        _names,
        _names,
        _formats,
        _formats,
    ),
    st.builds(describe, st.sampled_from("SP"), _names),
    st.builds(execute, _names, st.sampled_from([0, 1, 2])),
    st.builds(close, st.sampled_from("SP"), _names),
    st.just(SYNC),
    st.just(SYNC),
    st.just(FLUSH),
    st.builds(query, _texts.filter(lambda sql: "$" not in sql)),
)


@seed(20260)
@settings(max_examples=80)
@given(sequence=st.lists(_messages, max_size=14))
def test_any_sequence_is_answered_as_postgres_does(
    sequence: list[bytes], server: ThreadServer, postgres: str, postgres_address: str
) -> None:
    sequence = [*sequence, SYNC]
    expected = converse(postgres_address, postgres, sequence)
    assert converse(server.address, server.dsn, sequence) == expected
