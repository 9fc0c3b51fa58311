"""A door in front of several databases, of which one only follows: names, standby, and who clients choose."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from typing import Any, TypeVar

import psycopg
import pytest

import herdpy
from herdpy.dbapi.remote import leader
from herdpy_server.serving import AlonePlacements, Run, ServedDatabase, ServedNode, alone, no_database
from herdpy_server.sessions import Session
from herdpy_sql.errors import SqlError
from tests.pgwire.servers import PATIENCE_S, ThreadServer, thread_server
from tests.pgwire.wire import TERMINATE, Wire, query, start_up

T = TypeVar("T")


class LeaderAndFollower:
    """Two names for one database: sessions of "follows" are those of a replica that only reads."""

    def __init__(self, database: ServedDatabase) -> None:
        self.database = database
        self.follows = True
        self.followers: list[Session] = []

    def session(self, database: str) -> Session:
        if database == "elsewhere":
            raise SqlError("57P03", "there is no replica on this node")
        if database not in {"leads", "follows"}:
            raise no_database(database)
        session = self.database.session()
        if database == "follows":
            session.settings.set_standby(self.follows)
            self.followers.append(session)
        return session

    def run(self, coroutine: Coroutine[Any, Any, T], done: Callable[[Run[T]], object]) -> Run[T]:
        return self.database.run(coroutine, done)

    @property
    def is_closed(self) -> bool:
        return self.database.is_closed

    def promote(self) -> None:
        self.follows = False
        for session in self.followers:
            session.settings.set_standby(False)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    with thread_server(tmp_path_factory.mktemp("pgwire") / "data", databases=LeaderAndFollower) as found:
        yield found
        found.wait_for(found.is_clean)


def connect(server: ThreadServer, database: str) -> psycopg.Connection[Any]:
    return psycopg.connect(
        host="127.0.0.1", port=server.port, user="herdpy", dbname=database, autocommit=True
    )


def test_each_name_is_a_database_of_its_own(both: ThreadServer) -> None:
    with connect(both, "leads") as leads, connect(both, "follows") as follows:
        assert leads.execute("SELECT current_database()").fetchone() == ("leads",)
        assert follows.execute("SELECT current_database()").fetchone() == ("follows",)
    with pytest.raises(psycopg.OperationalError, match='FATAL:  database "other" does not exist'):
        connect(both, "other")
    with Wire(both.address) as wire:
        wire.send(start_up(user="herdpy", database="other"))
        assert [one.meaning() for one in wire.rest()] == [("R", b"\0\0\0\0"), ("E", "FATAL", "3D000")]


def test_not_now_is_said_before_the_authentication_is_over(both: ThreadServer) -> None:
    # Then libpq tries the next host that it knows; afterwards it would not.
    with Wire(both.address) as wire:
        wire.send(start_up(user="herdpy", database="elsewhere"))
        assert [one.meaning() for one in wire.rest()] == [("E", "FATAL", "57P03")]


@pytest.mark.parametrize("name", ["herdpy", None])
def test_a_database_that_is_alone_has_one_name_or_any(name: str | None, tmp_path: Any) -> None:
    with thread_server(tmp_path / "data", databases=lambda database: alone(database, name)) as server:
        connect(server, "herdpy").close()
        with Wire(server.address) as wire:
            wire.send(start_up(user="herdpy", database="x") + TERMINATE)
            last = wire.rest()[-1].meaning()
            assert last == (("Z", b"I") if name is None else ("E", "FATAL", "3D000"))


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (1)",
        "CREATE TABLE other (k int)",
        "DROP TABLE t",
        "UPDATE t SET k = 2",
        "DELETE FROM t",
        "COPY t FROM STDIN",
        "CREATE INDEX ON t (k)",
        "TRUNCATE t",
    ],
)
def test_a_standby_takes_no_changes(both: ThreadServer, statement: str) -> None:
    with connect(both, "leads") as leads, connect(both, "follows") as follows:
        leads.execute("CREATE TABLE IF NOT EXISTS t (k int PRIMARY KEY)")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="in a read-only transaction"):
            follows.execute(statement)
        assert follows.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_standby_says_that_it_is_one(both: ThreadServer) -> None:
    with connect(both, "leads") as leads, connect(both, "follows") as follows:
        for connection, standby in ((leads, False), (follows, True)):
            word = "on" if standby else "off"
            assert connection.info.parameter_status("in_hot_standby") == word
            assert connection.info.parameter_status("default_transaction_read_only") == "off"
            assert connection.execute("SELECT pg_is_in_recovery()").fetchone() == (standby,)
            assert connection.execute("SHOW in_hot_standby").fetchone() == (word,)
            assert connection.execute("SHOW transaction_read_only").fetchone() == (word,)
        for statement in ("SET transaction_read_only = off", "BEGIN READ WRITE"):
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="during recovery"):
                follows.execute(statement)


@pytest.mark.parametrize(
    ("wanted", "hosts", "found"),
    [
        ("read-write", ("follows", "leads"), "leads"),
        ("primary", ("follows", "leads"), "leads"),
        ("read-only", ("leads", "follows"), "follows"),
        ("standby", ("leads", "follows"), "follows"),
        ("prefer-standby", ("leads", "follows"), "follows"),
        ("any", ("leads", "follows"), "leads"),
        ("read-write", ("follows",), None),
        ("standby", ("leads",), None),
        ("prefer-standby", ("leads",), "leads"),
    ],
)
def test_libpq_finds_the_server_that_is_wanted(
    two_servers: dict[str, ThreadServer],
    wanted: str,
    hosts: tuple[str, ...],
    found: str | None,
) -> None:
    dsn = psycopg.conninfo.make_conninfo(
        host=",".join(["127.0.0.1"] * len(hosts)),
        port=",".join(str(two_servers[name].port) for name in hosts),
        user="herdpy",
        dbname="herdpy",
        target_session_attrs=wanted,
    )
    if found is None:
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(dsn)
        return
    with psycopg.connect(dsn) as connection:
        assert connection.info.port == two_servers[found].port


class Follower(ServedNode):
    """A database that only follows."""

    def __init__(self, database: ServedDatabase) -> None:
        super().__init__(database.path, database.driver, AlonePlacements(database))

    def session(self, database: str) -> Session:
        session = super().session(database)
        session.settings.set_standby(True)
        return session


@pytest.fixture(scope="module")
def two_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ThreadServer]]:
    directory = tmp_path_factory.mktemp("two")
    with (
        thread_server(directory / "leads") as leads,
        thread_server(directory / "follows", databases=Follower) as follows,
    ):
        yield {"leads": leads, "follows": follows}


def test_sessions_are_told_when_a_follower_leads(tmp_path: Any) -> None:
    made: list[LeaderAndFollower] = []

    def databases(database: ServedDatabase) -> LeaderAndFollower:
        made.append(LeaderAndFollower(database))
        return made[0]

    with thread_server(tmp_path / "data", databases=databases) as server, Wire(server.address) as wire:
        wire.start(database="follows")
        assert [one.kind for one in wire.ask(query("SELECT 1"))] == ["T", "D", "C", "Z"]
        server.look(made[0].promote)
        replies = wire.ask(query("CREATE TABLE t (k int)"))
        assert [(one.kind, one.body) for one in replies if one.kind == "S"] == [
            ("S", b"in_hot_standby\0off\0")
        ]


def test_an_idle_session_hears_at_once_that_a_follower_leads(tmp_path: Any) -> None:
    """Nobody has to ask: the setting comes by itself, and a driver that looks for the leader takes it."""
    with (
        thread_server(tmp_path / "data", databases=LeaderAndFollower) as server,
        connect(server, "follows") as connection,
    ):
        pgconn = connection.pgconn
        assert pgconn.parameter_status(b"in_hot_standby") == b"on"
        server.look(server.server.context.databases.promote)  # type: ignore[attr-defined]
        assert select.select([pgconn.socket], [], [], PATIENCE_S)[0]
        pgconn.consume_input()
        pgconn.is_busy()
        assert pgconn.parameter_status(b"in_hot_standby") == b"off"
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_search_takes_the_follower_that_begins_to_lead(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without asking it again: a question would come too late here."""
    monkeypatch.setattr(leader, "_FIRST_PAUSE_S", 2 * PATIENCE_S)
    with thread_server(tmp_path / "data", databases=LeaderAndFollower) as server:
        found: list[Any] = []

        def find() -> None:
            url = f"herdpy://herdpy@127.0.0.1:{server.port}/follows?connect_timeout={PATIENCE_S:g}"
            with closing(herdpy.connect(url, autocommit=True)) as connection:
                found.append(connection.execute("SELECT 1").fetchone())

        searching = threading.Thread(target=find)
        searching.start()
        server.wait_for(lambda: server.server.sessions == 1)
        server.look(server.server.context.databases.promote)  # type: ignore[attr-defined]
        searching.join(PATIENCE_S)
        assert found == [(1,)]
