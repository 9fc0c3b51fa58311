"""Rights in sessions that are open: what is changed is felt by the next statement, whatever was prepared.

What each statement needs is in ``tests/sessions/golden/rights.txt``, which PostgreSQL answers alike.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors

from herdpy_server.embedded import opened
from herdpy_server.roles.role import RoleFile, RoleStore
from herdpy_server.sessions.registry import SessionRegistry
from herdpy_sql.errors import SqlError
from tests.pgwire.servers import ThreadServer
from tests.users.conftest import Connect


@pytest.fixture
def admin(connect: Connect) -> Iterator[psycopg.Connection[Any]]:
    """A superuser; the roles eva and crew, and a table of his."""
    made = connect("admin")
    for sql in ("CREATE ROLE eva LOGIN", "CREATE ROLE crew", "CREATE TABLE t (a int PRIMARY KEY, b int)"):
        made.execute(sql)
    made.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    yield made
    made.execute("DROP TABLE t")
    for role in ("eva", "crew"):
        if made.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone() is not None:
            made.execute(f"DROP OWNED BY {role}")
            made.execute(f"DROP ROLE {role}")


BY_KEY = "SELECT b FROM t WHERE a = %s"
CHANGED = "UPDATE t SET b = b + 1 WHERE a = %s"


@pytest.mark.parametrize("sql", [BY_KEY, CHANGED])
@pytest.mark.parametrize("within", [False, True])
def test_a_prepared_plan_is_refused_after_a_revoke(
    admin: psycopg.Connection[Any], connect: Connect, sql: str, within: bool
) -> None:
    admin.execute("GRANT SELECT, UPDATE ON t TO eva")
    eva = connect("eva")
    if within:
        eva.execute("BEGIN")
    for _ in range(3):
        eva.execute(sql, [1], prepare=True)
    admin.execute("REVOKE SELECT, UPDATE ON t FROM eva")
    with pytest.raises(errors.InsufficientPrivilege, match="permission denied for table t"):
        eva.execute(sql, [1], prepare=True)
    eva.execute("ROLLBACK")
    admin.execute("GRANT SELECT, UPDATE ON t TO eva")
    eva.execute(sql, [1], prepare=True)


def test_members_lose_what_their_group_had(admin: psycopg.Connection[Any], connect: Connect) -> None:
    admin.execute("GRANT SELECT ON t TO crew")
    eva = connect("eva")
    with pytest.raises(errors.InsufficientPrivilege):
        eva.execute(BY_KEY, [1], prepare=True)
    admin.execute("GRANT crew TO eva")
    assert eva.execute(BY_KEY, [1], prepare=True).fetchone() == (1,)
    eva.execute("SET ROLE crew")
    admin.execute("REVOKE crew FROM eva")
    assert eva.execute(BY_KEY, [1], prepare=True).fetchone() == (1,)  # it is crew, until it is not
    eva.execute("RESET ROLE")
    with pytest.raises(errors.InsufficientPrivilege):
        eva.execute(BY_KEY, [1], prepare=True)


def test_who_is_no_superuser_any_more_is_judged(admin: psycopg.Connection[Any], connect: Connect) -> None:
    admin.execute("ALTER ROLE eva SUPERUSER")
    eva = connect("eva")
    assert eva.execute(BY_KEY, [1], prepare=True).fetchone() == (1,)
    assert eva.execute("SHOW is_superuser").fetchone() == ("on",)
    admin.execute("ALTER ROLE eva NOSUPERUSER")
    with pytest.raises(errors.InsufficientPrivilege):
        eva.execute(BY_KEY, [1], prepare=True)
    assert eva.execute("SHOW is_superuser").fetchone() == ("off",)


def test_a_dropped_role_may_nothing_and_a_new_one_of_its_name_inherits_nothing(
    admin: psycopg.Connection[Any], connect: Connect
) -> None:
    eva = connect("eva")
    admin.execute("DROP ROLE eva")
    with pytest.raises(errors.InsufficientPrivilege):
        eva.execute("SELECT * FROM t")
    admin.execute("CREATE ROLE eva LOGIN SUPERUSER")
    with pytest.raises(errors.InsufficientPrivilege):
        eva.execute("SELECT * FROM t")


def test_a_renamed_role_keeps_what_it_was_granted(admin: psycopg.Connection[Any], connect: Connect) -> None:
    admin.execute("GRANT SELECT ON t TO crew")
    admin.execute("ALTER ROLE crew RENAME TO hands")
    acl = "SELECT relacl::text[] FROM pg_class WHERE relname = 't'"
    assert admin.execute(acl).fetchone() == (["admin=arwdDxt/admin", "hands=r/admin"],)
    admin.execute("ALTER ROLE hands RENAME TO crew")


@pytest.mark.parametrize(
    "sql",
    ["COPY t TO STDOUT", "COPY (SELECT a FROM t) TO STDOUT (FORMAT arrow)", "COPY t FROM STDIN"],
)
def test_copy_is_judged(admin: psycopg.Connection[Any], connect: Connect, sql: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege), connect("eva").cursor().copy(sql) as copy:
        copy.read()


def test_cursors_and_both_engines_are_judged(admin: psycopg.Connection[Any], connect: Connect) -> None:
    eva = connect("eva")
    eva.execute("BEGIN")
    with pytest.raises(errors.InsufficientPrivilege):
        eva.execute("DECLARE c CURSOR FOR SELECT * FROM t")
    eva.execute("ROLLBACK")
    for engine in ("own", "columnar"):
        eva.execute(f"SET herdpy.engine = {engine}")
        with pytest.raises(errors.InsufficientPrivilege):
            eva.execute("SELECT b FROM t WHERE a = 1")


def test_connect_can_be_taken_away(admin: psycopg.Connection[Any], connect: Connect) -> None:
    admin.execute("REVOKE CONNECT ON DATABASE herdpy FROM PUBLIC")
    try:
        with pytest.raises(psycopg.OperationalError, match='permission denied for database "herdpy"'):
            connect("eva")
        admin.execute("GRANT CONNECT ON DATABASE herdpy TO eva")
        connect("eva").execute("SELECT 1")
    finally:
        admin.execute("GRANT CONNECT ON DATABASE herdpy TO PUBLIC")


def test_psql_shows_rights(admin: psycopg.Connection[Any], server: ThreadServer) -> None:
    admin.execute("GRANT SELECT, UPDATE ON t TO crew WITH GRANT OPTION")
    admin.execute("GRANT crew TO eva")
    command = ["psql", "-X", "-A", "-t", "-F", ";", server.dsn.replace("user=herdpy", "user=admin")]
    for asked in ("\\dp t", "\\z t", "\\du", "\\dn+", "\\l"):
        command += ["-c", asked]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert told.count("crew=r*w*/admin") == 2
    assert "eva;;{crew}" in told
    assert "public;admin;admin=UC/admin" in told


def test_rights_are_there_again_after_a_restart(tmp_path: Path) -> None:
    """They are in the log, and in the store once a checkpoint was made; the roles in their file."""
    for nth, statement in enumerate(("GRANT SELECT ON t TO ann", "CHECKPOINT", "SELECT 1")):
        with opened(tmp_path / "db") as database:
            registry = SessionRegistry(RoleStore(RoleFile(tmp_path)))
            sessions = {}
            for user in ("admin", "ann"):
                sessions[user] = database.session()
                registry.add(sessions[user], user=user, database="db", end=lambda _error: None)
            if nth == 0:
                for sql in ("CREATE ROLE ann LOGIN", "CREATE TABLE t (a int)"):
                    database.run(sessions["admin"].execute(sql))
                registry.roles_changed()
                registry.add(sessions["ann"], user="ann", database="db", end=lambda _error: None)
                with pytest.raises(SqlError, match="permission denied for table t"):
                    database.run(sessions["ann"].execute("SELECT * FROM t"))
            database.run(sessions["admin"].execute(statement))
            assert database.run(sessions["ann"].execute("SELECT * FROM t")).rows == []
            with pytest.raises(SqlError, match="permission denied for table t"):
                database.run(sessions["ann"].execute("DELETE FROM t"))


def test_an_embedded_database_has_one_superuser(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as database:
        session = database.session()
        for sql in ("CREATE TABLE t (a int)", "GRANT SELECT ON t TO PUBLIC", "SET ROLE herdpy"):
            database.run(session.execute(sql))
        for sql, state in (
            ("GRANT SELECT ON t TO ann", "42704"),
            ("SET ROLE ann", "22023"),
            ("GRANT a TO b", "0A000"),
        ):
            with pytest.raises(SqlError) as caught:
                database.run(session.execute(sql))
            assert caught.value.sqlstate == state


@pytest.mark.parametrize(
    "sql",
    [
        "GRANT SELECT (a) ON t TO eva",
        "GRANT SELECT, UPDATE (b) ON t TO eva",
        "GRANT ALL PRIVILEGES (a) ON t TO eva",
        "REVOKE SELECT (a) ON t FROM eva",
    ],
)
def test_rights_to_columns_are_refused_with_a_way_around(admin: psycopg.Connection[Any], sql: str) -> None:
    with pytest.raises(errors.FeatureNotSupported, match="privileges of columns are not supported") as caught:
        admin.execute(sql)
    assert "view" in (caught.value.diag.message_hint or "")
    assert admin.execute("SELECT has_table_privilege('eva', 't', 'SELECT, UPDATE')").fetchone() == (False,)


def test_what_drop_owned_does_not_drop_is_said(admin: psycopg.Connection[Any]) -> None:
    admin.execute("ALTER TABLE t OWNER TO crew")
    with pytest.raises(errors.FeatureNotSupported, match="DROP OWNED does not drop table t"):
        admin.execute("DROP OWNED BY crew")
    assert admin.execute("SELECT count(*) FROM t").fetchone() == (2,)
    admin.execute("REASSIGN OWNED BY crew TO eva")
    owner = "SELECT tableowner FROM pg_tables WHERE tablename = 't'"
    assert admin.execute(owner).fetchone() == ("eva",)


def test_copy_of_parameters_is_judged_and_writes_nothing(
    admin: psycopg.Connection[Any], connect: Connect
) -> None:
    admin.execute("GRANT SELECT ON t TO eva")
    eva = connect("eva")
    for sql in ("INSERT INTO t VALUES ($1, $2)", "UPDATE t SET b = $2 WHERE a = $1"):
        copied = f"COPY PARAMETERS OF '{sql}' FROM STDIN (FORMAT arrow)"
        with pytest.raises(errors.InsufficientPrivilege), eva.cursor().copy(copied) as copy:
            copy.write(b"")
    assert admin.execute("SELECT a, b FROM t ORDER BY a").fetchall() == [(1, 1), (2, 2)]


def test_a_setting_of_superusers_is_not_given_at_the_start_by_others(
    admin: psycopg.Connection[Any], connect: Connect
) -> None:
    option = "-c deadlock_timeout=1s"
    with pytest.raises(
        psycopg.OperationalError, match='permission denied to set parameter "deadlock_timeout"'
    ):
        connect("eva", options=option)
    admin.execute("ALTER ROLE eva SUPERUSER")
    assert connect("eva", options=option).execute("SHOW deadlock_timeout").fetchone() == ("1s",)
