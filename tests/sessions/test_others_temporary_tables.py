"""Temporary tables of one session are nobody else's: no statement reads, writes, changes or drops them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from herdpy_server.embedded import Database, opened
from herdpy_sql.errors import SqlError

REFUSED = [
    "SELECT * FROM {s}.t",
    "SELECT b FROM {s}.t WHERE a = 1",
    "SELECT count(*) FROM {s}.t WHERE false",
    "SELECT 1 FROM p WHERE EXISTS (SELECT 1 FROM {s}.t)",
    "WITH q AS (SELECT * FROM {s}.t) SELECT sum(b) OVER () FROM q",
    "SELECT * FROM {s}.t FOR UPDATE",
    "TABLE {s}.t",
    "EXPLAIN SELECT * FROM {s}.t",
    "PREPARE x AS SELECT * FROM {s}.t",
    "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM {s}.t",
    "INSERT INTO {s}.t VALUES (7, 7)",
    "INSERT INTO {s}.t SELECT * FROM p",
    "INSERT INTO p SELECT * FROM {s}.t",
    "UPDATE {s}.t SET b = 1",
    "UPDATE p SET b = x.b FROM {s}.t x WHERE x.a = p.a",
    "DELETE FROM {s}.t",
    "DELETE FROM p USING {s}.t x WHERE x.a = p.a",
    "MERGE INTO {s}.t USING p ON t.a = p.a WHEN MATCHED THEN DELETE",
    "MERGE INTO p USING {s}.t x ON x.a = p.a WHEN MATCHED THEN DELETE",
    "WITH d AS (DELETE FROM {s}.t RETURNING a) SELECT * FROM d",
    "COPY {s}.t TO STDOUT",
    "COPY {s}.t FROM STDIN",
    "COPY (SELECT * FROM {s}.t) TO STDOUT",
    "CREATE INDEX ON {s}.t (b)",
    "ALTER TABLE {s}.t ADD COLUMN z int",
    "ALTER TABLE {s}.t RENAME TO t9",
    "ALTER TABLE {s}.t RENAME COLUMN a TO z",
    "ALTER TABLE {s}.t SET SCHEMA public",
    "ALTER INDEX {s}.ti RENAME TO tj",
    "ALTER INDEX {s}.t_pkey RENAME TO tj",
    "TRUNCATE {s}.t",
    "TRUNCATE p, {s}.t",
    "BEGIN; LOCK TABLE {s}.t",
    "ANALYZE {s}.t",
    "VACUUM {s}.t",
    "REINDEX TABLE {s}.t",
    "REINDEX INDEX {s}.ti",
    "DROP TABLE {s}.t",
    "DROP TABLE IF EXISTS {s}.t",
    "DROP INDEX {s}.ti",
    "DROP SEQUENCE {s}.t_n_seq",
    "ALTER SEQUENCE {s}.t_n_seq RESTART",
    "SELECT nextval('{s}.t_n_seq')",
    "SELECT setval('{s}.t_n_seq', 9)",
    "DROP SCHEMA {s} CASCADE",
    "ALTER SCHEMA {s} RENAME TO x",
    "CREATE TABLE f (a int REFERENCES {s}.t)",
    "CREATE TEMP TABLE f (a int REFERENCES {s}.t)",
    "CREATE TABLE l (LIKE {s}.t)",
    "CREATE TABLE l AS SELECT * FROM {s}.t",
    "CREATE VIEW v AS SELECT * FROM {s}.t",
    "COMMENT ON TABLE {s}.t IS 'mine'",
    "COMMENT ON COLUMN {s}.t.a IS 'mine'",
    "GRANT SELECT ON {s}.t TO public",
]
NOT_MADE = [
    "CREATE TABLE {s}.mine (a int)",
    "CREATE TABLE {s}.mine AS SELECT 1",
    "CREATE SEQUENCE {s}.mine",
    "CREATE VIEW {s}.mine AS SELECT 1 AS a",
    "CREATE TYPE {s}.mine AS ENUM ('a')",
]


class Two:
    """Two sessions of one database; ``schema`` is the first one's own."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.owner, self.other = database.session(), database.session()
        for sql in (
            "CREATE TABLE p (a int PRIMARY KEY, b int)",
            "INSERT INTO p VALUES (1, 1)",
            "CREATE TEMP TABLE t (a int PRIMARY KEY, b int, n serial)",
            "CREATE INDEX ti ON t (b)",
            "INSERT INTO t VALUES (1, 2)",
        ):
            self.ask(self.owner, sql)
        ((path,),) = self.ask(self.owner, "SELECT current_schemas(true)")
        self.schema = path[0]

    def ask(self, session: Any, sql: str) -> list[tuple]:
        result = self.database.run(session.execute(sql))
        return [] if result.columns is None else list(result.rows)

    def state_of(self, sql: str) -> str:
        """The SQLSTATE that the other session gets."""
        try:
            for one in sql.format(s=self.schema).split("; "):
                self.ask(self.other, one)
        except SqlError as error:
            return error.sqlstate
        finally:
            self.ask(self.other, "ROLLBACK")
        return "00000"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    with opened(tmp_path_factory.mktemp("others") / "db") as database:
        yield Two(database)


