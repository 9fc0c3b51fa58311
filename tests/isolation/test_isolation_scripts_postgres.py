"""The isolation scripts mean what PostgreSQL means: a real server's sessions wait, answer and fail alike."""

from __future__ import annotations

import difflib
import sys
import time
from pathlib import Path

import pytest
from psycopg import pq

sys.path.insert(0, str(Path(__file__).parent))

from isolation_scripts import SCRIPTS, SETUP, play, read_script

_PATIENCE_S = 90
_LOOKS_S = 0.002
_DEADLOCK_S = 0.1
"""After so long a deadlock was found, if there is one: the server looks after 10 ms."""


class Postgres:
    """Sessions of a real server, in a database of their own: other tests leave tables in theirs."""

    def __init__(self, dsn: str) -> None:
        maker = pq.PGconn.connect(dsn.encode())
        maker.exec_(b"DROP DATABASE IF EXISTS isolation WITH (FORCE)")
        assert maker.exec_(b"CREATE DATABASE isolation").status == pq.ExecStatus.COMMAND_OK
        maker.finish()
        self._dsn = f"{dsn} dbname=isolation"
        self._sessions: dict[str, pq.PGconn] = {}
        self._waiting: list[str] = []
        self._watch = self._connect()
        for sql in SETUP:
            self._watch.exec_(sql.encode())

    def _connect(self) -> pq.PGconn:
        connection = pq.PGconn.connect(self._dsn.encode())
        assert connection.status == pq.ConnStatus.OK
        connection.notice_handler = lambda _result: None
        connection.exec_(b"SET deadlock_timeout = '10ms'; SET enable_seqscan = off; SET timezone = 'UTC'")
        return connection

    def ask(self, name: str, sql: str) -> list[str] | None:
        if name not in self._sessions:
            self._sessions[name] = self._connect()
        self._sessions[name].send_query(sql.encode())
        answer = self._answered(name)
        if answer is None:
            self._waiting.append(name)
        return answer

    def _answered(self, name: str) -> list[str] | None:
        """The answer, or None once the server says that others are in the way."""
        connection = self._sessions[name]
        until = time.monotonic() + _PATIENCE_S
        blocked_since = None
        while time.monotonic() < until:
            connection.consume_input()
            if not connection.is_busy():
                result = connection.get_result()
                assert result is not None
                while connection.get_result() is not None:
                    pass
                return _lines(result)
            if not self._is_blocked(connection.backend_pid):
                blocked_since = None
            elif blocked_since is None:
                blocked_since = time.monotonic()
            elif time.monotonic() - blocked_since > _DEADLOCK_S:
                return None
            time.sleep(_LOOKS_S)
        raise AssertionError(f"{name} neither answers nor waits")

    def _is_blocked(self, pid: int) -> bool:
        found = self._watch.exec_(f"SELECT cardinality(pg_blocking_pids({pid}))".encode()).get_value(0, 0)
        return found != b"0"

    def finished(self) -> list[tuple[str, list[str]]]:
        done = []
        for name in list(self._waiting):
            answer = self._answered(name)
            if answer is not None:
                self._waiting.remove(name)
                done.append((name, answer))
        return done

    def close(self) -> None:
        for connection in (*self._sessions.values(), self._watch):
            connection.finish()


def _lines(result: pq.abc.PGresult) -> list[str]:
    fields = pq.DiagnosticField
    if result.status == pq.ExecStatus.FATAL_ERROR:
        found = (result.error_field(fields.SQLSTATE), result.error_field(fields.MESSAGE_PRIMARY))
        return ["ERROR " + " ".join((one or b"").decode() for one in found)]
    if result.status != pq.ExecStatus.TUPLES_OK:
        return [(result.command_status or b"").decode()]
    rows = [[result.get_value(row, i) for i in range(result.nfields)] for row in range(result.ntuples)]
    return [" ".join("NULL" if v is None else v.decode() for v in row) for row in rows] or ["nothing"]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_postgres_agrees_about(path: Path, postgres: str) -> None:
    wrong = []
    for section in read_script(path)[1]:
        server = Postgres(postgres)
        try:
            given = play(section, server)
        finally:
            server.close()
        if (given == section.lines) is section.differs:
            wrong.append("\n".join(difflib.unified_diff(section.lines, given, section.level, "PostgreSQL")))
    assert not wrong, "\n".join(wrong)
