"""A prepared statement alone has no generators (``Wire._answers``): its results are those of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import generators, pq

from herdpy.dbapi.remote import wire as wires
from herdpy.dbapi.remote.wire import ConnectionLostError, Wire, step
from tests.support.server_process import RunningServer

STATEMENTS = [
    step("SELECT $1::int / 2", 5),
    step("SELECT n, repeat('long ', $1) FROM generate_series(1, 400) AS s (n)", 300),
    step("SELECT 1 WHERE $1 > 1", 0),
    step("UPDATE answered SET v = v + $1", 1),
    step("SELECT 1 / $1::int", 0),
    step("SELECT length($1)", "much to send" * 400_000),
    step("SET application_name = 'x'"),
]


@pytest.fixture(scope="module")
def dsn(server: RunningServer) -> str:
    dsn = f"host=127.0.0.1 port={server.port} user=ann dbname=test"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE answered (v INT)")
        connection.execute("INSERT INTO answered VALUES (1), (2)")
    return dsn


@pytest.fixture
def wire(dsn: str) -> Iterator[Wire]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield Wire(connection.pgconn, lambda: True)


def answers(wire: Wire) -> list[Any]:
    """What comes of each statement once it is prepared."""
    found = []
    for one in STATEMENTS:
        wire.run([one])
        wire.run([one])
        name = wire._prepared.ready(*one)
        if name is None:  # preparing it failed with it
            name = b"failing"
            wire.pgconn.prepare(name, one[0].encode(), one[1].types)
        for result in wire._run_alone(name, one[1], None):
            rows = [
                [result.get_value(row, column) for column in range(result.nfields)]
                for row in range(result.ntuples)
            ]
            state = result.error_field(pq.DiagnosticField.SQLSTATE)
            found.append((result.status, result.command_status, rows, state))
    return found


def test_the_results_are_those_of_the_generators(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    wire.run([step("UPDATE answered SET v = 1")])
    plain = answers(wire)
    wire.run([step("UPDATE answered SET v = 1")])
    with monkeypatch.context() as patch:
        patch.setattr(wires, "_SOON_MS", 0)  # each is waited for by a generator
        late = answers(wire)
    monkeypatch.setattr(
        Wire,
        "_answers",
        lambda self, deadline: list(self._wait(generators.execute(self.pgconn), deadline)),
    )
    assert plain == late == answers(wire)
    assert [status for status, *_ in plain] == [
        pq.ExecStatus.TUPLES_OK,
        pq.ExecStatus.TUPLES_OK,
        pq.ExecStatus.TUPLES_OK,
        pq.ExecStatus.COMMAND_OK,
        pq.ExecStatus.FATAL_ERROR,
        pq.ExecStatus.TUPLES_OK,
        pq.ExecStatus.COMMAND_OK,
    ]


def test_a_connection_that_ends_is_lost(dsn: str, wire: Wire) -> None:
    one = step("SELECT v FROM answered WHERE v > $1", 0)
    for _ in range(3):
        wire.run([one])
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (wire.pgconn.backend_pid,))
    try:
        found = wire.run([one])
    except ConnectionLostError:
        assert wire.is_broken
    else:
        assert found[-1].error_field(pq.DiagnosticField.SQLSTATE) == b"57P01"


def test_a_copy_as_a_prepared_statement_ends_the_connection(wire: Wire) -> None:
    wire.pgconn.prepare(b"copy", b"COPY answered TO STDOUT")
    with pytest.raises(ConnectionLostError, match="COPY as a prepared statement"):
        wire._run_alone(b"copy", step("")[1], None)
    assert wire.is_broken
