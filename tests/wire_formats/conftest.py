"""A raw connection to PostgreSQL: what its own input and output functions say of a value's bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import pq

from herdpy_server.wire import decoder, encoder
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType
from herdpy_sql.values.styles import in_zone

Answer = tuple[str, bytes, bytes] | tuple[str, str]
"""("ok", text, binary) or ("error", SQLSTATE)."""


@dataclass
class Peer:
    """PostgreSQL, asked value by value."""

    conn: psycopg.Connection
    message: str = ""

    def ask(self, sql_type: SqlType, data: bytes, binary: bool) -> Answer:
        """Have it read ``data`` as a value assigned to ``sql_type``, and write it in both formats."""
        if sql_type.typmod == -1:
            sql = "SELECT $1"
        else:
            table = "t_" + "".join(c if c.isalnum() else "_" for c in str(sql_type))
            self._run(f"CREATE TEMP TABLE IF NOT EXISTS {table} (c {sql_type})")
            sql = f"INSERT INTO {table} VALUES ($1) RETURNING c"
        found = []
        for result_format in (0, 1):
            result = self.conn.pgconn.exec_params(
                sql.encode(), [data], [sql_type.oid], [int(binary)], result_format
            )
            if result.status != pq.ExecStatus.TUPLES_OK:
                state = result.error_field(pq.DiagnosticField.SQLSTATE)
                self.message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
                assert state is not None, self.message
                return "error", state.decode()
            value = result.get_value(0, 0)
            assert value is not None
            found.append(value)
        return "ok", found[0], found[1]

    def zone(self, zone: str) -> None:
        """SET TIME ZONE."""
        self._run(f"SET timezone TO '{zone}'")

    def _run(self, sql: str) -> None:
        result = self.conn.pgconn.exec_(sql.encode())
        assert result.status == pq.ExecStatus.COMMAND_OK, result.error_message


@dataclass
class Ours:
    """The same questions to the functions of ``herdpy_server.wire``."""

    zone: str = "UTC"
    message: str = ""

    def ask(self, sql_type: SqlType, data: bytes, binary: bool) -> Answer:
        """As Peer.ask."""
        try:
            datum = decoder(sql_type, binary, in_zone(self.zone))(data)
        except SqlError as error:
            self.message = error.message
            return "error", error.sqlstate
        return (
            "ok",
            encoder(sql_type, False, in_zone(self.zone))(datum),
            encoder(sql_type, True, in_zone(self.zone))(datum),
        )


@pytest.fixture(scope="session")
def peer(postgres: str) -> Iterator[Peer]:
    """PostgreSQL in UTC."""
    with psycopg.connect(postgres, autocommit=True) as conn:
        conn.execute("SET client_min_messages TO error")
        yield Peer(conn)
