"""Temporary tables are their session's own, and go with it: at its end, or when the database opens again."""

from __future__ import annotations

from pathlib import Path

import pytest

from herdpy_server.embedded import Database, opened
from herdpy_server.tablespace import Tablespace
from herdpy_sql.errors import SqlError


def ask(database: Database, session, sql: str) -> list[tuple]:
    result = database.run(session.execute(sql))
    return [] if result.columns is None else list(result.rows)


def tables(database: Database) -> list[str]:
    return sorted(table.name for table in database.tablespace.catalog.tables.values())


def test_another_session_has_its_own(tmp_path: Path):
    with opened(tmp_path / "db") as database:
        one, other = database.session(), database.session()
        ask(database, one, "CREATE TEMP TABLE t (a INT)")
        ask(database, one, "INSERT INTO t VALUES (1)")
        with pytest.raises(SqlError, match="does not exist"):
            ask(database, other, "SELECT * FROM t")
        ask(database, other, "CREATE TEMP TABLE t (b TEXT)")
        assert ask(database, other, "SELECT * FROM t") == []
        assert ask(database, one, "SELECT * FROM t") == [(1,)]
        database.run(one.close())
        assert tables(database) == ["t"]
        ask(database, other, "DISCARD TEMP")
        assert tables(database) == []
        ask(database, other, "CREATE TEMP TABLE t (c INT)")
        ask(database, other, "SELECT c FROM t")
        database.run(other.close())
        assert tables(database) == []


def test_the_sessions_own_schema_is_not_the_one_to_create_in(tmp_path: Path):
    """As PostgreSQL has it: it is looked into first, and current_schema() is another."""
    schemas = "SELECT current_schema(), current_schemas(false), current_schemas(true)"
    with opened(tmp_path / "db") as database:
        session = database.session()
        ask(database, session, "CREATE TEMP TABLE t (a INT)")
        ((first, named, all_of_them),) = ask(database, session, schemas)
        assert (first, list(named)) == ("public", ["public"])
        assert list(all_of_them) == ["pg_temp_1", "pg_catalog", "public"]
        ask(database, session, "SET search_path = nonesuch")
        ((first, named, all_of_them),) = ask(database, session, schemas)
        assert (first, list(named), list(all_of_them)) == (None, [], ["pg_temp_1", "pg_catalog"])


def test_what_a_dead_session_left_goes_when_the_database_opens(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Tablespace, "drop_temporary_leftovers", lambda self: None)
        with opened(tmp_path / "db") as database:
            session = database.session()
            ask(database, session, "CREATE TEMP TABLE t (id SERIAL, v INT)")
            ask(database, session, "CREATE TABLE kept (id SERIAL)")
            ask(database, session, "INSERT INTO t (v) VALUES (1)")
    with opened(tmp_path / "db") as database:
        assert tables(database) == ["kept"]
        kinds = [one.name for one in database.tablespace.catalog.objects.values()]
        assert kinds == ["kept_id_seq"]


def test_values_of_sequences_go_on_after_the_database_opens_again(tmp_path: Path):
    for round_ in range(3):
        with opened(tmp_path / "db") as database:
            session = database.session()
            if not round_:
                ask(database, session, "CREATE TABLE t (id SERIAL PRIMARY KEY, v INT)")
            first = ask(database, session, "INSERT INTO t (v) VALUES (0) RETURNING id")
            with pytest.raises(SqlError):
                ask(database, session, "INSERT INTO t (v) VALUES (1 / 0)")
            assert first == [(round_ + 1,)]


def test_tables_are_described(tmp_path: Path):
    with opened(tmp_path / "db") as database:
        session = database.session()
        ask(database, session, "CREATE SCHEMA app")
        ask(database, session, "CREATE TABLE app.t (id SERIAL PRIMARY KEY, v VARCHAR(5) DEFAULT 'x')")
        ask(database, session, "CREATE VIEW w AS SELECT v FROM app.t")
        described = [
            ("id", "integer", "NO", "nextval('app.t_id_seq'::regclass)"),
            ("v", "character varying(5)", "YES", "'x'::character varying"),
        ]
        assert ask(database, session, "DESCRIBE app.t") == described
        assert ask(database, session, "SHOW COLUMNS FROM app.t") == described
        assert ask(database, session, "SHOW TABLES") == [("app", "t")]
        assert ask(database, session, "SHOW VIEWS") == [("public", "w")]
        assert ("app",) in ask(database, session, "SHOW SCHEMAS")
        assert len(ask(database, session, "SHOW DATABASES")) == 1
