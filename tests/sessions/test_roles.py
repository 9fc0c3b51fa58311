"""CREATE, ALTER and DROP ROLE, the file of roles, and passwords that are never shown."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from session_scripts import Block, Runner

from herdpy_server.embedded import opened
from herdpy_server.roles.passwords import Verifier, without_passwords
from herdpy_server.roles.role import Role, RoleFile, RoleStore, created
from herdpy_server.sessions import Session
from herdpy_server.sessions.registry import SessionRegistry
from herdpy_sql.errors import SqlError
from herdpy_sql.parse import parse, split


class Server:
    """Sessions of users over one store of roles."""

    def __init__(self, database: object, directory: Path) -> None:
        self.database = database
        self.registry = SessionRegistry(RoleStore(RoleFile(directory)))

    def user(self, name: str) -> Runner:
        session: Session = self.database.session()  # type: ignore[attr-defined]
        self.registry.add(session, user=name, database="herdpy", end=lambda error: None)
        return Runner(self.database, session)  # type: ignore[arg-type]


def ask(runner: Runner, sql: str) -> list[str]:
    return runner.answer(Block(text=sql))[:-1]


@pytest.fixture
def server(tmp_path: Path):  # type: ignore[no-untyped-def]
    with opened(tmp_path / "db") as database:
        yield Server(database, tmp_path)


def test_a_user_can_prove_a_password(server: Server, tmp_path: Path) -> None:
    admin = server.user("admin")
    assert ask(admin, "CREATE USER ann WITH PASSWORD 'se''cret'") == ["CREATE ROLE"]
    for roles in (server.registry.role_store, RoleStore(RoleFile(tmp_path))):  # now, and after the next start
        assert roles is not None
        verifier = roles.verifier("ann")
        assert verifier is not None
        assert verifier.fits("se'cret")
        assert not verifier.fits("secret")
    assert ask(admin, "ALTER USER ann PASSWORD NULL") == ["ALTER ROLE"]
    assert RoleStore(RoleFile(tmp_path)).verifier("ann") is None


def test_the_file_is_its_owners_and_has_no_password(server: Server, tmp_path: Path) -> None:
    ask(server.user("admin"), "CREATE USER ann PASSWORD 'open sesame'")
    path = tmp_path / "users.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "sesame" not in path.read_text()
    assert json.loads(path.read_text())["roles"][0]["name"] == "ann"


def test_roles_that_cannot_log_in_or_have_expired_prove_nothing(server: Server) -> None:
    admin, roles = server.user("admin"), server.registry.role_store
    assert roles is not None
    ask(admin, "CREATE ROLE nobody PASSWORD 'x'")
    ask(admin, "CREATE USER old PASSWORD 'x' VALID UNTIL '2001-01-01'")
    ask(admin, "CREATE USER new PASSWORD 'x' VALID UNTIL 'infinity'")
    assert [roles.verifier(name) is not None for name in ("nobody", "old", "new", "none")] == [
        False,
        False,
        True,
        False,
    ]
    ask(admin, "ALTER ROLE nobody LOGIN")
    assert roles.verifier("nobody") is not None


def test_verifiers_are_postgresqls(postgres: str, server: Server) -> None:
    """One of ours is taken by PostgreSQL as it is, and one of its proves the same password here."""
    ours = Verifier.of("pässword").text()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS herdpy_test")
        connection.execute(f"CREATE ROLE herdpy_test PASSWORD '{ours}'")
        stored = "SELECT rolpassword FROM pg_authid WHERE rolname = 'herdpy_test'"
        assert connection.execute(stored).fetchone() == (ours,)
        connection.execute("ALTER ROLE herdpy_test PASSWORD 'ﬁne'")  # a ligature: prepared as "fine"
        row = connection.execute(stored).fetchone()
        connection.execute("DROP ROLE herdpy_test")
    assert row is not None
    assert ask(server.user("admin"), f"CREATE USER ann PASSWORD '{row[0]}'") == ["CREATE ROLE"]
    assert server.registry.role_store is not None
    verifier = server.registry.role_store.verifier("ann")
    assert verifier is not None
    assert verifier.fits("ﬁne")
    assert verifier.fits("fine")
    assert not verifier.fits("find")


SAME_AS_POSTGRES = [
    "CREATE ROLE h_a",
    "CREATE USER h_a",
    "CREATE ROLE pg_a",
    "CREATE ROLE public",
    "CREATE ROLE none",
    "CREATE ROLE h_b LOGIN NOLOGIN",
    "CREATE ROLE h_b PASSWORD 'a' PASSWORD 'b'",
    "CREATE ROLE h_b NONSENSE",
    "CREATE ROLE h_b WITH CREATEDB NOCREATEROLE INHERIT CONNECTION LIMIT 7 VALID UNTIL '2030-01-01'",
    "CREATE ROLE h_c CONNECTION LIMIT -2",
    "CREATE ROLE h_c PASSWORD ''",
    "CREATE ROLE h_d VALID UNTIL 'soon'",
    "CREATE ROLE current_user",
    "CREATE ROLE",
    "ALTER ROLE h_x LOGIN",
    "ALTER USER h_a SUPERUSER PASSWORD 'x'",
    "ALTER ROLE h_a",
    "ALTER ROLE h_a RENAME TO h_b",
    "ALTER ROLE h_a RENAME TO h_e",
    "ALTER ROLE h_x RENAME TO h_e",
    "ALTER ROLE h_e RENAME TO pg_e",
    "DROP ROLE h_x",
    "DROP ROLE IF EXISTS h_x, h_y",
    "DROP USER h_b, h_x",
    "DROP ROLE CURRENT_USER",
    "DROP ROLE h_b, h_c",
    "DROP USER h_e",
    "DROP ROLE",
]


def answered_otherwise(postgres: str, server: Server, statements: Sequence[str]) -> list[object]:
    """Those that this server and PostgreSQL answer differently, one after the other, with both answers."""
    from test_session_scripts_postgres import Postgres

    real, ours = Postgres(postgres), server.user("herdpy")
    try:
        wrong: list[object] = []
        for sql in statements:
            wanted, given = real.answer(Block(text=sql))[:-1], ask(ours, sql)
            if wanted != given:
                wrong.append((sql, given, wanted))
        return wrong
    finally:
        real.connection.finish()


def test_answers_are_postgresqls(postgres: str, server: Server) -> None:
    assert not answered_otherwise(postgres, server, SAME_AS_POSTGRES)


def test_who_may_change_whom(server: Server) -> None:
    admin = server.user("admin")
    ask(admin, "CREATE USER ann PASSWORD 'a'; CREATE USER maker CREATEROLE; CREATE USER boss SUPERUSER")
    ann, maker, boss = server.user("ann"), server.user("maker"), server.user("boss")
    assert ask(ann, "CREATE ROLE x") == ["ERROR 42501 permission denied to create role"]
    assert ask(ann, "DROP ROLE maker") == ["ERROR 42501 permission denied to drop role"]
    assert ask(ann, "ALTER ROLE maker PASSWORD 'x'") == ["ERROR 42501 permission denied"]
    assert ask(ann, "ALTER ROLE ann CREATEROLE") == ["ERROR 42501 permission denied"]
    assert ask(ann, "ALTER ROLE ann PASSWORD 'b'") == ["ALTER ROLE"]
    assert ask(ann, "ALTER ROLE CURRENT_USER PASSWORD 'b'") == ["ALTER ROLE"]
    assert ask(maker, "CREATE ROLE x") == ["CREATE ROLE"]
    assert ask(maker, "CREATE ROLE y SUPERUSER") == ["ERROR 42501 must be superuser to create superusers"]
    assert ask(maker, "ALTER ROLE boss PASSWORD 'x'") == ["ERROR 42501 must be superuser to alter superusers"]
    assert ask(maker, "DROP ROLE boss") == ["ERROR 42501 must be superuser to drop superusers"]
    assert ask(maker, "DROP ROLE x") == ["DROP ROLE"]
    assert ask(boss, "CREATE ROLE y SUPERUSER; DROP ROLE y") == ["CREATE ROLE", "DROP ROLE"]
    assert ask(boss, "DROP ROLE boss") == ["ERROR 55006 current user cannot be dropped"]
    assert ask(ann, "SHOW is_superuser")[1] == "off"
    assert ask(boss, "SHOW is_superuser")[1] == "on"


def test_a_setting_that_is_for_superusers(server: Server) -> None:
    admin = server.user("admin")
    ask(admin, "CREATE USER ann; CREATE USER boss SUPERUSER")
    ann, boss = server.user("ann"), server.user("boss")
    refused = ['ERROR 42501 permission denied to set parameter "deadlock_timeout"']
    for sql in ("SET deadlock_timeout = '1s'", "RESET deadlock_timeout"):
        assert ask(ann, sql) == refused
    assert ask(ann, "SHOW deadlock_timeout")[1] == "50ms"
    context = "SELECT context FROM pg_settings WHERE name = 'deadlock_timeout'"
    assert ask(ann, context)[1] == "superuser"
    assert ask(boss, "SET deadlock_timeout = '1s'; SHOW deadlock_timeout")[2] == "1s"
    assert ask(boss, "SET ROLE ann; RESET deadlock_timeout") == ["SET", *refused]


SETTINGS_AS_POSTGRES = [
    "CREATE ROLE h_a; CREATE ROLE h_s SUPERUSER; CREATE ROLE h_m CREATEROLE; CREATE ROLE h_p",
    "ALTER ROLE h_a SET work_mem = '64MB'",
    'ALTER USER h_a SET search_path TO h_a, "Odd Name", public',
    "ALTER ROLE h_a SET enable_seqscan TO off",
    "ALTER ROLE h_a SET TIME ZONE 'Europe/Berlin'",
    "ALTER ROLE h_a SET my.own = 'x'",
    "ALTER ROLE h_a SET deadlock_timeout = '2s'",
    "SELECT rolconfig FROM pg_roles WHERE rolname = 'h_a'",
    "SELECT useconfig FROM pg_shadow WHERE usename = 'h_a'",
    "SELECT s.setdatabase, r.rolname, s.setconfig FROM pg_db_role_setting s "
    "JOIN pg_roles r ON r.oid = setrole WHERE r.rolname LIKE 'h\\_%'",
    "ALTER ROLE h_a SET work_mem = '1MB'",
    "ALTER ROLE h_a SET enable_seqscan = DEFAULT",
    "SET random_page_cost = 7; ALTER ROLE h_a SET random_page_cost FROM CURRENT; RESET random_page_cost",
    "SELECT rolconfig FROM pg_roles WHERE rolname = 'h_a'",
    "ALTER ROLE h_a RESET timezone",
    "ALTER ROLE h_a RESET enable_sort",
    "ALTER ROLE h_a SET work_mem = 'much'",
    "ALTER ROLE h_a SET no_such_setting = 1",
    "ALTER ROLE h_a RESET no_such_setting",
    "ALTER ROLE h_a SET server_version = '1'",
    "ALTER ROLE h_a RESET server_version",
    "ALTER ROLE h_x SET work_mem = '1MB'",
    "ALTER ROLE h_x SET no_such_setting = 1",
    "ALTER ROLE h_a SET work_mem",
    "ALTER ROLE h_a SET work_mem TO",
    "ALTER ROLE h_a SET LOCAL work_mem = '1MB'",
    "ALTER ROLE h_a SET work_mem FROM",
    "ALTER ROLE h_a RESET",
    "ALTER ROLE h_a RESET work_mem now",
    "ALTER GROUP h_a SET work_mem = '1MB'",
    "ALTER ROLE h_a SET work_mem = '1MB' LOGIN",
    "SET ROLE h_a",
    "SHOW work_mem",
    "ALTER ROLE CURRENT_USER SET work_mem = '2MB'",
    "ALTER ROLE h_a SET deadlock_timeout = '3s'",
    "ALTER ROLE h_a RESET deadlock_timeout",
    "ALTER ROLE h_a SET my.other = 'x'",
    "ALTER ROLE h_a RESET my.own",
    "ALTER ROLE h_p SET work_mem = '1MB'",
    "ALTER ROLE h_s SET work_mem = '1MB'",
    "ALTER ROLE h_a RESET ALL",
    "SELECT rolconfig FROM pg_roles WHERE rolname = 'h_a'",
    "RESET ROLE; SET ROLE h_m",
    "ALTER ROLE h_a SET work_mem = '1MB'",
    "ALTER ROLE h_s SET work_mem = '1MB'",
    "RESET ROLE",
    "ALTER ROLE h_a RENAME TO h_b",
    "SELECT rolconfig FROM pg_roles WHERE rolname = 'h_b'",
    "ALTER ROLE h_b RESET ALL",
    "SELECT rolconfig FROM pg_roles WHERE rolname = 'h_b'",
    "DROP ROLE h_b, h_s, h_m, h_p",
]


def test_settings_of_roles_are_postgresqls(postgres: str, server: Server) -> None:
    assert not answered_otherwise(postgres, server, SETTINGS_AS_POSTGRES)


@pytest.mark.parametrize(
    "what",
    [
        "ALL SET work_mem = '1MB'", "ann IN DATABASE herdpy SET work_mem = '1MB'", "ann SET ROLE ann",
        "ann SET SESSION AUTHORIZATION ann", "ann SET TRANSACTION READ ONLY",
        "ann SET transaction_read_only = on", "ann SET herdpy.request_id = 'one'", "ann RESET ROLE",
    ],
)  # fmt: skip
def test_settings_that_no_role_has_are_refused(server: Server, what: str) -> None:
    admin = server.user("admin")
    ask(admin, "CREATE ROLE ann")
    assert ask(admin, f"ALTER ROLE {what}")[0].startswith("ERROR 0A000 ")
    assert ask(admin, "SELECT rolconfig FROM pg_roles WHERE rolname = 'ann'")[1] == "NULL"


def test_an_older_record_of_a_role_has_no_settings_and_unknown_fields_are_passed_over(
    tmp_path: Path,
) -> None:
    (tmp_path / "users.json").write_text('{"format": 1, "roles": [{"name": "ann", "later": [1]}]}')
    roles = RoleFile(tmp_path)
    assert next(iter(roles)) == Role("ann")  # what is not known is passed over
    settings = (("herdpy.forward", "on"),)
    roles.change_now(lambda known: {"ann": Role("ann", settings=settings)})
    assert next(iter(RoleFile(tmp_path))).settings == settings


def test_a_role_has_at_most_so_many_settings(server: Server) -> None:
    admin, roles = server.user("admin"), server.registry.role_store
    many = tuple((f"my.n{number}", "") for number in range(1000))
    assert roles is not None
    asyncio.run(roles.change("ALTER ROLE", lambda known: {"ann": Role("ann", settings=many)}))
    assert ask(admin, "ALTER ROLE ann SET my.n7 = 'x'") == ["ALTER ROLE"]
    assert ask(admin, "ALTER ROLE ann SET my.more = 'x'") == [
        "ERROR 53400 a role can have at most 1000 settings"
    ]


def test_roles_are_not_changed_in_a_transaction_block(server: Server) -> None:
    admin = server.user("admin")
    assert ask(admin, "BEGIN; CREATE ROLE x") == [
        "BEGIN",
        "ERROR 25001 CREATE ROLE cannot run inside a transaction block",
    ]
    assert ask(admin, "ROLLBACK") == ["ROLLBACK"]
    assert server.registry.role_store is not None
    assert not list(server.registry.role_store)


def test_an_embedded_database_has_no_roles(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as database:
        assert ask(Runner(database), "CREATE ROLE x") == ["ERROR 0A000 an embedded database has no roles"]


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    RoleFile(tmp_path).change_now(created(Role("ann")))
    path = tmp_path / "users.json"
    path.write_text(path.read_text()[:-10])
    with pytest.raises(SqlError, match="is damaged") as refused:
        RoleStore(RoleFile(tmp_path))
    assert refused.value.sqlstate == "XX001"
    path.write_text('{"format": 2, "roles": []}')
    with pytest.raises(SqlError, match="newer HerdPy"):
        RoleStore(RoleFile(tmp_path))


def test_what_a_crash_left_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "users.new").write_text("half")
    RoleFile(tmp_path).change_now(created(Role("ann")))
    assert [role.name for role in RoleStore(RoleFile(tmp_path))] == ["ann"]


def test_a_file_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    roles = RoleFile(tmp_path / "missing")
    with pytest.raises(SqlError) as refused:
        roles.change_now(created(Role("ann")))
    assert refused.value.sqlstate == "58030"
    assert roles.get("ann") is None


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE USER x PASSWORD 'hush'",
        "create user x with encrypted password'hush'",
        "CREATE USER x PASSWORD\n E'hu\\'sh hush'",
        "CREATE USER x PASSWORD $$hush$$ LOGIN",
        "CREATE USER x PASSWORD /* it is */ -- this:\n 'hush'",
        "CREATE USER x PASSWORD $a$hush$$ hush$a$ LOGIN",
        "ALTER USER x PASSWORD 'it''s hush'",
        "ALTER USER x PASSWORD 'hush",
        "ALTER USER x PASSWORD $$hush",
    ],
)
def test_passwords_are_hidden(sql: str) -> None:
    assert "hush" not in without_passwords(sql)
    assert "<hidden>" in without_passwords(sql)


def test_what_is_parsed_does_not_show_a_password() -> None:
    assert "hush" not in repr(parse(split("CREATE USER x PASSWORD 'hush'")[0]))
    assert "hush" not in repr(Verifier.of("hush"))


def test_other_texts_are_left_alone() -> None:
    sql = "SELECT 'password', passwords FROM password WHERE password = 'a'"
    assert without_passwords("SELECT 1") == "SELECT 1"
    assert without_passwords(sql) == sql
