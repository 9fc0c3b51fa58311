"""SHOW and SET of what clients ask for: the same answers as PostgreSQL's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from herdpy_server.sessions.settings import KNOWN
from tests.pgwire.servers import ThreadServer

OWN = {name for name in KNOWN if name.startswith("herdpy.")}
OF_THE_SERVER = {
    "autovacuum", "client_encoding", "cluster_name", "fsync", "full_page_writes", "max_connections", "port",
    "server_version", "server_version_num", "superuser_reserved_connections", "application_name",
    "jit", "extra_float_digits", "synchronous_commit", "deadlock_timeout", "autovacuum_max_workers",
    "data_directory", "max_logical_replication_workers", "max_replication_slots", "max_wal_senders",
    "max_worker_processes",
}  # fmt: skip


@pytest.fixture
def ours(server: ThreadServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def theirs(postgres: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection


def outcome(connection: psycopg.Connection[Any], sql: str) -> Any:
    try:
        return connection.execute(sql).fetchone()
    except psycopg.Error as error:
        return error.sqlstate


def test_settings_are_shown_as_postgres_does(
    ours: psycopg.Connection[Any], theirs: psycopg.Connection[Any]
) -> None:
    theirs.execute("LOAD 'auto_explain'")
    differing = {}
    for name in sorted(KNOWN.keys() - OWN - OF_THE_SERVER):
        found, expected = outcome(ours, f"SHOW {name}"), outcome(theirs, f"SHOW {name}")
        if found != expected:
            differing[name] = (found, expected)
    assert not differing


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("work_mem", "'64MB'"), ("work_mem", "4000"), ("work_mem", "'1GB'"), ("work_mem", "'2048kB'"),
        ("work_mem", "'x'"), ("work_mem", "'1 light year'"),
        ("random_page_cost", "1.1"), ("random_page_cost", "'x'"), ("random_page_cost", "4.0"),
        ("enable_seqscan", "off"), ("enable_seqscan", "'perhaps'"), ("enable_nestloop", "false"),
        ("wal_level", "minimal"), ("max_index_keys", "1"), ("lc_collate", "'C'"), ("ssl", "on"),
        ("server_version", "'1'"), ("in_hot_standby", "on"), ("is_superuser", "off"),
        ("lc_messages", "'C'"), ("plan_cache_mode", "force_generic_plan"), ("plan_cache_mode", "'no'"),
        ("effective_cache_size", "1024"), ("default_statistics_target", "200"),
        ("idle_session_timeout", "'1h'"), ("no_such_setting", "1"),
        ("deadlock_timeout", "'2s'"), ("deadlock_timeout", "0"), ("deadlock_timeout", "'0.6ms'"),
        ("deadlock_timeout", "2147483647"), ("deadlock_timeout", "2147483648"),
        ("intervalstyle", "postgres"), ("intervalstyle", "'neither'"),
    ],
)  # fmt: skip
def test_setting_is_as_in_postgres(
    ours: psycopg.Connection[Any], theirs: psycopg.Connection[Any], name: str, value: str
) -> None:
    found = []
    for connection in (ours, theirs):
        try:
            connection.execute(f"SET {name} = {value}")
        except psycopg.Error as error:
            found.append(("error", error.sqlstate))
        else:
            found.append(("set", outcome(connection, f"SHOW {name}")))
    assert found[0] == found[1]


def test_the_server_tells_its_port_and_limits(ours: psycopg.Connection[Any], server: ThreadServer) -> None:
    assert ours.execute("SHOW port").fetchone() == (str(server.port),)
    assert ours.execute("SHOW ssl").fetchone() == ("off",)
    assert ours.execute("SHOW max_connections").fetchone() == ("2000",)
    shown = ours.execute("SELECT setting FROM pg_settings WHERE name = 'port'").fetchone()
    assert shown == (str(server.port),)
