"""LISTEN and NOTIFY: what sessions hear, in which order, as PostgreSQL has it."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.support.server_process import RunningServer

END = "the end"

SCRIPTS: dict[str, list[str]] = {
    "a channel, its payload, and none": ["LISTEN a", "NOTIFY a, 'x'", "NOTIFY a", "NOTIFY b, 'y'"],
    "names are folded, unless quoted": [
        "LISTEN Abc",
        'LISTEN "Abc"',
        "NOTIFY ABC, '1'",
        "NOTIFY \"Abc\", '2'",
        "SELECT pg_notify('ABC', '3')",
        "SELECT pg_notify('abc', '4')",
    ],
    "equal ones of a transaction are one": [
        "LISTEN a",
        "BEGIN",
        "NOTIFY a, 'x'",
        "NOTIFY a, 'y'",
        "NOTIFY a, 'x'",
        "COMMIT",
        "NOTIFY a, 'x'",
    ],
    "nothing of what is rolled back": ["LISTEN a", "BEGIN", "NOTIFY a, 'x'", "ROLLBACK", "NOTIFY a, 'y'"],
    "nothing of what is taken back to a savepoint": [
        "LISTEN a",
        "BEGIN",
        "NOTIFY a, 'kept'",
        "SAVEPOINT s",
        "NOTIFY a, 'lost'",
        "NOTIFY a, 'again'",
        "ROLLBACK TO s",
        "NOTIFY a, 'again'",
        "RELEASE s",
        "COMMIT",
    ],
    "nothing of a statement that fails": [
        "LISTEN a",
        "SELECT pg_notify('a', x::text), 1 / (3 - x) FROM generate_series(1, 3) AS g(x)",
        "BEGIN",
        "NOTIFY a, 'x'",
        "SELECT 1 / 0",
        "COMMIT",
    ],
    "a listener listens from its commit on": [
        "BEGIN",
        "LISTEN a",
        "NOTIFY a, 'own'",
        "COMMIT",
        "BEGIN",
        "LISTEN b",
        "ROLLBACK",
        "NOTIFY b, 'x'",
    ],
    "LISTEN is taken back to a savepoint": [
        "BEGIN",
        "SAVEPOINT s",
        "LISTEN a",
        "RELEASE s",
        "SAVEPOINT s",
        "LISTEN b",
        "UNLISTEN a",
        "ROLLBACK TO s",
        "COMMIT",
        "SELECT pg_listening_channels()",
        "NOTIFY a, 'x'",
        "NOTIFY b, 'y'",
    ],
    "UNLISTEN, of one and of all": [
        "LISTEN a",
        "LISTEN b",
        "LISTEN c",
        "UNLISTEN a",
        "UNLISTEN a",
        "NOTIFY a, 'x'",
        "SELECT * FROM pg_listening_channels() AS c(name) ORDER BY name",
        "UNLISTEN *",
        "NOTIFY b, 'y'",
        "SELECT count(*) FROM pg_listening_channels()",
        "LISTEN c",
        "NOTIFY c, 'z'",
    ],
    "DISCARD ALL ends listening": ["LISTEN a", "DISCARD ALL", "NOTIFY a, 'x'"],
    "pg_notify, for rows": [
        "LISTEN a",
        "SELECT pg_notify('a', x::text) FROM generate_series(1, 3) AS g(x)",
        "SELECT pg_notify('a', NULL)",
        "SELECT pg_notify('a', 'x'), 1 AS one",
        "SELECT pg_notify('a', 'y') WHERE false",
    ],
    "what is no channel, and what is too long": [
        "LISTEN a",
        "SELECT pg_notify('', 'x')",
        "SELECT pg_notify(NULL, 'x')",
        f"SELECT pg_notify('{'c' * 64}', 'x')",
        f"SELECT pg_notify('{'c' * 63}', 'x')",
        f"SELECT pg_notify('a', '{'p' * 8000}')",
        f"SELECT pg_notify('a', '{'p' * 7999}')",
        f"NOTIFY a, '{'p' * 8000}'",
        "SELECT pg_notify('a')",
        "NOTIFY a, 5",
        "NOTIFY",
        "LISTEN",
        "LISTEN 'a'",
    ],
    "the queue is empty": ["SELECT pg_notification_queue_usage()"],
    "several statements are one transaction": ["LISTEN a", "NOTIFY a, 'x'; NOTIFY a, 'x'; NOTIFY a, 'y'"],
}


def _carried_out(connection: Any, text: str) -> Any:
    """What a statement gives: its rows, its tag, or its error."""
    try:
        cursor = connection.execute(text)
    except psycopg.Error as error:
        return error.sqlstate, str(error.diag.message_primary)
    return cursor.statusmessage, cursor.fetchall() if cursor.description else None


def _heard(listener: Any, sender: Any) -> list[tuple[str, str, bool]]:
    """What waits for a listener: channel, payload, and whether ``sender`` sent it."""
    listener.execute(f'LISTEN "{END}"')
    sender.execute(f'NOTIFY "{END}"')
    found = []
    for one in listener.notifies():
        if one.channel == END:
            break
        found.append((one.channel, one.payload, one.pid == sender.info.backend_pid))
    return found


def _played(connect: Any, script: list[str], *, alone: bool) -> Any:
    """A script, by a session that hears itself, or by one that listens and one that sends."""
    with connect() as one, connect() as two:
        sender = one if alone else two
        answers = []
        for text in script:
            both = not alone and text.split()[0] in {"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"}
            is_listeners = text.split()[0] in {"LISTEN", "UNLISTEN", "DISCARD"} or "listening" in text
            asked = (one, sender) if both else (one if is_listeners else sender,)
            answers += [_carried_out(session, text) for session in asked]
        return answers, _heard(one, sender)


@pytest.mark.parametrize("alone", [True, False], ids=["one session", "two sessions"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_sessions_hear_what_they_hear_of_postgres(
    clients_server: RunningServer, postgres: str, name: str, alone: bool
) -> None:
    ours = _played(clients_server.connect, SCRIPTS[name], alone=alone)
    assert ours == _played(lambda: psycopg.connect(postgres, autocommit=True), SCRIPTS[name], alone=alone)


@pytest.fixture
def two(clients_server: RunningServer) -> Iterator[tuple[Any, Any]]:
    with clients_server.connect() as one, clients_server.connect() as other:
        yield one, other


def test_an_idle_session_hears_at_once_and_a_busy_one_later(two: tuple[Any, Any]) -> None:
    listener, sender = two
    listener.execute("LISTEN a")
    sender.execute("NOTIFY a, 'at once'")
    assert [one.payload for one in listener.notifies(stop_after=1)] == ["at once"]
    listener.execute("BEGIN")
    sender.execute("NOTIFY a, 'later'")
    listener.execute("SELECT 1")
    assert [*listener.notifies(timeout=0)] == []
    listener.execute("COMMIT")
    assert [one.payload for one in listener.notifies(timeout=0, stop_after=1)] == ["later"]


def test_nothing_is_heard_of_what_was_committed_before(two: tuple[Any, Any]) -> None:
    listener, sender = two
    sender.execute("SELECT pg_notify('a', 'before')")
    listener.execute("LISTEN a")
    assert _heard(listener, sender) == []


def test_psql_prints_notifications(clients_server: RunningServer) -> None:
    script = "LISTEN a;\nSELECT pg_notify('a', 'x');\nNOTIFY a;\n"
    dsn = f"host=127.0.0.1 port={clients_server.port} dbname=test user=ann"
    ran = subprocess.run(
        ["psql", "-X", "-q", "-t", dsn], input=script, capture_output=True, text=True, timeout=60, check=True
    )
    heard = [line for line in ran.stdout.splitlines() if line.startswith("Asynchronous")]
    assert len(heard) == 2
    assert 'notification "a" with payload "x" received from server process with PID' in heard[0]
    assert 'notification "a" received from server process with PID' in heard[1]
    assert not ran.stderr


def test_asyncpg_calls_its_listeners(clients_server: RunningServer) -> None:
    asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")

    async def main() -> None:
        where = {"host": "127.0.0.1", "port": clients_server.port, "user": "ann", "database": "test"}
        one = await asyncpg.connect(ssl=False, timeout=30, **where)
        other = await asyncpg.connect(ssl=False, timeout=30, **where)
        heard: asyncio.Queue[tuple[int, str, str]] = asyncio.Queue()

        def listener(connection: Any, pid: int, channel: str, payload: str) -> None:
            heard.put_nowait((pid, channel, payload))

        await one.add_listener("a", listener)
        await other.execute("SELECT pg_notify($1, $2)", "a", "x")
        assert await heard.get() == (other.get_server_pid(), "a", "x")
        await one.execute("NOTIFY a, 'own'")
        assert await heard.get() == (one.get_server_pid(), "a", "own")
        await one.remove_listener("a", listener)
        assert await one.fetch("SELECT pg_listening_channels()") == []
        await one.close()
        await other.close()

    asyncio.run(main())


def test_a_session_that_takes_nothing_ends(clients_server: RunningServer) -> None:
    """What waits for a listener within a transaction is bounded; others go on."""
    with clients_server.connect() as listener, clients_server.connect() as sender:
        listener.execute("LISTEN a")
        listener.execute("BEGIN")
        query = "SELECT pg_notify('a', %s || x::text) FROM generate_series(1, 7000) AS g(x)"
        for number in range(10):
            sender.execute(query, (f"{number}.",))
        ends: list[str | None] = []
        listener.add_notice_handler(lambda end: ends.append(end.sqlstate))
        listener.execute("COMMIT")
        with pytest.raises(psycopg.OperationalError):  # it only reads: what it sent would race with the end
            list(listener.notifies(timeout=60.0))
        assert ends == ["53400"]
        assert _carried_out(sender, "NOTIFY a") == ("NOTIFY", None)
