"""COPY and transactions: all or nothing, waiting, giving up. Its formats are tested in tests/copy."""

from __future__ import annotations

import struct
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from herdpy_server.embedded import Database, opened
from herdpy_server.sessions import Result, Session
from herdpy_server.sessions.copying import CopySink, CopySource
from herdpy_sql.errors import SqlError


class Client:
    """Moves COPY's data as a door does."""

    def __init__(self, database: Database) -> None:
        self.run = database.run
        self.session: Session = database.session()

    def ask(self, sql: str, *data: bytes, fail: str | None = None) -> list[str]:
        """The tags of a text's statements, or its error's SQLSTATE at the end; ``data`` is COPY's."""
        tags: list[str] = []
        try:
            query = self.session.simple_query(sql)
            while (answer := self.run(query.step())) is not None:
                tags.append(self.moved(answer, data, fail) if answer.copy is not None else answer.tag)
        except SqlError as error:
            tags.append(error.sqlstate)
        return tags

    def moved(self, answer: Result, data: tuple[bytes, ...], fail: str | None) -> str:
        copy = answer.copy
        assert isinstance(copy, CopySink)
        for piece in data:
            self.run(copy.feed(piece))
        if fail is not None:
            self.run(copy.fail(fail))
        return self.run(copy.finish())

    def ids(self) -> list[object]:
        return [row[0] for row in self.run(self.session.execute("SELECT id FROM t ORDER BY id")).rows]


async def taken(copy: CopySource) -> bytes:
    found = []
    while (data := await copy.next()) is not None:
        found.append(data)
    return unframed(b"".join(found))


def unframed(messages: bytes) -> bytes:
    """What is in CopyData messages."""
    at, found = 0, []
    while at < len(messages):
        (length,) = struct.unpack_from("!i", messages, at + 1)
        found.append(messages[at + 5 : at + 1 + length])
        at += 1 + length
    return b"".join(found)


@pytest.fixture
def database(tmp_path: Path):  # type: ignore[no-untyped-def]
    with opened(tmp_path / "db") as database:
        yield database


@pytest.fixture(params=["columns", "rows"])
def client(database: Database, request: pytest.FixtureRequest) -> Client:
    """With a table that is loaded as columns, and one that needs every row to go through INSERT."""
    client = Client(database)
    check = "CHECK (id <> 13)" if request.param == "rows" else ""
    client.ask(f"CREATE TABLE t (id int PRIMARY KEY {check}, v text DEFAULT 'none')")
    return client


def test_alone_it_is_a_transaction(client: Client) -> None:
    assert client.ask("COPY t FROM STDIN", b"1\ta\n2\t", b"b\n", b"3\tc\n") == ["COPY 3"]
    assert (client.ids(), client.session.status) == ([1, 2, 3], "idle")
    assert client.ask("COPY t FROM STDIN", b"4\ta\n", b"1\tb\n") == ["23505"]
    assert client.ask("COPY t FROM STDIN", b"4\ta\n", b"x\tb\n") == ["22P02"]
    assert client.ask("COPY t FROM STDIN", b"4\ta\n", fail="no more") == ["57014"]
    assert (client.ids(), client.session.status) == ([1, 2, 3], "idle")
    assert client.ask("COPY t FROM STDIN") == ["COPY 0"]


def test_in_a_block_it_fails_the_transaction(client: Client) -> None:
    assert client.ask("BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s") == ["BEGIN", "INSERT 0 1", "SAVEPOINT"]
    assert client.ask("COPY t FROM STDIN", b"2\ta\n", b"1\tb\n") == ["23505"]
    assert client.session.status == "failed"
    assert client.ask("COPY t FROM STDIN", b"2\ta\n") == ["25P02"]
    client.ask("ROLLBACK TO s")
    assert client.ids() == [1]
    assert client.ask("COPY t FROM STDIN", b"2\ta\n") == ["COPY 1"]
    assert client.session.status == "active"
    assert client.ask("COMMIT") == ["COMMIT"]
    assert client.ids() == [1, 2]


def test_among_statements_of_one_text(client: Client) -> None:
    sql = "INSERT INTO t VALUES (1); COPY t FROM STDIN; INSERT INTO t VALUES ({})"
    assert client.ask(sql.format(1), b"2\ta\n") == ["INSERT 0 1", "COPY 1", "23505"]
    assert (client.ids(), client.session.status) == ([], "idle")
    assert client.ask(sql.format(3), b"2\ta\n") == ["INSERT 0 1", "COPY 1", "INSERT 0 1"]
    assert client.ids() == [1, 2, 3]
    assert client.ask("DELETE FROM t; COPY t FROM STDIN", b"1\ta\n1\tb\n") == ["DELETE 3", "23505"]
    assert client.ids() == [1, 2, 3]
    assert client.ask("DELETE FROM t; COPY t FROM STDIN", b"7\ta\n") == ["DELETE 3", "COPY 1"]
    assert (client.ids(), client.session.status) == ([7], "idle")


