"""The tables are made once, whatever number of programs make them."""

from __future__ import annotations

import threading

import pytest
from herdpy_broker import schema
from herdpy_broker.errors import SchemaError

import herdpy


@pytest.fixture
def url(tmp_path):
    """A database without the tables, which stays open."""
    url = f"herdpy:{tmp_path / 'database'}"
    with herdpy.connect(url):
        yield url


def test_the_tables_are_made_once(url):
    with herdpy.connect(url, autocommit=True) as connection:
        assert not schema.is_there(connection)
        schema.migrate(connection)
        assert schema.is_there(connection)
        connection.execute("INSERT INTO broker.task_type (name) VALUES ('t')")
        schema.migrate(connection)
        assert connection.execute("SELECT name FROM broker.task_type").fetchall() == [("t",)]


def test_several_at_once(url):
    failures = []

    def migrate():
        with herdpy.connect(url, autocommit=True) as connection:
            try:
                schema.migrate(connection)
            except herdpy.Error as error:
                failures.append(error)

    threads = [threading.Thread(target=migrate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with herdpy.connect(url) as connection:
        assert schema.version(connection) == schema.VERSION


def test_newer_tables_are_refused(url):
    with herdpy.connect(url, autocommit=True) as connection:
        schema.migrate(connection)
        connection.execute("INSERT INTO broker.schema_version VALUES (99)")
        with pytest.raises(SchemaError, match="99"):
            schema.migrate(connection)
        with pytest.raises(SchemaError, match="99"):
            schema.is_there(connection)


def test_a_migration_that_fails_made_nothing(url, monkeypatch):
    monkeypatch.setattr(schema, "_STEPS", ("schema.sql", "nonesuch.sql"))
    monkeypatch.setattr(schema, "VERSION", 2)
    with herdpy.connect(url, autocommit=True) as connection:
        with pytest.raises(FileNotFoundError):
            schema.migrate(connection)
        assert schema.version(connection) is None
