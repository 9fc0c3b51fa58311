"""The session scripts mean what PostgreSQL means: a real server gives the same rows, tags and errors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from psycopg import pq

sys.path.insert(0, str(Path(__file__).parent))

from session_scripts import SCRIPTS, SYNC, Block, read_script

_STATUS = {
    pq.TransactionStatus.IDLE: "idle",
    pq.TransactionStatus.INTRANS: "active",
    pq.TransactionStatus.INERROR: "failed",
}


_SCHEMAS = b"SELECT quote_ident(nspname) FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema)'"
_DROP = b"DROP SCHEMA %s CASCADE"


class Postgres:
    """Asks a real server the same."""

    def __init__(self, dsn: str) -> None:
        self.connection = pq.PGconn.connect(dsn.encode())
        assert self.connection.status == pq.ConnStatus.OK
        self.notices: list[str] = []
        self.connection.notice_handler = lambda result: self.notices.append(_diagnosed(result))
        found = self.connection.exec_(_SCHEMAS)
        names = [found.get_value(row, 0) or b"" for row in range(found.ntuples)]
        for sql in (*map(_DROP.__mod__, names), b"CREATE SCHEMA public", b"SET timezone = 'UTC'"):
            self.connection.exec_(sql)
        self.notices.clear()

    def answer(self, block: Block) -> list[str]:
        if block.text is not None:
            return self._simple(block.text)
        assert block.pipeline is not None
        return self._pipelined(block.pipeline)

    def _simple(self, text: str) -> list[str]:
        self.connection.send_query(text.encode())
        lines: list[str] = []
        while (result := self.connection.get_result()) is not None:
            lines += self._taken() + _lines(result)
        return [*lines, *self._taken(), self._status()]

    def _pipelined(self, statements: list[str]) -> list[str]:
        lines: list[str] = []
        start = 0
        # libpq knows the status only when nothing else is under way: one Sync at a time.
        for at, sql in enumerate(statements):
            if sql == SYNC:
                lines += [*self._until_sync(statements[start:at]), *self._taken(), self._status()]
                start = at + 1
        return lines

    def _until_sync(self, statements: list[str]) -> list[str]:
        connection = self.connection
        connection.enter_pipeline_mode()
        for sql in statements:
            connection.send_query_params(sql.encode(), None)
        connection.pipeline_sync()
        lines: list[str] = []
        for _ in statements:
            result = connection.get_result()
            assert result is not None
            lines += self._taken() + _lines(result)
            assert connection.get_result() is None
        end = connection.get_result()
        assert end is not None
        assert end.status == pq.ExecStatus.PIPELINE_SYNC
        connection.exit_pipeline_mode()
        return lines

    def _taken(self) -> list[str]:
        taken, self.notices[:] = list(self.notices), []
        return taken

    def _status(self) -> str:
        return f"[{_STATUS[pq.TransactionStatus(self.connection.transaction_status)]}]"


def _lines(result: pq.abc.PGresult) -> list[str]:
    if result.status == pq.ExecStatus.FATAL_ERROR:
        return [_diagnosed(result)]
    if result.status == pq.ExecStatus.PIPELINE_ABORTED:
        return ["SKIPPED"]
    if result.status == pq.ExecStatus.EMPTY_QUERY:
        return ["EMPTY"]
    lines = []
    if result.status == pq.ExecStatus.TUPLES_OK:
        lines.append(" | ".join((result.fname(i) or b"").decode() for i in range(result.nfields)))
        for row in range(result.ntuples):
            values = [result.get_value(row, i) for i in range(result.nfields)]
            lines.append(" | ".join("NULL" if v is None else v.decode() or "''" for v in values))
    return [*(line.rstrip() for line in lines), (result.command_status or b"").decode()]


def _diagnosed(result: pq.abc.PGresult) -> str:
    fields = pq.DiagnosticField
    found = [result.error_field(one) for one in (fields.SEVERITY, fields.SQLSTATE, fields.MESSAGE_PRIMARY)]
    return " ".join((one or b"").decode() for one in found)


def _comparable(lines: list[str]) -> list[str]:
    """libpq hands on what it finds of notices before the result that came first: they go to the front."""
    notices = [line for line in lines if line.startswith(("WARNING ", "NOTICE "))]
    return notices + [line for line in lines if line not in notices]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_postgres_agrees_about(path: Path, postgres: str) -> None:
    server = Postgres(postgres)
    try:
        wrong = []
        for block in read_script(path):
            if block.text is None and block.pipeline is None:
                continue
            given = server.answer(block)
            if _comparable(given) != _comparable(block.expected) and not block.differs:
                wrong.append((block.text or block.pipeline, given, block.expected))
        assert not wrong
    finally:
        server.connection.finish()
