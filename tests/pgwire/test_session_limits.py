"""What ends or refuses sessions: idle timeouts, limits of connections, who may end whose session."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.pgwire.servers import ThreadServer, thread_server
from tests.pgwire.wire import FLUSH, SYNC, Wire, bind, execute, parse, query


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    with thread_server(tmp_path_factory.mktemp("limits") / "data") as found:
        yield found
        found.wait_for(found.is_clean)


IDLE = {
    "a session": ["SET idle_session_timeout = 50"],
    "an empty text": ["SET idle_session_timeout = 50", ""],
    "a transaction": ["SET idle_in_transaction_session_timeout = 50", "BEGIN"],
    "a transaction with work": ["SET idle_in_transaction_session_timeout = 50", "BEGIN; SELECT 1"],
    "a failed transaction": ["SET idle_in_transaction_session_timeout = 50", "BEGIN", "SELECT 1 / 0"],
    "a transaction that would idle": [
        "SET idle_in_transaction_session_timeout = 50",
        "SET idle_session_timeout = 1",
    ],
    "set in the transaction": ["BEGIN", "SET idle_in_transaction_session_timeout = 50"],
    "set locally": ["BEGIN", "SET LOCAL idle_in_transaction_session_timeout = 50"],
    "a longer one before": ["SET idle_session_timeout = '1h'", "SET idle_session_timeout = 50"],
}


@pytest.mark.parametrize("name", IDLE)
def test_who_idles_is_sent_away_as_in_postgres(
    name: str, server: ThreadServer, postgres_address: str
) -> None:
    found = []
    for address in (server.address, postgres_address):
        with Wire(address) as wire:
            wire.start(database="postgres")
            wire.send(*map(query, IDLE[name]))  # at once: only after the last one does it idle
            replies = wire.rest()
            found.append([one.meaning() for one in replies])
            assert replies[-1].fields["S"] == "FATAL"
            found[-1].append(replies[-1].fields["M"])
    assert found[0] == found[1]


def test_the_limit_of_the_start_up_packet_holds(server: ThreadServer) -> None:
    with Wire(server.address) as wire:
        wire.start(idle_session_timeout="50ms")
        assert [one.meaning() for one in wire.rest()] == [("E", "FATAL", "57P05")]


def test_a_transaction_that_idles_gives_its_locks_back(ours: ThreadServer) -> None:
    with Wire(ours.address) as holder, Wire(ours.address) as other:
        holder.start()
        other.start()
        other.ask(query("CREATE TABLE t (k int PRIMARY KEY); INSERT INTO t VALUES (1)"))
        holder.ask(query("SET idle_in_transaction_session_timeout = 100"))
        holder.send(query("BEGIN; UPDATE t SET k = 2"))
        # It waits for the lock, until who holds it is sent away.
        assert other.ask(query("UPDATE t SET k = 3"))[0].body == b"UPDATE 1\0"
        assert holder.rest()[-1].meaning() == ("E", "FATAL", "25P03")


def test_who_is_busy_does_not_idle(ours: ThreadServer) -> None:
    with Wire(ours.address) as wire, Wire(ours.address) as holder:
        wire.start()
        holder.start()
        # What is sent together comes in time, however slow the machine is.
        limits = "SET idle_session_timeout = 100; SET idle_in_transaction_session_timeout = 100"
        pipeline = parse("SELECT 1") + bind() + execute() + FLUSH
        wire.send(query(limits) + query("SELECT pg_sleep(0.3)") + pipeline)
        assert [one.kind for one in wire.replies()] == ["C", "C", "Z"]
        assert [one.kind for one in wire.replies()] == ["T", "D", "C", "Z"]
        # In the middle of a pipeline nobody waits for ReadyForQuery; it is Sync that ends it.
        assert holder.ask(query("SELECT pg_sleep(0.3)"))[-1].kind == "Z"
        wire.send(SYNC + query("SET idle_session_timeout = 0"))
        assert [one.kind for one in wire.replies()] == ["1", "2", "D", "C", "Z"]
        # And a limit that is taken away is none.
        assert [one.kind for one in wire.replies()] == ["C", "Z"]
        assert holder.ask(query("SELECT pg_sleep(0.3)"))[-1].kind == "Z"
        assert wire.ask(query("SELECT 1"))[-1].kind == "Z"


ROLES = """
CREATE ROLE boss SUPERUSER LOGIN;
CREATE ROLE ann LOGIN;
CREATE ROLE bob LOGIN CONNECTION LIMIT 1;
CREATE ROLE chief SUPERUSER LOGIN CONNECTION LIMIT 0;
CREATE ROLE nobody LOGIN CONNECTION LIMIT 0;
"""


@pytest.fixture(scope="module")
def roles(ours: ThreadServer, postgres: str) -> Iterator[list[str]]:
    dsns = [ours.dsn, postgres]
    for dsn in dsns:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for statement in ROLES.strip().splitlines():
                connection.execute(statement)
    yield dsns
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP ROLE boss, ann, bob, chief, nobody")


def as_user(dsn: str, user: str) -> psycopg.Connection[Any]:
    return psycopg.connect(psycopg.conninfo.make_conninfo(dsn, user=user), autocommit=True)


def test_limits_of_roles_are_as_in_postgres(roles: list[str]) -> None:
    found = []
    for dsn in roles:
        seen = []
        with as_user(dsn, "bob"), as_user(dsn, "chief"):
            for user in ("bob", "nobody", "chief", "ann"):
                try:
                    as_user(dsn, user).close()
                except psycopg.OperationalError as error:
                    seen.append((user, str(error).partition("FATAL:")[2].strip()))
                else:
                    seen.append((user, "in"))
        found.append(seen)
    assert found[0] == found[1]
    assert [word == "in" for _user, word in found[0]] == [False, False, True, True]


@pytest.mark.parametrize("function", ["pg_cancel_backend", "pg_terminate_backend"])
@pytest.mark.parametrize(
    ("who", "whom"), [("ann", "ann"), ("ann", "bob"), ("ann", "boss"), ("boss", "ann"), ("boss", "chief")]
)
def test_rights_over_sessions_are_as_in_postgres(
    roles: list[str], function: str, who: str, whom: str
) -> None:
    found = []
    for dsn in roles:
        with as_user(dsn, whom) as target, as_user(dsn, who) as asker:
            try:
                row = asker.execute(f"SELECT {function}({target.info.backend_pid})").fetchone()
            except psycopg.Error as error:
                found.append((error.sqlstate, str(error).partition("\n")[0]))
            else:
                found.append(("done", str(row)))
    assert found[0] == found[1]


def test_the_sessions_of_a_querys_rows_are_signalled_and_no_others(roles: list[str]) -> None:
    found = []
    for dsn in roles:
        seen: list[Any] = []
        with as_user(dsn, "boss") as boss, contextlib.ExitStack() as stack:
            others = [
                stack.enter_context(
                    psycopg.connect(psycopg.conninfo.make_conninfo(dsn, user="ann", application_name=name))
                )
                for name in ("kept", "first", "second")
            ]
            mine = boss.info.backend_pid
            queries = (
                f"SELECT pg_terminate_backend({mine}) WHERE {mine} <> pg_backend_pid()",
                f"SELECT pg_cancel_backend({mine}) FROM pg_class WHERE relname = 'nothing of this name'",
                f"SELECT pg_terminate_backend({mine}) LIMIT 0",
                "SELECT pg_terminate_backend(NULL) AS ended, application_name FROM pg_stat_activity "
                "WHERE application_name = 'kept'",
                "SELECT application_name, pg_terminate_backend(pid), 1 FROM pg_stat_activity "
                "WHERE usename = 'ann' AND application_name IN ('first', 'second') ORDER BY 1 DESC",
            )
            seen += [boss.execute(query).fetchall() for query in queries]
            for other in others:
                try:
                    seen.append(other.execute("SELECT 'alive'").fetchone())
                except psycopg.OperationalError as error:
                    seen.append(error.sqlstate)
            with pytest.raises(psycopg.errors.QueryCanceled):
                boss.execute("SELECT pg_cancel_backend(pg_backend_pid())")
            seen.append(boss.execute("SELECT 'alive'").fetchone())
        found.append(seen)
    assert found[0] == found[1]
    assert found[0][-4:] == [("alive",), "57P01", "57P01", ("alive",)]


def test_a_session_that_is_not_there_is_warned_of(roles: list[str]) -> None:
    found = []
    for dsn in roles:
        notices: list[Any] = []
        with as_user(dsn, "ann") as asker:
            asker.add_notice_handler(
                lambda one, notices=notices: notices.append((one.severity, one.sqlstate, one.message_primary))
            )
            notices.append(asker.execute("SELECT pg_cancel_backend(3999999)").fetchone())
        found.append(notices)
    assert found[0] == found[1]


def test_one_user_or_address_does_not_take_all(tmp_path: Path) -> None:
    limits = {"max_connections_per_user": 2, "max_connections_per_address": 5}
    with thread_server(tmp_path / "data", **limits) as server, as_user(server.dsn, "boss") as boss:
        boss.execute("CREATE ROLE ann LOGIN")
        with as_user(server.dsn, "ann"), as_user(server.dsn, "ann"):
            with pytest.raises(psycopg.OperationalError, match='too many connections for role "ann"'):
                as_user(server.dsn, "ann")
            server.wait_for(lambda: server.server.connections == 3)
            with Wire(server.address), Wire(server.address):  # they say nothing, and count
                server.wait_for(lambda: server.server.connections == 5)
                with pytest.raises(psycopg.OperationalError, match="too many connections from address"):
                    as_user(server.dsn, "boss")
            server.wait_for(lambda: server.server.connections == 3)
            as_user(server.dsn, "boss").close()
        server.wait_for(lambda: server.server.connections == 1)
        as_user(server.dsn, "ann").close()