@pytest.mark.parametrize("sql", REFUSED)
def test_it_is_refused(two: Two, sql: str) -> None:
    assert two.state_of(sql) == "0A000"
    assert two.ask(two.owner, "SELECT a, b, n FROM t") == [(1, 2, 1)]


@pytest.mark.parametrize("sql", NOT_MADE)
def test_nothing_is_made_there(two: Two, sql: str) -> None:
    assert two.state_of(sql) == "42P16"


def test_what_is_not_there_is_not_there(two: Two) -> None:
    assert two.state_of("SELECT * FROM {s}.nonesuch") == "42P01"


def test_the_search_path_does_not_lead_there(two: Two) -> None:
    two.ask(two.other, f"SET search_path = {two.schema}, public")
    try:
        assert two.state_of("SELECT * FROM t") == "42P01"
        assert two.state_of("DROP TABLE t") == "42P01"
        assert two.state_of("SELECT * FROM p") == "00000"
    finally:
        two.ask(two.other, "RESET search_path")


def test_arrow_does_not_lead_there(two: Two) -> None:
    rows = pa.record_batch({"a": pa.array([5], pa.int32())})
    for mode in ("append", "create_append", "create", "replace"):
        with pytest.raises(SqlError, match="other sessions") as caught:
            two.database.run(two.other.ingest("t", [rows], rows.schema, mode, two.schema))
        assert caught.value.sqlstate == ("0A000" if "append" in mode else "42P16")
    assert two.ask(two.owner, "SELECT count(*) FROM t") == [(1,)]


def test_all_tables_are_those_of_oneself(two: Two) -> None:
    for sql in ("ANALYZE", "VACUUM ANALYZE", "REINDEX DATABASE x"):
        two.state_of(sql)
    analyzed = "SELECT count(*) FROM pg_stats WHERE tablename = 't'"
    assert two.ask(two.owner, analyzed) == [(0,)]


def test_the_owner_names_its_schema(two: Two) -> None:
    assert two.ask(two.owner, f"SELECT b FROM {two.schema}.t") == [(2,)]
    assert two.ask(two.owner, f"SELECT {two.schema}.t.b FROM {two.schema}.t") == [(2,)]


def test_a_table_stays_in_or_out_of_a_session(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as database:
        two = Two(database)
        for sql in (
            "ALTER TABLE t SET SCHEMA public",
            f"ALTER TABLE p SET SCHEMA {two.schema}",
            "ALTER TABLE p SET SCHEMA pg_temp",
        ):
            with pytest.raises(SqlError, match="temporary schemas") as caught:
                two.ask(two.owner, sql)
            assert caught.value.sqlstate == "0A000"
        two.ask(two.owner, "DISCARD TEMP")
        assert two.ask(two.other, "SELECT * FROM p") == [(1, 1)]
