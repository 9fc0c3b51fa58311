"""Foreign keys in the catalog, and as psql describes them: PostgreSQL's to the letter."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import psycopg
import pytest

from tests.pgwire.servers import ThreadServer, thread_server
from tests.support.postgres import find_server

DEFINITIONS = [
    'CREATE TABLE "Parent" (id INT PRIMARY KEY, a INT, b TEXT, CONSTRAINT both_ways UNIQUE (b, a))',
    'CREATE TABLE plain (x INT, y TEXT, z INT REFERENCES "Parent" ON DELETE CASCADE)',
    'ALTER TABLE plain ADD FOREIGN KEY (x, y) REFERENCES "Parent" (a, b) MATCH FULL ON UPDATE SET DEFAULT',
    'ALTER TABLE plain ADD CONSTRAINT late FOREIGN KEY (z) REFERENCES "Parent" ON DELETE SET NULL (z)'
    " DEFERRABLE INITIALLY DEFERRED NOT VALID",
    "ALTER TABLE plain ADD CONSTRAINT small CHECK (x < z) NOT VALID",
    "CREATE TABLE tree (id INT PRIMARY KEY, up INT REFERENCES tree ON UPDATE RESTRICT DEFERRABLE)",
]
COMMANDS = [r'\d "Parent"', r"\d plain", r"\d tree", r"\d+ tree"]
QUERIES = [
    "SELECT conname, contype, condeferrable, condeferred, convalidated, confupdtype, confdeltype,"
    " confmatchtype, conkey, confkey, confdelsetcols, conrelid::regclass, confrelid::regclass,"
    " conindid::regclass, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE conrelid IN ('plain'::regclass, 'tree'::regclass)"
    " ORDER BY conname",
    "SELECT relname, relhastriggers FROM pg_class WHERE relname IN ('Parent', 'plain', 'tree') ORDER BY 1",
    *(
        f"SELECT {columns} FROM information_schema.{view} WHERE constraint_schema = 'public'"
        " AND constraint_name NOT LIKE '%not_null' ORDER BY 1, 2, 3, 4"
        for view, columns in (
            (
                "table_constraints",
                "table_name, constraint_name, constraint_type, is_deferrable, initially_deferred",
            ),
            (
                "key_column_usage",
                "constraint_name, ordinal_position, column_name, position_in_unique_constraint",
            ),
            ("constraint_column_usage", "constraint_name, table_name, column_name, table_schema"),
            ("constraint_table_usage", "constraint_name, table_name, table_schema, 1"),
            (
                "referential_constraints",
                "constraint_name, unique_constraint_name, match_option, update_rule, delete_rule,"
                " unique_constraint_schema",
            ),
        )
    ),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    with thread_server(tmp_path_factory.mktemp("foreign") / "shown") as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            for statement in DEFINITIONS:
                connection.execute(statement)
        yield server


@pytest.fixture(scope="module")
def known(postgres: str) -> str:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        for statement in DEFINITIONS:
            connection.execute(statement)
    return postgres


def shown(rows: list[tuple[object, ...]]) -> list[list[str]]:
    """As texts; HerdPy gives the catalog's arrays as such."""
    return [
        [f"{{{','.join(map(str, one))}}}" if isinstance(one, list) else str(one) for one in row]
        for row in rows
    ]


def test_queries(served: ThreadServer, known: str) -> None:
    with psycopg.connect(served.dsn) as ours, psycopg.connect(known) as theirs:
        for query in QUERIES:
            assert shown(ours.execute(query).fetchall()) == shown(theirs.execute(query).fetchall()), query


@pytest.mark.parametrize("command", COMMANDS)
def test_psql(served: ThreadServer, known: str, command: str) -> None:
    found = [_psql(dsn, command) for dsn in (served.dsn, known)]
    assert found[0] == found[1]
    assert "REFERENCES" in found[0]


def _psql(dsn: str, command: str) -> str:
    binaries = find_server()
    if binaries is None or not (binaries / "psql").exists():
        pytest.skip("psql is not installed")
    done = subprocess.run(
        [binaries / "psql", "-X", "-d", dsn, "-c", command],
        capture_output=True,
        text=True,
        env=os.environ | {"LC_ALL": "C"},
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr
