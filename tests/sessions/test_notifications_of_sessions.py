"""What the sessions of a directory hear: limits, levels, and what reopening and a lost log leave."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from herdpy.log import Append, LogError, LogWriteError
from herdpy_server.embedded import Database, opened
from herdpy_server.sessions import listening
from herdpy_server.store import notified
from herdpy_sql.errors import SqlError


class Client:
    """A session of an embedded database that runs texts."""

    def __init__(self, database: Database) -> None:
        self.database, self.session = database, database.session()

    def __call__(self, *texts: str) -> None:
        for text in texts:
            self.database.run(self.session.execute(text))

    def fails(self, text: str) -> str:
        with pytest.raises(SqlError) as caught:
            self(text)
        return caught.value.sqlstate

    def heard(self) -> list[tuple[str, str]]:
        """The channels and payloads that wait; then they do not."""
        channels, found = self.session.channels, []
        assert channels is not None
        while (one := channels.take()) is not None:
            found.append((one.channel, one.payload))
        return found

    def close(self) -> None:
        self.database.run(self.session.close())


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with opened(tmp_path / "db") as one:
        yield one


@pytest.fixture
def client(database: Database) -> Iterator[Client]:
    one = Client(database)
    one("LISTEN a")
    yield one
    one.close()


def test_sessions_of_a_directory_hear_each_other(database: Database, client: Client) -> None:
    other = Client(database)
    other("LISTEN a", "NOTIFY a, '1'", "CREATE TABLE t (id int PRIMARY KEY)")
    client("INSERT INTO t VALUES (1) RETURNING pg_notify('a', id::text || '!')")
    assert client.heard() == other.heard() == [("a", "1"), ("a", "1!")]
    other.close()
    client("NOTIFY a, '2'")
    assert client.heard() == [("a", "2")]
    assert database.tablespace.notifications.listeners == 1


def test_a_statement_that_is_taken_back_is_not_repeated(client: Client) -> None:
    """What is undone does not count as sent: neither for the rule of equal ones nor for the limits."""
    client("BEGIN", "NOTIFY a, 'kept'", "SAVEPOINT s")
    assert client.fails("SELECT pg_notify('a', x::text) FROM generate_series(1, 10001) AS g(x)") == "54000"
    client("ROLLBACK TO s", "NOTIFY a, 'kept'", "NOTIFY a, '1'", "NOTIFY a, '1'")
    client("SELECT pg_notify('a', x::text) FROM generate_series(20001, 29998) AS g(x)", "COMMIT")
    assert client.heard() == [("a", "kept"), ("a", "1"), *(("a", str(x)) for x in range(20_001, 29_999))]


def test_a_transaction_can_send_so_many_bytes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notified, "MAX_NOTIFIED_BYTES", 20)
    client("BEGIN", "NOTIFY a, '123456789'", "NOTIFY a, '223456789'")
    assert client.fails("NOTIFY a") == "54000"
    client("ROLLBACK", "NOTIFY a, '3'")
    assert client.heard() == [("a", "3")]


def test_a_session_can_listen_on_so_many_channels(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "MAX_CHANNELS", 3)
    client("LISTEN b", "LISTEN c")
    assert client.fails("LISTEN d") == "54000"
    client("UNLISTEN b", "LISTEN d", "NOTIFY d")
    assert client.heard() == [("d", "")]


@pytest.mark.parametrize("limit", ["MAX_QUEUED", "MAX_QUEUED_BYTES"])
def test_a_full_queue_is_lost_and_says_so_once(
    database: Database, client: Client, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    most = 3
    monkeypatch.setattr(listening, limit, most if limit == "MAX_QUEUED" else most * 103)
    client(*(f"NOTIFY a, '{n}'" for n in range(most)))
    assert database.tablespace.notifications.queue_usage > 0.9
    client("NOTIFY a, 'too many'", "NOTIFY a, 'lost as well'")
    with pytest.raises(SqlError) as caught:
        client.heard()
    assert caught.value.sqlstate == "53400"
    counts = database.tablespace.notifications
    assert (counts.published, counts.delivered, counts.dropped) == (5, 3, 2)
    client("NOTIFY a, 'heard again'")
    assert client.heard() == [("a", "heard again")]


def test_reopening_sends_nothing_again(tmp_path: Path) -> None:
    with opened(tmp_path / "db", checkpoint_interval_s=3600) as one:
        client = Client(one)
        client("NOTIFY a, 'before'")
        one.checkpointer.checkpoint = lambda **_: []  # type: ignore[method-assign, assignment]
        client.close()
    with opened(tmp_path / "db") as one:
        assert one.recovery.records == 1
        client = Client(one)
        client("LISTEN a", "NOTIFY a, 'after'")
        assert client.heard() == [("a", "after")]
        assert one.tablespace.notifications.published == 1
        client.close()


@pytest.mark.parametrize("error", [None, LogWriteError("the disk is full")], ids=["durable", "lost"])
def test_a_notification_is_heard_once_its_commit_is_durable(
    database: Database, client: Client, monkeypatch: pytest.MonkeyPatch, error: LogWriteError | None
) -> None:
    tablespace = database.tablespace
    acknowledge, heard = tablespace.acknowledge, []

    def acknowledged(appends: Sequence[Append], none: LogError | None) -> None:
        assert tablespace.pending == 1
        heard.append(client.heard())
        acknowledge(appends, error or none)
        heard.append(client.heard())

    monkeypatch.setattr(tablespace, "acknowledge", acknowledged)
    client("NOTIFY a, 'x'")
    assert heard == [[], [("a", "x")] if error is None else []]


def test_below_level_2_nothing_is_sent(tmp_path: Path) -> None:
    """A directory that 0.1 may still open has no record that 0.1 cannot read."""
    path = tmp_path / "db"
    Database.open(path).close()
    marker = path / "HERDPY"
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"format": 1}))
    with opened(path) as one:
        client = Client(one)
        client("LISTEN a", "CREATE TABLE t (id int PRIMARY KEY)")
        assert client.fails("NOTIFY a") == "0A000"
        assert client.fails("SELECT pg_notify('a', '')") == "0A000"
        client("INSERT INTO t VALUES (1)")
        marker.write_text(json.dumps(json.loads(marker.read_text()) | {"format": 2}))
        client("NOTIFY a, 'x'")
        assert client.heard() == [("a", "x")]
        client.close()
