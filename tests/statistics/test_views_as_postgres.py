"""Every pg_stat view has PostgreSQL's columns, in order and with their types; tools get answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.statistics.conftest import Counted

COLUMNS = """
SELECT c.relname, a.attname, a.attnum, t.typname FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE (c.relname ~ '^pg_stat(io)?_' OR c.relname = 'pg_locks') AND c.relkind = 'v'
ORDER BY c.relname, a.attnum
"""
AS_TEXT = {"numeric", "pg_lsn", "interval", "inet"}
"""Types that are text in the views here."""


@pytest.fixture
def client(counted: Counted) -> Iterator[psycopg.Connection]:
    with counted.connect() as connection:
        connection.execute('CREATE SCHEMA "a b"')
        for schema in ("public", '"a b"'):
            connection.execute(f"CREATE TABLE {schema}.t (id INT PRIMARY KEY, v INT)")
            connection.execute(f"INSERT INTO {schema}.t VALUES (1, 1)")
        yield connection


def test_views_have_postgresqls_columns(client: psycopg.Connection, postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as theirs:
        theirs.execute("CREATE EXTENSION pg_stat_statements")
        try:
            wanted = theirs.execute(COLUMNS).fetchall()
            views = sorted({row[0] for row in wanted})
            names = type_names(theirs)
            described = {name: types_of(theirs, name) for name in views if "statements" not in name}
        finally:
            theirs.execute("DROP EXTENSION pg_stat_statements")
    assert len(views) > 40
    assert {row[:3] for row in client.execute(COLUMNS)} >= {row[:3] for row in wanted}
    for name, columns in described.items():
        ours = types_of(client, name)
        differing = {
            column: (names[kind], names[ours[column]])
            for column, kind in columns.items()
            if ours[column] != kind and not (names[kind] in AS_TEXT and names[ours[column]] == "text")
        }
        assert not differing, name


def types_of(connection: psycopg.Connection, view: str) -> dict[str, int]:
    found = connection.execute(f"SELECT * FROM {view} LIMIT 0").description or ()
    return {column.name: column.type_code for column in found}


def type_names(connection: psycopg.Connection) -> dict[int, str]:
    return dict(connection.execute("SELECT oid::int, typname FROM pg_type").fetchall())


QUESTIONS = {
    "locks by mode": """
        SELECT d.datname, wanted.mode, COALESCE(found.count, 0) FROM (VALUES ('accesssharelock'),
        ('rowexclusivelock'), ('exclusivelock')) AS wanted(mode) CROSS JOIN pg_database d
        LEFT JOIN (SELECT database, lower(mode) AS mode, count(*) AS count FROM pg_locks
        WHERE database IS NOT NULL GROUP BY database, lower(mode)) found
        ON wanted.mode = found.mode AND d.oid = found.database ORDER BY 1, 2""",
    "sessions by state": """
        SELECT d.datname, s.state, COALESCE(f.count, 0), COALESCE(f.longest, 0) FROM
        (VALUES ('active'), ('idle'), ('idle in transaction'), ('disabled')) AS s(state)
        CROSS JOIN pg_database d LEFT JOIN (SELECT datname, state, count(*) AS count,
        MAX(EXTRACT(EPOCH FROM now() - xact_start))::float AS longest
        FROM pg_stat_activity GROUP BY datname, state) f ON s.state = f.state AND d.datname = f.datname""",
    "statements": """
        SELECT pg_get_userbyid(s.userid), d.datname, s.queryid, s.calls, s.total_exec_time / 1000.0, s.rows,
        s.blk_read_time / 1000.0 FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
        WHERE s.total_exec_time > (SELECT percentile_cont(0.1) WITHIN GROUP (ORDER BY total_exec_time)
        FROM pg_stat_statements) ORDER BY 5 DESC LIMIT 100""",
    "tables": """
        SELECT current_database(), schemaname, relname, seq_scan, idx_scan, n_tup_ins, n_live_tup,
        COALESCE(last_vacuum, '1970-01-01Z'), pg_total_relation_size(relid)
        FROM pg_stat_user_tables ORDER BY 2""",
    "blocks": "SELECT current_database(), schemaname, relname, heap_blks_read FROM pg_statio_user_tables",
    "checkpoints": "SELECT checkpoints_timed, checkpoints_req, buffers_clean FROM pg_stat_bgwriter",
    "archive": "SELECT *, EXTRACT(EPOCH FROM now() - last_archived_time) FROM pg_stat_archiver",
    "replication": """
        SELECT *, CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_current_wal_lsn() END,
        CASE WHEN pg_is_in_recovery() THEN NULL
        ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::float END FROM pg_stat_replication""",
    "slots": "SELECT slot_name, active FROM pg_replication_slots",
    "databases": "SELECT datid, datname, numbackends, xact_commit, deadlocks FROM pg_stat_database",
    "long transactions": """
        SELECT COUNT(*), MAX(EXTRACT(EPOCH FROM clock_timestamp() - xact_start)) FROM pg_stat_activity
        WHERE state IS DISTINCT FROM 'idle' AND query NOT LIKE 'autovacuum:%'""",
    "dashboard": """
        SELECT count(*) FILTER (WHERE state = 'active'), count(*) FILTER (WHERE wait_event_type = 'Lock'),
        (SELECT sum(xact_commit) + sum(xact_rollback) FROM pg_stat_database) FROM pg_stat_activity""",
    "encryption": """
        SELECT a.pid, s.ssl, s.version FROM pg_stat_activity a JOIN pg_stat_ssl s ON s.pid = a.pid""",
    "progress": "SELECT * FROM pg_stat_progress_create_index",
    "limits": """
        SELECT current_setting('max_connections')::int, current_setting('max_worker_processes')::int,
        current_setting('autovacuum_max_workers')::int, current_setting('max_wal_senders')::int""",
}
"""Questions of exporters and dashboards, with the columns that they read."""
WITHOUT_ROWS = {"replication", "slots", "progress"}


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_of_tools_are_answered(client: psycopg.Connection, question: str) -> None:
    found = client.execute(QUESTIONS[question]).fetchall()
    assert bool(found) is (question not in WITHOUT_ROWS)


def test_what_tools_are_told_is_so(client: psycopg.Connection) -> None:
    tables = client.execute(QUESTIONS["tables"]).fetchall()
    assert [row[1:3] + row[5:7] for row in tables] == [("a b", "t", 1, 1), ("public", "t", 1, 1)]
    (states,) = client.execute(QUESTIONS["dashboard"]).fetchall()
    assert states[0] == 1
    assert states[2] >= 5  # two schemas' tables and rows, and the schema
    (own,) = client.execute(QUESTIONS["encryption"]).fetchall()
    assert own[1:] == (False, None)
    log: Any = client.execute("SELECT wal_records, wal_bytes::int, wal_sync FROM pg_stat_wal").fetchone()
    client.execute("INSERT INTO t VALUES (2, 2)")
    after: Any = client.execute("SELECT wal_records, wal_bytes::int, wal_sync FROM pg_stat_wal").fetchone()
    assert after[0] == log[0] + 1
    assert after[1] > log[1]


def test_positions_of_the_log_grow(client: psycopg.Connection) -> None:
    before: Any = client.execute("SELECT pg_current_wal_lsn()").fetchone()
    client.execute("INSERT INTO t VALUES (3, 3)")
    grown = client.execute(
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), %s), pg_last_wal_replay_lsn()", before
    ).fetchone()
    assert grown == (1, None)
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        client.execute("SELECT pg_wal_lsn_diff('1:2', '0/0')")
