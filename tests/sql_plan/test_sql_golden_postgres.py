"""The golden scripts mean what PostgreSQL means: a real server gives the same rows, tags and SQLSTATEs.

EXPLAIN is ours alone; messages are compared by SQLSTATE only; rows of a query without ORDER BY in any order.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from golden import SCRIPTS, Block, read_script


def answer(connection: psycopg.Connection, block: Block) -> list[str]:
    query = re.sub(r"\$\$|%", lambda match: match.group() if match.group() == "$$" else "%", block.text)
    try:
        params = [None if value is None else str(value).encode() for value in block.params]
        result = connection.pgconn.exec_params(query.encode(), params)
    except psycopg.Error as error:  # pragma: no cover - a broken connection
        raise AssertionError(str(error)) from error
    if result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
        return [f"ERROR {result.error_field(psycopg.pq.DiagnosticField.SQLSTATE).decode()}"]
    lines = []
    if result.nfields:
        lines.append(" | ".join(result.fname(i).decode() for i in range(result.nfields)))
        for row in range(result.ntuples):
            values = [result.get_value(row, i) for i in range(result.nfields)]
            lines.append(" | ".join("NULL" if v is None else v.decode() for v in values).rstrip())
    return [*lines, (result.command_status or b"").decode()]


def comparable(block: Block, lines: list[str]) -> list[str]:
    if lines and lines[0].startswith("ERROR"):
        return [lines[0][:11]]
    if "ORDER BY" not in block.text and len(lines) > 2:
        return [lines[0], *sorted(lines[1:-1]), lines[-1]]
    return lines


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_postgres_agrees(path: Path, postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        connection.execute("SET timezone = 'UTC'")
        wrong = []
        for block in read_script(path):
            if block.expected is None or block.differs or block.text.upper().startswith("EXPLAIN"):
                continue
            given = comparable(block, answer(connection, block))
            if given != comparable(block, block.expected):
                wrong.append((block.text, given, block.expected))
        assert not wrong
