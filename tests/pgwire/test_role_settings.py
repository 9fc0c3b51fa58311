"""What sessions begin with by ALTER ROLE ... SET: as PostgreSQL's do; values of no use."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.pgwire.servers import ThreadServer
from tests.pgwire.wire import Wire

ROLE = "h_begins"
SETTINGS = (
    "work_mem = '64MB'",
    "search_path = pg_catalog, h_s",
    "timezone = 'Europe/Berlin'",
    "my.own = 'of the role'",
    "deadlock_timeout = '2s'",
    "application_name = 'of the role'",
)
SHOWN = ("work_mem", "search_path", "timezone", "my.own", "deadlock_timeout", "application_name")


@pytest.fixture(params=["ours", "postgres"])
def dsn(request: pytest.FixtureRequest, server: ThreadServer, postgres: str) -> Iterator[str]:
    """A server with a role that has settings."""
    found = server.dsn if request.param == "ours" else postgres
    with psycopg.connect(found, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {ROLE} LOGIN")
        for setting in SETTINGS:
            connection.execute(f"ALTER ROLE {ROLE} SET {setting}".encode())
        yield found
        connection.execute(f"DROP ROLE {ROLE}")


def shown(connection: psycopg.Connection[Any]) -> list[str]:
    return [connection.execute(f"SHOW {name}".encode()).fetchone()[0] for name in SHOWN]  # type: ignore[index]


def source(connection: psycopg.Connection[Any]) -> Any:
    sql = "SELECT source, reset_val FROM pg_settings WHERE lower(name) = 'timezone'"
    return connection.execute(sql.encode()).fetchone()


OF_THE_ROLE = ["64MB", "pg_catalog, h_s", "Europe/Berlin", "of the role", "2s", "of the role"]


def test_a_session_begins_with_its_roles_settings(dsn: str) -> None:
    with psycopg.connect(make_conninfo(dsn, user=ROLE), autocommit=True) as connection:
        assert connection.info.parameter_status("TimeZone") == "Europe/Berlin"
        assert shown(connection) == OF_THE_ROLE
        assert source(connection) == ("user", "Europe/Berlin")
        connection.execute("SET timezone = 'UTC'")
        connection.execute("SET my.own = ''")
        assert source(connection) == ("session", "Europe/Berlin")
        connection.execute("RESET timezone")
        connection.execute("SET work_mem = '1MB'")
        connection.execute("DISCARD ALL")
        assert shown(connection) == OF_THE_ROLE
        assert source(connection) == ("user", "Europe/Berlin")


def test_what_the_client_asks_for_wins(dsn: str) -> None:
    options = "-c work_mem=1MB -c my.own=client"
    wanted = make_conninfo(dsn, user=ROLE, options=options, application_name="client")
    with psycopg.connect(wanted, autocommit=True) as connection:
        connection.execute("RESET ALL")
        expected = ["1MB", "pg_catalog, h_s", "Europe/Berlin", "client", "2s", "client"]
        assert shown(connection) == expected


def test_set_role_does_not_apply_them(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        before = connection.execute("SHOW work_mem").fetchone()
        connection.execute(f"SET ROLE {ROLE}")
        assert connection.execute("SHOW work_mem").fetchone() == before
        connection.execute("RESET ROLE")


def test_psql_lists_them(dsn: str) -> None:
    program = shutil.which("psql")
    if program is None:
        pytest.skip("psql is not installed")
    done = subprocess.run(
        [program, "-X", "-A", "-t", dsn, "-c", f"\\drds {ROLE}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    wanted = ["work_mem=64MB", "search_path=pg_catalog, h_s", "TimeZone=Europe/Berlin", "my.own=of the role"]
    lines = done.stdout.removeprefix(f"{ROLE}||").splitlines()
    assert lines == [*wanted, "deadlock_timeout=2s", "application_name=of the role"]


def test_a_value_of_no_use_is_a_warning(server: ThreadServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE odd LOGIN")
    roles = server.server.context.registry.role_store
    assert roles is not None
    settings = (("work_mem", "much"), ("herdpy.later", "on"), ("timezone", "Asia/Tokyo"))

    async def give() -> None:
        await roles.change(
            "ALTER ROLE",
            lambda known: {**known, "odd": msgspec.structs.replace(known["odd"], settings=settings)},
        )

    server.run(give())
    with Wire(server.address) as wire:
        replies = wire.start(user="odd")
    warned = [one.fields["C"] for one in replies if one.kind == "N"]
    assert warned == ["22023", "42704"]
    with psycopg.connect(make_conninfo(server.dsn, user="odd"), autocommit=True) as connection:
        assert connection.info.parameter_status("TimeZone") == "Asia/Tokyo"
        assert connection.execute("SHOW work_mem").fetchone() == ("4MB",)
        connection.execute("ALTER ROLE odd RESET ALL")
