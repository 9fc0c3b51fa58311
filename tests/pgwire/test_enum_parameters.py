"""ENUMs and arrays of them as parameters, declared by object id, in both formats, as in PostgreSQL."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.enum import EnumInfo, register_enum

from tests.pgwire.servers import ThreadServer


class Mood(enum.Enum):
    SAD = enum.auto()
    OK = enum.auto()


@pytest.fixture(scope="module")
def both(server: ThreadServer, postgres: str) -> Iterator[list[psycopg.Connection[Any]]]:
    with (
        psycopg.connect(server.dsn, autocommit=True) as ours,
        psycopg.connect(postgres, autocommit=True) as theirs,
    ):
        for connection in (ours, theirs):
            connection.execute("DROP TYPE IF EXISTS ep_mood")
            connection.execute("CREATE TYPE ep_mood AS ENUM ('SAD', 'OK')")
            info = EnumInfo.fetch(connection, "ep_mood")
            assert info is not None
            register_enum(info, connection, Mood)
        yield [ours, theirs]
        theirs.execute("DROP TYPE IF EXISTS ep_mood")


@pytest.mark.parametrize("form", ["t", "b"])
@pytest.mark.parametrize("binary", [False, True])
def test_enums_and_arrays_of_them(both: list[psycopg.Connection[Any]], form: str, binary: bool) -> None:
    given: list[tuple[str, Any]] = [
        ("SELECT %{0}, pg_typeof(%{0})::text", [Mood.OK, Mood.SAD]),
        ("SELECT %{0}, pg_typeof(%{0})::text", [[Mood.OK, Mood.SAD], [Mood.OK]]),
        (
            "SELECT %{0}::text[], %{0} = ANY(%{0}), %{0} <> ALL(%{0})",
            [[Mood.OK], *[Mood.SAD, [Mood.SAD]] * 2],
        ),
        ("SELECT %{0} < %{0}, %{0}::text", [Mood.SAD, Mood.OK, Mood.OK]),
    ]
    ours, theirs = (
        [connection.execute(sql.format(form), values, binary=binary).fetchall() for sql, values in given]
        for connection in both
    )
    assert ours == theirs
    assert ours[0] == [(Mood.OK, "ep_mood")]


def test_an_object_id_of_a_type_that_is_gone(both: list[psycopg.Connection[Any]]) -> None:
    for connection in both:
        connection.execute("CREATE TYPE ep_gone AS ENUM ('A')")
        info = EnumInfo.fetch(connection, "ep_gone")
        assert info is not None
        connection.execute("DROP TYPE ep_gone")
        for oid in (info.oid, info.array_oid):
            refused = connection.pgconn.prepare(b"", b"SELECT $1", [oid])
            assert refused.error_field(psycopg.pq.DiagnosticField.SQLSTATE) in (b"42704", b"XX000")
