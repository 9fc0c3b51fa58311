"""The same questions to HerdPy's server and to PostgreSQL, by the simple query; see ``conftest.both``."""

from __future__ import annotations

from psycopg import generators, pq, waiting


class Asked:
    """A connection, and what it answers to a text."""

    def __init__(self, dsn: str) -> None:
        self.connection = waiting.wait_conn(generators.connect(dsn))
        assert self.connection.status == pq.ConnStatus.OK, self.connection.error_message

    def __call__(self, sql: str) -> list[str]:
        """Rows with NULL as such, tags, and errors with their SQLSTATEs."""
        self.connection.send_query(sql.encode())
        lines: list[str] = []
        # Both are waited for by select: HerdPy's server may be a thread of this process.
        for result in waiting.wait(generators.execute(self.connection), self.connection.socket):
            lines += _lines(result)
        return lines


def _lines(result: pq.abc.PGresult) -> list[str]:
    if result.status == pq.ExecStatus.FATAL_ERROR:
        fields = (pq.DiagnosticField.SQLSTATE, pq.DiagnosticField.MESSAGE_PRIMARY)
        return ["ERROR " + " ".join((result.error_field(one) or b"").decode() for one in fields)]
    lines = []
    for row in range(result.ntuples):
        values = [result.get_value(row, i) for i in range(result.nfields)]
        lines.append("|".join("NULL" if v is None else v.decode() for v in values))
    return [*lines, (result.command_status or b"").decode()]


class Both:
    """HerdPy and PostgreSQL."""

    def __init__(self, herdpy: Asked, postgres: Asked) -> None:
        self.herdpy, self.postgres = herdpy, postgres

    def define(self, *statements: str) -> None:
        """What both are to have; no error is expected."""
        for sql in statements:
            for one in (self.herdpy, self.postgres):
                answer = one(sql)
                assert not any(line.startswith("ERROR") for line in answer), (sql, answer)

    def differences(self, questions: list[str]) -> list[tuple[str, list[str], list[str]]]:
        """The questions that are answered otherwise: with HerdPy's answer and PostgreSQL's."""
        found = []
        for sql in questions:
            given, wanted = self.herdpy(sql), self.postgres(sql)
            if given != wanted:
                found.append((sql, given, wanted))
        return found
