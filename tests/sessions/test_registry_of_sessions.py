"""Sessions by number: what they do, and how they are cancelled and ended."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from herdpy_server.embedded import Database, opened
from herdpy_server.sessions import Session
from herdpy_server.sessions.registry import SessionEntry, SessionRegistry
from herdpy_sql.errors import SqlError


class Client:
    def __init__(self, database: Database, registry: SessionRegistry, user: str = "ann") -> None:
        self.run = database.run
        self.session: Session = database.session()
        self.ended: list[SqlError] = []
        self.entry: SessionEntry = registry.add(
            self.session, user=user, database="herdpy", end=self.ended.append, address="10.0.0.1", port=7
        )

    def ask(self, sql: str) -> None:
        query = self.session.simple_query(sql)
        while self.run(query.step()) is not None:
            pass


@pytest.fixture
def database(tmp_path: Path):  # type: ignore[no-untyped-def]
    with opened(tmp_path / "db") as database:
        yield database


def test_states_and_texts(database: Database) -> None:
    registry = SessionRegistry()
    client = Client(database, registry)
    entry = client.entry
    assert (entry.state, entry.query, entry.query_began_us) == ("idle", "", None)
    client.ask("SET application_name = 'tests'")
    client.ask("BEGIN")
    assert (entry.state, entry.query) == ("idle in transaction", "BEGIN")
    assert entry.transaction_began_us is not None
    with pytest.raises(SqlError):
        client.ask("SELECT 1/0")
    assert entry.state == "idle in transaction (aborted)"
    client.ask("ROLLBACK")
    assert (entry.state, entry.transaction_began_us) == ("idle", None)
    activity = entry.activity()
    assert (activity.pid, activity.user, activity.application_name) == (entry.pid, "ann", "tests")
    assert (activity.client_address, activity.client_port) == ("10.0.0.1", 7)
    assert activity.backend_start_us is not None
    assert activity.query_start_us is not None
    assert activity.backend_start_us <= activity.query_start_us


def test_a_long_or_secret_text_is_not_kept_as_it_is(database: Database) -> None:
    client = Client(database, SessionRegistry())
    with pytest.raises(SqlError):
        client.ask("CREATE USER x PASSWORD 'hush'")
    assert "hush" not in client.entry.query
    client.ask(f"SELECT '{'x' * 5000}'")
    assert len(client.entry.query) == 1024


def test_numbers_are_unique_and_freed(database: Database) -> None:
    registry = SessionRegistry()
    clients = [Client(database, registry, user) for user in ("ann", "bob", "ann")]
    assert len({client.entry.pid for client in clients}) == 3
    assert (len(registry), registry.of_user("ann")) == (3, 2)
    registry.remove(clients[0].entry)
    registry.remove(clients[0].entry)
    assert [entry.pid for entry in registry] == [client.entry.pid for client in clients[1:]]
    assert registry.get(clients[0].entry.pid) is None
    assert str(clients[1].entry.secret) not in repr(clients[1].entry)


def test_cancel_wants_the_secret(database: Database) -> None:
    registry = SessionRegistry()
    holder, waiter = Client(database, registry), Client(database, registry)
    holder.ask("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    holder.ask("BEGIN; UPDATE t SET id = 2")
    errors: list[SqlError] = []

    def wait() -> None:
        try:
            waiter.ask("DELETE FROM t WHERE id = 1")
        except SqlError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while waiter.session.waits.kind is None:  # until it has met the lock
        thread.join(0.001)
    assert (waiter.entry.state, waiter.entry.activity().wait_event_type) == ("active", "Lock")
    entry = waiter.entry
    assert not registry.cancel(entry.pid, entry.secret ^ 1)
    assert not registry.cancel(entry.pid + 100, entry.secret)
    assert thread.is_alive()
    assert registry.cancel(entry.pid, entry.secret)
    thread.join()
    assert [error.sqlstate for error in errors] == ["57014"]
    assert entry.state == "idle"
    holder.ask("ROLLBACK")


def test_terminate_tells_the_door_why(database: Database) -> None:
    registry = SessionRegistry()
    client = Client(database, registry)
    assert registry.signal(client.entry.pid, terminate=True)
    assert [error.sqlstate for error in client.ended] == ["57P01"]
    assert registry.signal(client.entry.pid, terminate=False)
    assert not registry.signal(999, terminate=True)
