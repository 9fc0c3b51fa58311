"""A replica waits before it reads, and each time the table is dropped and made again meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

from herdpy_server.sessions.time_slices import Share, TooLong
from herdpy_server.tablespace.cluster import Basis, ReadLevel
from tests.pgwire.servers import ThreadServer

Connection = psycopg.Connection[Any]
LOOK = "SELECT a, b FROM redefined"
READ_LEVELS = [("linearizable", True), ("linearizable", False), ("bounded", False)]


class RedefiningGuard:
    """Whoever reads at another level than ``any`` waits until there is another table of that name.

    Attributes:
        number: the newest table's, which has one row: that as ``a``, and minus that as ``b``.
        basis_lasts: a statement waits once; else again before its query is asked.
    """

    basis: Basis | None = None
    leads = False

    def __init__(self, writer: Connection) -> None:
        self._writer = writer
        self.number = 0
        self.basis_lasts = True
        self.redefine()

    def redefine(self) -> None:
        """Columns change places each time."""
        self.number += 1
        columns = ("a int4", "b int4") if self.number % 2 else ("b int4", "a int4")
        with self._writer.transaction():
            for sql in (
                "DROP VIEW IF EXISTS seen",
                "DROP TABLE IF EXISTS redefined",
                f"CREATE TABLE redefined (id int4 PRIMARY KEY, {', '.join(columns)})",
                f"INSERT INTO redefined (id, a, b) VALUES (1, {self.number}, {-self.number})",
                f"CREATE VIEW seen AS SELECT a + {self.number} AS twice FROM redefined",
            ):
                self._writer.execute(sql.encode())

    def is_open(self, wanted: ReadLevel) -> bool:
        return wanted.level == "any"

    async def admit(self, _wanted: ReadLevel) -> Basis:
        await asyncio.get_running_loop().run_in_executor(None, self.redefine)
        return SimpleNamespace(valid=lambda: self.basis_lasts)

    def ask_leader(self) -> None:
        return None

    def holds(self, _wanted: ReadLevel, _basis: Basis | None) -> bool:
        return True

    async def confirm(self, _wanted: ReadLevel, _basis: Basis | None) -> None:
        """It may be answered."""


def connected(server: ThreadServer) -> Connection:
    return psycopg.connect(server.dsn, autocommit=True)


@pytest.fixture
def guard(server: ThreadServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedefiningGuard]:
    with connected(server) as writer:
        writer.execute("SET herdpy.read_level = 'any'")
        guard = RedefiningGuard(writer)
        with monkeypatch.context() as patch:
            patch.setattr(server.database.tablespace, "guard", guard)
            yield guard


@pytest.fixture(params=READ_LEVELS, ids=lambda given: f"{given[0]}-{given[1]}")
def reader(
    server: ThreadServer, guard: RedefiningGuard, request: pytest.FixtureRequest
) -> Iterator[Connection]:
    level, guard.basis_lasts = request.param
    with connected(server) as reader:
        reader.execute(f"SET herdpy.read_level = '{level}'".encode())
        yield reader


def row_of(guard: RedefiningGuard) -> list[tuple[int, int]]:
    return [(guard.number, -guard.number)]


@pytest.mark.parametrize("engine", ["auto", "own", "columnar"])
@pytest.mark.parametrize("prepare", [False, True])
def test_queries(guard: RedefiningGuard, reader: Connection, engine: str, prepare: bool) -> None:
    reader.execute(f"SET herdpy.engine = '{engine}'".encode())
    for _ in range(2):
        for sql in (LOOK, f"{LOOK} WHERE id = 1", f"{LOOK} ORDER BY a", f"{LOOK} WHERE a > 0"):
            before = guard.number
            assert reader.execute(sql.encode(), prepare=prepare).fetchall() == row_of(guard)
            assert guard.number > before
        assert reader.execute(f"{LOOK} WHERE id = %s".encode(), (1,), prepare=prepare).fetchall() == row_of(
            guard
        )


@pytest.mark.parametrize("prepare", [False, True])
def test_queries_with_parts(guard: RedefiningGuard, reader: Connection, prepare: bool) -> None:
    for sql in (
        "SELECT sum(a), min(b) FROM redefined",
        "SELECT a, (SELECT min(b) FROM redefined) FROM redefined",
        "WITH c AS (SELECT b FROM redefined) SELECT a, c.b FROM redefined, c",
        f"{LOOK} UNION {LOOK}",
        "SELECT x.a, y.b FROM redefined x JOIN redefined y USING (id)",
    ):
        assert reader.execute(sql.encode(), prepare=prepare).fetchall() == row_of(guard)
    for _ in range(2):
        found = reader.execute("SELECT twice FROM seen", prepare=prepare).fetchall()
        assert found == [(2 * guard.number,)]


def test_a_query_that_goes_on_in_the_columnar_engine(
    guard: RedefiningGuard, reader: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_long() -> None:
        stopped.append(guard.number)
        raise TooLong

    stopped: list[int] = []
    monkeypatch.setattr(Share, "begin", lambda _self: too_long)
    for prepare in (False, True):
        found = reader.execute(f"{LOOK} WHERE id >= 1 ORDER BY id LIMIT 5".encode(), prepare=prepare)
        assert found.fetchall() == row_of(guard)
    assert len(stopped) == 2


def test_pipelines(guard: RedefiningGuard, reader: Connection) -> None:
    with reader.pipeline():
        for sql in (LOOK, f"{LOOK} WHERE id = 1", LOOK):
            assert reader.execute(sql.encode()).fetchall() == row_of(guard)


@pytest.mark.parametrize("isolation", [IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ])
@pytest.mark.parametrize("sql", [LOOK, f"{LOOK} WHERE id = 1"])
def test_transactions(
    guard: RedefiningGuard, reader: Connection, sql: str, isolation: IsolationLevel
) -> None:
    reader.isolation_level = isolation
    for _ in range(2):
        with reader.transaction():
            first = reader.execute(sql.encode()).fetchall()
            assert first == row_of(guard)
            again = reader.execute(sql.encode()).fetchall()
            assert again == (row_of(guard) if isolation is IsolationLevel.READ_COMMITTED else first)


@pytest.mark.parametrize("sql", [LOOK, f"{LOOK} WHERE id = 1"])
def test_cursors_and_portals(guard: RedefiningGuard, reader: Connection, sql: str) -> None:
    with reader.transaction(), reader.cursor(name="c") as cursor:
        cursor.execute(sql.encode())
        assert cursor.fetchall() == row_of(guard)
    with reader.cursor(binary=True) as cursor:
        assert list(cursor.stream(sql.encode())) == row_of(guard)


@pytest.mark.parametrize("sql", [LOOK, f"{LOOK} WHERE id = 1"])
def test_copies(guard: RedefiningGuard, reader: Connection, sql: str) -> None:
    for _ in range(2):
        with reader.cursor().copy(f"COPY ({sql}) TO STDOUT".encode()) as copied:
            assert [bytes(one) for one in copied] == [b"%d\t%d\n" % row_of(guard)[0]]


def test_a_table_whose_shape_has_changed_is_copied_whole_or_refused(
    guard: RedefiningGuard, reader: Connection
) -> None:
    for _ in range(2):
        try:
            with reader.cursor().copy("COPY redefined TO STDOUT (HEADER, FORMAT csv)") as copied:
                header, row = b"".join(copied).decode().splitlines()
        except psycopg.errors.SerializationFailure:
            continue
        found = dict(zip(header.split(","), row.split(","), strict=True))
        assert found == {"id": "1", "a": str(guard.number), "b": str(-guard.number)}


def test_explained_statements(guard: RedefiningGuard, reader: Connection) -> None:
    for sql in (LOOK, f"{LOOK} WHERE id = 1"):
        lines = reader.execute(f"EXPLAIN ANALYZE {sql}".encode()).fetchall()
        assert lines


def test_all_columns_are_those_of_the_newest_table_or_refused(
    guard: RedefiningGuard, reader: Connection
) -> None:
    for sql in ("SELECT * FROM redefined", "SELECT * FROM redefined WHERE id = 1"):
        for _ in range(2):
            cursor = reader.cursor()
            try:
                cursor.execute(sql.encode())
            except (psycopg.errors.SerializationFailure, psycopg.errors.FeatureNotSupported):
                continue
            (row,) = cursor.fetchall()
            assert cursor.description is not None
            found = dict(zip([one.name for one in cursor.description], row, strict=True))
            assert found == {"id": 1, "a": guard.number, "b": -guard.number}