@pytest.mark.parametrize("ends", [True, False])
def test_in_the_extended_query(client: Client, *, ends: bool) -> None:
    session = client.session
    session.parse("", "COPY t (id) FROM STDIN")
    assert session.describe_statement("").columns is None
    session.bind("", "")
    answer = client.run(session.execute_portal("", ends=ends))
    assert client.moved(answer, (b"1\n2\n",), None) == "COPY 2"
    client.run(session.sync())
    assert (client.ids(), session.status) == ([1, 2], "idle")


def test_a_read_only_transaction_takes_no_rows(client: Client) -> None:
    assert client.ask("BEGIN READ ONLY; COPY t FROM STDIN", b"1\ta\n") == ["BEGIN", "25006"]
    assert client.ask("ROLLBACK; SELECT count(*) FROM t") == ["ROLLBACK", "SELECT 1"]


def test_it_waits_for_rows_that_others_hold(database: Database, client: Client) -> None:
    other = Client(database)
    other.ask("BEGIN; INSERT INTO t VALUES (2)")
    tags: list[str] = []
    thread = threading.Thread(target=lambda: tags.extend(client.ask("COPY t FROM STDIN", b"1\ta\n2\tb\n")))
    thread.start()
    while client.session.waits.kind is None:
        thread.join(0.001)
    other.ask("ROLLBACK")
    thread.join()
    assert tags == ["COPY 2"]
    other.ask("BEGIN; DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (3)")
    thread = threading.Thread(target=lambda: tags.extend(client.ask("COPY t FROM STDIN", b"3\ta\n")))
    thread.start()
    while client.session.waits.kind is None:
        thread.join(0.001)
    client.session.cancel()
    thread.join()
    assert tags == ["COPY 2", "57014"]
    assert client.session.status == "idle"
    other.ask("COMMIT")


def test_cancel_between_two_pieces(client: Client) -> None:
    query = client.session.simple_query("COPY t FROM STDIN")
    answer = client.run(query.step())
    assert answer is not None
    assert isinstance(answer.copy, CopySink)
    client.run(answer.copy.feed(b"1\ta\n"))
    assert client.session.is_running
    client.session.cancel()
    with pytest.raises(SqlError) as cancelled:
        client.run(answer.copy.feed(b"2\tb\n"))
    assert cancelled.value.sqlstate == "57014"
    assert (client.session.status, client.session.is_running, client.ids()) == ("idle", False, [])


def test_out(client: Client) -> None:
    client.ask("INSERT INTO t VALUES (1, 'a'), (2, NULL)")
    for sql, wanted, tag in (
        ("COPY t TO STDOUT", b"1\ta\n2\t\\N\n", "COPY 2"),
        ("COPY (SELECT v FROM t WHERE id = 1) TO STDOUT (FORMAT csv, HEADER)", b"v\na\n", "COPY 1"),
        ("COPY (DELETE FROM t RETURNING id) TO STDOUT (FORMAT csv)", b"1\n2\n", "COPY 2"),
    ):
        query = client.session.simple_query(sql)
        answer = client.run(query.step())
        assert answer is not None
        assert isinstance(answer.copy, CopySource)
        data = client.run(taken(answer.copy))
        assert sorted(data.splitlines()) == sorted(wanted.splitlines())
        assert client.run(answer.copy.finish()) == tag
    assert client.ids() == []


def test_observers_are_told_at_the_end(client: Client) -> None:
    told: list[tuple[str, int, bool]] = []
    client.session.observer = lambda text, _seconds, rows, error: told.append((text, rows, error is None))
    client.ask("COPY t FROM STDIN", b"1\ta\n2\tb\n")
    client.ask("COPY t FROM STDIN", b"1\ta\n")
    assert told == [("COPY t FROM STDIN", 2, True), ("COPY t FROM STDIN", -1, False)]


def test_where_nobody_moves_its_data_it_is_refused(client: Client) -> None:
    for sql in ("COPY t FROM STDIN", "COPY t TO STDOUT", "INSERT INTO t VALUES (1); COPY t FROM STDIN"):
        with pytest.raises(SqlError) as refused:
            client.run(client.session.execute(sql))
        assert refused.value.sqlstate == "0A000"
        assert client.session.status == "idle"
    assert client.ids() == []


def test_a_view_looks_at_each_row_of_parameters(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as database:
        client = Client(database)
        client.ask("CREATE TABLE t (id int); CREATE VIEW w AS TABLE t")
        client.ask("CREATE VIEW small AS SELECT * FROM t WHERE id < 3 WITH CHECK OPTION")
        batch = pa.record_batch({"id": pa.array([1, 2, 3], pa.int32())})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        stream = sink.getvalue().to_pybytes()
        copy = "COPY PARAMETERS OF 'INSERT INTO {} VALUES ($1)' FROM STDIN (FORMAT arrow)"
        assert client.ask(copy.format("small"), stream) == ["44000"]
        assert client.ids() == []
        assert client.ask(copy.format("w"), stream) == ["INSERT 0 3"]
        assert client.ids() == [1, 2, 3]
