"""Parse, bind, describe and execute: prepared statements, portals in parts, their errors and limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from herdpy_server.embedded import Database, opened
from herdpy_server.sessions import Result, Session, SessionLimits
from herdpy_sql import types
from herdpy_sql.errors import SqlError


class Client:
    def __init__(self, database: Database) -> None:
        self.run = database.run
        self.session: Session = database.session()

    def simple(self, sql: str) -> list[Result]:
        query, found = self.session.simple_query(sql), []
        while (answer := self.run(query.step())) is not None:
            found.append(answer)
        return found

    def execute(self, portal: str = "", max_rows: int = 0, *, ends: bool = False) -> Result:
        return self.run(self.session.execute_portal(portal, max_rows, ends=ends))


def sqlstate(call, *args: object, **kwargs: object) -> str:  # type: ignore[no-untyped-def]
    with pytest.raises(SqlError) as refused:
        call(*args, **kwargs)
    return refused.value.sqlstate


@pytest.fixture
def database(tmp_path: Path):  # type: ignore[no-untyped-def]
    with opened(tmp_path / "db") as database:
        yield database


@pytest.fixture
def client(database: Database) -> Client:
    client = Client(database)
    client.simple("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1,'a'),(2,'b'),(3,'c')")
    return client


def test_types_are_declared_or_inferred(client: Client) -> None:
    session = client.session
    session.parse("p", "SELECT v, $2 FROM t WHERE id = $1", (None, types.NUMERIC))
    described = session.describe_statement("p")
    assert described.param_types == (types.INTEGER, types.NUMERIC) == session.param_types("p")
    assert described.columns is not None
    assert [(one.name, one.type) for one in described.columns] == [
        ("v", types.TEXT),
        ("?column?", types.NUMERIC),
    ]
    session.parse("q", "SELECT $1", ())
    assert session.param_types("q") == (types.TEXT,)
    session.parse("r", "SELECT 1", (types.DATE, None))  # declared, though of no use
    assert session.param_types("r") == (types.DATE, types.TEXT)
    session.parse("", "INSERT INTO t VALUES ($1, $2)")
    assert session.describe_statement("").columns is None


def test_one_text_with_other_types_is_another_statement(client: Client) -> None:
    session = client.session
    session.parse("a", "SELECT $1 AS x", (types.INTEGER,))
    session.parse("b", "SELECT $1 AS x", (types.DATE,))
    assert (session.param_types("a"), session.param_types("b")) == ((types.INTEGER,), (types.DATE,))


def test_portals_give_their_rows_in_parts(client: Client) -> None:
    session = client.session
    session.parse("", "SELECT id FROM t ORDER BY id")
    session.bind("p", "")
    steps = [client.execute("p", 2) for _ in range(3)]
    assert [(one.rows, one.tag, one.is_complete) for one in steps] == [
        ([(1,), (2,)], "SELECT 2", False),
        ([(3,)], "SELECT 1", True),
        ([], "SELECT 0", True),
    ]
    session.bind("q", "")
    exact = [
        client.execute("q", 3) for _ in range(2)
    ]  # as many as there are: only the next one says that it was all
    assert [(one.tag, one.is_complete) for one in exact] == [("SELECT 3", False), ("SELECT 0", True)]
    session.bind("r", "")
    assert (client.execute("r").tag, client.execute("r").tag) == ("SELECT 3", "SELECT 0")
    client.run(client.session.sync())
    assert sqlstate(client.execute, "p") == "34000"


def test_a_portal_of_rows_changed_runs_to_its_end_at_once(client: Client) -> None:
    session = client.session
    session.parse("", "UPDATE t SET v = 'x' RETURNING id")
    session.bind("", "")
    first = client.execute("", 1)
    assert (len(first.rows), first.tag, first.is_complete) == (1, "UPDATE 1", False)
    session.parse("n", "SELECT count(*) FROM t WHERE v = 'x'")
    session.bind("n", "n")
    assert client.execute("n").rows == [(3,)]
    assert [client.execute("", 2).tag, client.execute("", 2).tag] == ["UPDATE 2", "UPDATE 0"]
    client.run(client.session.sync())


def test_without_rows_a_portal_runs_once(client: Client) -> None:
    session = client.session
    session.parse("", "INSERT INTO t VALUES (4, 'd')")
    session.bind("p", "")
    assert client.execute("p", 1).tag == "INSERT 0 1"
    assert sqlstate(client.execute, "p") == "55000"
    client.run(client.session.sync())  # the error undid it
    assert client.simple("SELECT count(*) FROM t")[0].rows == [(3,)]


@pytest.mark.parametrize("ends", [True, False])
def test_an_empty_statement(client: Client, *, ends: bool) -> None:
    session = client.session
    session.parse("", "/* nothing */")
    assert session.describe_statement("").columns is None
    session.bind("", "")
    assert (client.execute("", ends=ends).tag, session.status) == ("", "idle")


def test_names_that_are_not_there_or_taken(client: Client) -> None:
    session = client.session
    assert sqlstate(session.bind, "", "") == "26000"
    assert sqlstate(session.bind, "", "p") == "26000"
    assert sqlstate(session.describe_statement, "p") == "26000"
    assert sqlstate(session.param_types, "p") == "26000"
    assert sqlstate(session.describe_portal, "p") == "34000"
    assert sqlstate(client.execute, "p") == "34000"
    session.parse("p", "SELECT 1")
    assert sqlstate(session.parse, "p", "SELECT 1") == "42P05"
    session.close_statement("p")
    session.close_statement("p")
    session.parse("p", "SELECT 1")
    session.bind("c", "p")
    assert sqlstate(session.bind, "c", "p") == "42P03"
    session.close_portal("c")
    session.bind("c", "p")
    session.bind("", "p")
    session.bind("", "p")
    assert client.execute("").rows == [(1,)]


def test_the_unnamed_statement_goes_with_the_next_even_if_that_fails(client: Client) -> None:
    session = client.session
    session.parse("", "SELECT 1")
    assert sqlstate(session.parse, "", "SELEC 1") == "42601"
    assert sqlstate(session.bind, "", "") == "26000"


def test_a_closed_statement_leaves_its_portal(client: Client) -> None:
    session = client.session
    session.parse("p", "SELECT 7")
    session.bind("c", "p")
    session.close_statement("p")
    assert client.execute("c").rows == [(7,)]


def test_numbers_of_parameters(client: Client) -> None:
    session = client.session
    session.parse("p", "SELECT v FROM t WHERE id = $1")
    assert sqlstate(session.bind, "", "p", ()) == "08P01"
    assert sqlstate(session.bind, "", "p", (1, 2)) == "08P01"
    assert sqlstate(session.parse, "q", "SELECT $2::int") == "42P18"
    session.parse("q", "SELECT $2::int", (types.INTEGER,))  # declared, it may be left out
    session.parse("r", "SELECT '$1', $1::int")


def test_errors_of_messages_end_what_is_implicit_and_fail_what_is_not(client: Client) -> None:
    session = client.session
    session.parse("i", "INSERT INTO t VALUES (4, 'd')")
    session.bind("", "i")
    client.execute("")
    assert session.status == "active"
    assert sqlstate(session.bind, "", "nothing") == "26000"
    assert session.status == "idle"
    assert client.simple("SELECT count(*) FROM t")[0].rows == [(3,)]
    client.simple("BEGIN")
    assert sqlstate(session.describe_portal, "nothing") == "34000"
    assert session.status == "failed"


def test_in_a_failed_transaction_only_its_end_is_taken(client: Client) -> None:
    session = client.session
    session.parse("s", "SELECT 1")
    session.parse("i", "INSERT INTO t VALUES (9)")
    session.parse("e", "")
    session.parse("r", "ROLLBACK")
    client.simple("BEGIN")
    session.bind("before", "s")
    assert sqlstate(session.parse, "", "SELECT 1/0 FROM nothing") == "42P01"
    assert sqlstate(session.parse, "", "SELECT 1") == "25P02"
    assert sqlstate(session.parse, "", "SELEC") == "42601"
    assert sqlstate(session.bind, "", "s") == "25P02"
    assert sqlstate(session.describe_statement, "s") == "25P02"
    assert session.describe_statement("i").columns is None
    assert sqlstate(session.describe_portal, "before") == "25P02"
    assert sqlstate(client.execute, "before") == "25P02"
    session.bind("", "e")
    assert client.execute("").tag == ""
    session.parse("", "COMMIT")
    session.bind("", "r")
    assert client.execute("").tag == "ROLLBACK"
    assert (session.status, session.portals) == ("idle", {})


def test_a_statement_is_planned_again_when_tables_change(client: Client) -> None:
    session = client.session
    session.parse("p", "SELECT v FROM t WHERE id = $1")
    session.parse("star", "SELECT * FROM t")
    client.simple("CREATE INDEX t_v ON t (v)")
    session.bind("", "p", (2,))
    assert client.execute("", ends=True).rows == [("b",)]
    client.simple("DROP TABLE t")
    assert sqlstate(session.bind, "", "p", (2,)) == "42P01"
    client.simple("CREATE TABLE t (id int PRIMARY KEY, v text, w int); INSERT INTO t VALUES (2, 'new', 1)")
    session.bind("", "p", (2,))
    assert client.execute("", ends=True).rows == [("new",)]
    assert sqlstate(session.bind, "", "star") == "0A000"
    client.simple("DROP TABLE t; CREATE TABLE t (id text PRIMARY KEY, v text)")
    assert sqlstate(session.bind, "", "p", (2,)) == "42883"  # its parameter stays the integer it was


def test_held_cursors_alone_outlive_a_sync(client: Client) -> None:
    session = client.session
    client.simple("DECLARE h CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY id")
    session.parse("", "SELECT 1")
    session.bind("p", "")
    assert session.sync_now()
    assert list(session.portals) == ["h"]
    assert [client.execute("h", 2).rows, client.execute("h", 2).rows] == [[(1,), (2,)], [(3,)]]
    described = session.describe_portal("h").columns
    assert described is not None
    assert [one.name for one in described] == ["id"]


def test_a_cursor_with_parameters(client: Client) -> None:
    """As psycopg's server-side cursors declare theirs."""
    session = client.session
    client.simple("BEGIN")
    session.parse("", "DECLARE c CURSOR FOR SELECT id FROM t WHERE id > $1 ORDER BY id")
    assert session.param_types("") == (types.INTEGER,)
    session.bind("", "", (1,))
    assert client.execute("").tag == "DECLARE CURSOR"
    assert client.simple("FETCH ALL c")[0].rows == [(2,), (3,)]
    client.simple("COMMIT")


