"""UPDATE, DELETE, MERGE and INSERT read the system catalog as they read tables, with PostgreSQL's answers."""

# ruff: noqa: E501 - statements are easier to read in long lines
from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

import herdpy

STATEMENTS = [
    ("UPDATE notes SET n = (SELECT relname FROM pg_class WHERE relname = 'notes') WHERE id = 1", ()),
    ("UPDATE notes SET n = c.relname || $1 FROM pg_class c WHERE c.oid = 'notes'::regclass AND id = $2 RETURNING id, n", ("!", 2)),
    ("DELETE FROM notes WHERE n IN (SELECT relname FROM pg_class) RETURNING *", ()),
    ("DELETE FROM notes USING pg_class c WHERE c.relname || '!' = notes.n RETURNING id, c.relname, $1::text", ("x",)),
    ("INSERT INTO notes VALUES (5, (SELECT relname FROM pg_class WHERE relname = 'notes')), (6, NULL) RETURNING n", ()),
    ("MERGE INTO notes t USING (SELECT table_name FROM information_schema.tables WHERE table_name = 'notes') c ON t.n = c.table_name"
     " WHEN MATCHED THEN UPDATE SET n = c.table_name || '?'", ()),
    ("UPDATE notes SET n = 'of a role' WHERE current_user IN (SELECT rolname FROM pg_roles) AND id = 6", ()),
    ("UPDATE notes SET n = 'of the user' WHERE user = current_role AND id = 5 RETURNING n", ()),
    ("INSERT INTO notes VALUES (7, CASE WHEN session_user = user THEN $1 END), (8, pg_typeof(1)::text) RETURNING n", ("mine",)),
    ("DELETE FROM notes WHERE n = current_user", ()),
    ("SELECT * FROM notes ORDER BY id", ()),
]  # fmt: skip


def _answers(connection: Any, prepared: Any) -> list[Any]:
    connection.execute("CREATE TABLE notes (id int PRIMARY KEY, n text)")
    connection.execute("INSERT INTO notes VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    answers = []
    for statement, values in STATEMENTS:
        cursor = prepared(connection, statement, values)
        answers.append((cursor.rowcount, cursor.fetchall() if cursor.description else None))
    return answers


def test_changes_read_the_catalog_as_in_postgres(tmp_path: Path, postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True, cursor_factory=psycopg.RawCursor) as peer:
        peer.execute(
            "DROP SCHEMA IF EXISTS changes CASCADE; CREATE SCHEMA changes; SET search_path = changes"
        )
        expected = _answers(peer, lambda one, sql, values: one.execute(sql, values))
        peer.execute("DROP SCHEMA changes CASCADE")
    with herdpy.connect(tmp_path / "data", autocommit=True) as ours:
        assert _answers(ours, lambda one, sql, values: one.execute(sql, values)) == expected


@pytest.mark.parametrize("statement", ["DELETE FROM pg_class", "UPDATE pg_class SET relname = 'x'"])
def test_the_catalog_itself_is_not_changed(statement: str, tmp_path: Path) -> None:
    with herdpy.connect(tmp_path / "data", autocommit=True) as database:
        with pytest.raises(herdpy.Error) as refused:
            database.execute(statement)
        assert refused.value.sqlstate == "42501"
