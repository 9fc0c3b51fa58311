"""What an embedded database does while the error comes: one function a scenario.

Each gets a connection that is open already, unless it opens one itself, and asks for changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import herdpy
from herdpy.dbapi.errors import translated
from herdpy_server.loading import directory
from tests.faults.no_return.judge import Judge, Probe


@dataclass
class Scene:
    """What a scenario works with.

    Attributes:
        path: the directory.
        connection: autocommits; None after the scenario has closed it.
    """

    path: Path
    judge: Judge
    settings: dict[str, Any]
    connection: herdpy.Connection | None = None

    def open(self) -> herdpy.Connection:
        self.connection = herdpy.connect(
            self.path, autocommit=True, checkpoint_interval_s=3600, **self.settings
        )
        return self.connection

    def close(self) -> None:
        connection, self.connection = self.connection, None
        assert connection is not None
        connection.close()

    def execute(self, sql: str) -> Any:
        assert self.connection is not None
        return self.connection.execute(sql)

    def change(self, sql: str, probe: Probe, work: Callable[[], object] | None = None) -> None:
        self.judge.ask(sql, probe, work or (lambda: self.execute(sql)))

    def checkpoint(self) -> None:
        """It may fail, and changes nothing that a query shows."""
        with suppress(herdpy.OperationalError):
            self.execute("CHECKPOINT")

    def insert(self, number: int) -> None:
        self.change(f"INSERT INTO t VALUES ({number}, {number}, 'x')", rows(number))


Script = Callable[[Scene], None]
SCENARIOS: dict[str, Script] = {}
SETTINGS: dict[str, dict[str, Any]] = {}
SMALL_LEDGERS = {"max_ledger_bytes": 4096, "log_retention_bytes": 0}


def scenario(**settings: Any) -> Callable[[Script], Script]:
    def note(script: Script) -> Script:
        SCENARIOS[script.__name__] = script
        SETTINGS[script.__name__] = settings
        return script

    return note


def rows(first: int, count: int = 1) -> Probe:
    """By way of the index too, which must agree."""

    def probe(connection: herdpy.Connection) -> float:
        found = [
            len(
                connection.execute(
                    f"SELECT id FROM t WHERE {by} >= {first} AND {by} < {first + count}"
                ).fetchall()
            )
            for by in ("id", "n")
        ]
        return sum(found) / 2 / count

    return probe


def holds(query: str) -> Probe:
    """The query has one row."""
    return lambda connection: len(connection.execute(query).fetchall())


def works(query: str) -> Probe:
    """What the query names is there."""

    def probe(connection: herdpy.Connection) -> int:
        try:
            connection.execute(query).fetchall()
        except herdpy.ProgrammingError:
            return 0
        return 1

    return probe


def gone(probe: Probe) -> Probe:
    return lambda connection: 1 - probe(connection)


@scenario()
def writes(scene: Scene) -> None:
    """One after the other."""
    scene.insert(100)
    scene.change("UPDATE t SET v = 'new' WHERE id = 1", holds("SELECT id FROM t WHERE id = 1 AND v = 'new'"))
    scene.change("DELETE FROM t WHERE id = 2", gone(holds("SELECT id FROM t WHERE id = 2")))
    scene.insert(101)


@scenario()
def a_transaction(scene: Scene) -> None:
    connection = scene.connection
    assert connection is not None

    def work() -> None:
        with connection.transaction():
            for number in range(100, 105):
                scene.execute(f"INSERT INTO t VALUES ({number}, {number}, 'x')")

    scene.change("a transaction", rows(100, 5), work)


@scenario()
def definitions(scene: Scene) -> None:
    """Tables, indexes and columns that come and go."""
    scene.change("CREATE TABLE made (a integer PRIMARY KEY)", works("SELECT a FROM made WHERE a = 1"))
    scene.change("CREATE INDEX made_v ON t (v)", holds("SELECT 1 FROM pg_class WHERE relname = 'made_v'"))
    scene.change(
        "ALTER TABLE t ADD COLUMN more integer DEFAULT 7",
        works("SELECT more FROM t WHERE id = 1"),
    )
    scene.change("DROP TABLE old", gone(works("SELECT id FROM old WHERE id = 1")))


@scenario()
def a_checkpoint(scene: Scene) -> None:
    """Of rows that are new, changed and gone, of a sequence, and of a table that was dropped."""
    scene.change("UPDATE t SET v = 'new' WHERE id = 1", holds("SELECT id FROM t WHERE id = 1 AND v = 'new'"))
    scene.change("DELETE FROM t WHERE id = 2", gone(holds("SELECT id FROM t WHERE id = 2")))
    scene.insert(100)
    scene.change("DROP TABLE old", gone(works("SELECT id FROM old WHERE id = 1")))
    scene.change("CREATE TABLE made (a integer PRIMARY KEY)", works("SELECT a FROM made WHERE a = 1"))
    scene.execute("SELECT nextval('s')")
    scene.checkpoint()
    scene.insert(101)
    scene.checkpoint()


@scenario(**SMALL_LEDGERS)
def ledgers_roll_and_go(scene: Scene) -> None:
    """A ledger for each commit, and a checkpoint past them."""
    for number in range(100, 103):
        scene.insert(number)
    scene.checkpoint()
    scene.insert(103)
    scene.checkpoint()


@scenario()
def an_ingest(scene: Scene) -> None:
    assert scene.connection is not None
    batch = pa.table({"id": range(100, 150), "n": range(100, 150), "v": ["x"] * 50}).cast(
        pa.schema([("id", pa.int32()), ("n", pa.int32()), ("v", pa.string())])
    )
    cursor = scene.connection.cursor()
    scene.change(
        "an ingest", rows(100, 50), lambda: cursor.adbc_ingest("t", batch.to_reader(), mode="append")
    )
    scene.insert(150)


@scenario()
def a_load(scene: Scene) -> None:
    """Published under a name, twice: the second time finds it done."""
    assert scene.connection is not None
    database = scene.connection.shared_link.link.database
    plan = directory.begin(database, "planned only", "t", "append", ["id", "n", "v"])
    schema = pa.schema([(one.name, one.type) for one in plan.schema])
    batch = pa.RecordBatch.from_pydict(
        {"id": list(range(100, 120)), "n": list(range(100, 120)), "v": ["x"] * 20}, schema=schema
    )

    def publish() -> None:
        with as_the_driver():
            directory.publish_batches(database, "nightly", "t", "append", [batch])

    scene.change("a load", rows(100, 20), publish)
    first = scene.judge.changes[-1]
    scene.change("a load again", rows(100, 20), publish)
    again = scene.judge.changes[-1]
    if again.outcome == "done":
        first.outcome = "done"
    else:
        again.outcome = first.outcome


@scenario()
def a_snapshot(scene: Scene) -> None:
    """Published to a directory, twice."""
    assert scene.connection is not None
    database = scene.connection.shared_link.link.database
    scene.insert(100)

    for _ in range(2):
        with suppress(herdpy.Error), as_the_driver():
            database.publish(str(scene.path.with_name("shelf")))
    scene.insert(101)


@scenario()
def a_close(scene: Scene) -> None:
    """The last checkpoint, and the end of the ledger."""
    scene.insert(100)
    scene.close()


@scenario()
def an_opening(scene: Scene) -> None:
    """Of a directory whose log is ahead of its store."""
    scene.close()
    scene.open()
    scene.insert(100)


@scenario()
def a_making(scene: Scene) -> None:
    """A directory that there was not."""
    scene.close()
    scene.path = scene.path.with_name("another")
    scene.open()
    make(scene)
    scene.insert(100)


@contextmanager
def as_the_driver() -> Iterator[None]:
    """Errors are reported as the driver would report them."""
    try:
        yield
    except Exception as error:
        raise translated(error) from error


def make(scene: Scene) -> None:
    """What all scenarios begin with."""
    scene.execute("CREATE TABLE IF NOT EXISTS t (id integer PRIMARY KEY, n integer, v text)")
    scene.execute("CREATE INDEX IF NOT EXISTS t_n ON t (n)")
    scene.execute("CREATE TABLE IF NOT EXISTS old (id integer PRIMARY KEY)")
    scene.execute("CREATE SEQUENCE IF NOT EXISTS s")
    for number in range(1, 4):
        scene.execute(f"INSERT INTO t VALUES ({number}, {number}, 'x') ON CONFLICT DO NOTHING")
    scene.execute("CHECKPOINT")
