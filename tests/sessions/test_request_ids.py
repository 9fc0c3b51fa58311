"""Commits with a name: used once, remembered, asked for, given up; through sessions, over reopening."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from herdpy_server.embedded import Database
from herdpy_sql.errors import SqlError


class Client:
    """A session of an embedded database that runs texts."""

    def __init__(self, database: Database) -> None:
        self.database, self.session = database, database.session()

    def __call__(self, sql, *params):
        rows = self.database.run(self.session.execute(sql, params)).python_rows()
        return rows[0][0] if rows else None

    def fails(self, sql, *params) -> SqlError:
        with pytest.raises(SqlError) as caught:
            self(sql, *params)
        return caught.value

    def outcome(self, name):
        return self("SELECT herdpy.commit_outcome($1)", name)

    def close(self) -> None:
        self.database.run(self.session.close())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "db"


@pytest.fixture
def client(path: Path):
    database = Database.open(path)
    client = Client(database)
    client("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    yield client
    client.close()
    database.close()


def test_an_autocommit_write_takes_the_name_and_clears_it(client):
    client("SET herdpy.request_id = 'one'")
    assert client("SHOW herdpy.request_id") == "one"
    client("SELECT 1")  # a reader leaves it
    client("INSERT INTO t VALUES (1)")
    assert client("SHOW herdpy.request_id") == ""
    done = client.outcome("one")
    assert done == f"done {client('SELECT herdpy.commit_position()')}"
    client("INSERT INTO t VALUES (2)")
    assert client.outcome("one") == done
    assert client.outcome("two") == "not done"


def test_a_second_commit_is_refused_and_names_the_first(client):
    client("SET herdpy.request_id = 'one'")
    client("INSERT INTO t VALUES (1)")
    at = client.outcome("one").removeprefix("done ")
    for _ in range(2):
        client("SET herdpy.request_id = 'one'")
        error = client.fails("INSERT INTO t VALUES (2)")
        assert (error.sqlstate, error.detail, error.outcome) == ("HP001", f"It is at {at}.", "not done")
        assert client("SHOW herdpy.request_id") == ""
    client("BEGIN")
    client("SET LOCAL herdpy.request_id = 'one'")
    client("INSERT INTO t VALUES (3)")
    assert client.fails("COMMIT").sqlstate == "HP001"
    assert client("SELECT count(*) FROM t") == 1


@pytest.mark.parametrize("how", ["SET", "SET LOCAL"])
def test_a_transactions_commit_takes_the_name(client, how):
    client("BEGIN")
    client("INSERT INTO t VALUES (1)")
    client(f"{how} herdpy.request_id = 'one'")
    client("COMMIT")
    assert client.outcome("one").startswith("done ")
    assert client("SHOW herdpy.request_id") == ""


@pytest.mark.parametrize("end", ["ROLLBACK", "COMMIT"])
def test_a_name_ends_with_its_transaction(client, end):
    client("SET herdpy.request_id = 'one'")
    client("BEGIN")
    if end == "ROLLBACK":
        client("INSERT INTO t VALUES (1)")
    client(end)
    assert client("SHOW herdpy.request_id") == ""
    client("INSERT INTO t VALUES (1)")
    assert client.outcome("one") == "not done"


def test_a_failed_write_takes_the_name_with_it(client):
    client("INSERT INTO t VALUES (1)")
    client("SET herdpy.request_id = 'one'")
    assert client.fails("INSERT INTO t VALUES (1)").sqlstate == "23505"
    client("INSERT INTO t VALUES (2)")
    assert client.outcome("one") == "not done"


def test_what_changes_nothing_is_not_logged(client):
    before = client("SELECT herdpy.commit_position()")
    client("SET herdpy.request_id = 'one'")
    client("UPDATE t SET id = 1")
    assert client.outcome("one") == "not done"
    assert client("SELECT herdpy.commit_position()") == before


def test_what_was_given_up_is_refused_for_ever(client, path):
    assert client("SELECT herdpy.forbid_commit('one')") == "not done"
    assert client("SELECT herdpy.forbid_commit('one')") == "not done"
    assert client.outcome("one") == "not done"
    client("SET herdpy.request_id = 'one'")
    assert client.fails("INSERT INTO t VALUES (1)").sqlstate == "HP002"
    client.close()
    client.database.close()
    again = Client(Database.open(path))
    again("SET herdpy.request_id = 'one'")
    assert again.fails("INSERT INTO t VALUES (1)").sqlstate == "HP002"
    again.close()
    again.database.close()


def test_giving_up_what_is_done_tells_so(client):
    client("SET herdpy.request_id = 'one'")
    client("INSERT INTO t VALUES (1)")
    assert client("SELECT herdpy.forbid_commit('one')") == client.outcome("one")


def test_recovery_and_checkpoints_keep_names(path):
    for checkpoint in (False, True):
        database = Database.open(path, checkpoint_interval_s=3600)
        client = Client(database)
        client("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY)")
        client(f"SET herdpy.request_id = 'name {checkpoint}'")
        client(f"INSERT INTO t VALUES ({int(checkpoint)})")
        if checkpoint:
            client("CHECKPOINT")
        before = client.outcome(f"name {checkpoint}")
        client.close()
        database.close()
        database = Database.open(path)
        client = Client(database)
        assert client.outcome(f"name {checkpoint}") == before
        client.close()
        database.close()


def test_of_two_at_once_one_is_done(client):
    """Also while the first one is pending: both threads wait for the same group commit."""
    refused: list[tuple[str, str | None, str]] = []
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        mine = Client(client.database)
        for round_ in range(20):
            barrier.wait()
            mine(f"SET herdpy.request_id = 'round {round_}'")
            try:
                mine(f"INSERT INTO t VALUES ({100 * round_ + number})")
            except SqlError as error:
                refused.append((error.sqlstate, error.detail, client.outcome(f"round {round_}")))
        mine.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [sqlstate for sqlstate, _, _ in refused] == ["HP001"] * 60
    assert all(detail == f"It is at {outcome.removeprefix('done ')}." for _, detail, outcome in refused)
    assert client("SELECT count(*) FROM t") == 20


def test_what_is_forgotten_is_unknown(client, monkeypatch):
    monkeypatch.setattr("herdpy_server.store.outcomes.KEEP_COUNT", 2)
    old = client("SELECT herdpy.commit_position()") + "/old"
    for number, name in enumerate([old, "b", "c", "d"]):
        client(f"SET herdpy.request_id = '{name}'")
        client(f"INSERT INTO t VALUES ({number})")
    young = client("SELECT herdpy.commit_position()") + "/young"
    assert [client.outcome(name)[:4] for name in (old, "b", "c", "d", "e", young)] == [
        "unkn", "unkn", "done", "done", "unkn", "not ",
    ]  # fmt: skip
    assert client("SELECT herdpy.forbid_commit($1)", old) == "unknown"
    client(f"SET herdpy.request_id = '{old}'")
    assert client.fails("INSERT INTO t VALUES (9)").sqlstate == "HP002"  # it was done, who knows
    client(f"SET herdpy.request_id = '{young}'")
    client("INSERT INTO t VALUES (9)")
    assert client.outcome(young).startswith("done ")


def test_a_name_from_the_future_is_refused(client):
    client("SET herdpy.request_id = '999999:0/x'")
    assert client.fails("INSERT INTO t VALUES (1)").sqlstate == "22023"
    assert client.outcome("999999:0/x") == "unknown"


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        (f"SET herdpy.request_id = '{'ü' * 33}'", "22023"),
        (f"SELECT herdpy.commit_outcome('{'x' * 65}')", "22023"),
        ("SELECT herdpy.commit_outcome('')", "22023"),
        ("SELECT herdpy.commit_outcome()", "42883"),
        ("SELECT herdpy.wibble('a')", "42883"),
        ("SELECT herdpy.commit_outcome('a'), 1", "0A000"),
        ("SELECT herdpy.commit_outcome('a') FROM t", "0A000"),
        ("SELECT herdpy.commit_outcome('a' || 'b')", "0A000"),
        ("SELECT 1 WHERE herdpy.commit_outcome('a') = 'done'", "0A000"),
    ],
)
def test_what_is_no_question_is_refused(client, sql, state):
    assert client.fails(sql).sqlstate == state
    assert client("SELECT 1") == 1