def test_fetch_describes_its_cursor(client: Client) -> None:
    session = client.session
    client.simple(
        "BEGIN; DECLARE c CURSOR FOR SELECT id AS one, v AS two FROM t; PREPARE p AS SELECT 5 AS five"
    )
    for sql, wanted in (
        ("FETCH c", ["one", "two"]),
        ("EXECUTE p", ["five"]),
        ("MOVE c", None),
        ("FETCH nothing", None),
    ):
        session.parse("", sql)
        columns = session.describe_statement("").columns
        assert (None if columns is None else [one.name for one in columns]) == wanted


def test_an_explained_statement_has_its_parameters(client: Client) -> None:
    session = client.session
    session.parse("", "EXPLAIN ANALYZE SELECT v FROM t WHERE id = $1")
    session.bind("", "", (2,))
    assert any("1" in str(row[0]) for row in client.execute("", ends=True).rows)


def test_limits(database: Database) -> None:
    client = Client(database)
    session = client.session
    session.allowed = SessionLimits(statement_bytes=100, statements=2, portals=2)
    for name in ("a", "b", ""):
        session.parse(name, "SELECT 1")
    assert sqlstate(session.parse, "c", "SELECT 1") == "53400"
    assert sqlstate(client.simple, "PREPARE c AS SELECT 1") == "53400"
    client.simple("BEGIN")
    for name in ("a", "b", ""):
        session.bind(name, "a")
    assert sqlstate(session.bind, "c", "a") == "53400"
    client.simple("ROLLBACK")
    assert sqlstate(client.simple, f"SELECT '{'x' * 100}'") == "54000"
    assert sqlstate(session.parse, "", f"SELECT '{'ä' * 60}'") == "54000"


def test_large_answers_come_in_chunks(client: Client) -> None:
    client.simple("CREATE TABLE n (id int PRIMARY KEY)")
    client.run(client.session.execute_many("INSERT INTO n VALUES ($1)", [(i,) for i in range(1000)]))
    for sql in ("SELECT id FROM n ORDER BY id", "SELECT id FROM n WHERE id >= 0 ORDER BY id LIMIT 1000"):
        answer = client.simple(sql)[0]
        chunks = list(answer.chunks(300))
        assert [len(chunk) for chunk in chunks] == [300, 300, 300, 100]
        assert [row for chunk in chunks for row in chunk] == [(i,) for i in range(1000)]
