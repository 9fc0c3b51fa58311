"""Intervals, arrays, JSONB, vectors and ENUMs wherever rows are: log, store, copies, feeds, snapshots."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import herdpy
from herdpy.log import START, CreateTable
from herdpy_server.store import Store
from herdpy_spark.feed.changes import ChangeReader
from herdpy_spark.feed.table import FeedShape, FollowedTable
from herdpy_spark.log import LogAddress, entries
from herdpy_sql.definitions import decode_table
from herdpy_sql.values.inets import cidr_text, inet_text
from tests.spark.reading import read
from tests.support.feed_replay import Replica

COLUMNS = (
    "id, span, numbers, words, prices, doc, place, days, mood, moods, spans, docs, address, networks,"
    " grid, cube"
)
DEFINED = (
    "CREATE TYPE mood AS ENUM ('sad', 'happy')",
    "CREATE TABLE every (id int PRIMARY KEY, span interval, numbers int[], words text[],"
    " prices numeric(10,2)[], doc jsonb, place vector(3), days date[], mood mood, moods mood[],"
    " spans interval[], docs jsonb[], address inet, networks cidr[],"
    " grid int[][] DEFAULT '{{7,8}}', cube text[][][])",
    "CREATE INDEX every_span ON every (span); CREATE INDEX every_numbers ON every (numbers DESC)",
    "CREATE INDEX every_mood ON every (mood, id); CREATE INDEX every_grid ON every (grid, id)",
    "CREATE INDEX every_address ON every (address)",
    "CREATE TABLE keyed (span interval, numbers int[], mood mood, n int, PRIMARY KEY (span, numbers, mood))",
)
CHANGED = (
    "INSERT INTO every VALUES (1, '1 mon 2 days 03:04:05.6', '{1,NULL,3}', '{\"a b\",NULL,\"\"}',"
    " '{1.5,NULL}', '{\"b\": [1, {\"c\": null}], \"a\": 1.50}', '[1,2.5,-3]', '{2024-02-29}', 'happy',"
    " '{happy,sad,NULL}', '{1 day,-1 mon}', ARRAY['[1]'::jsonb, NULL], '10.0.0.7/24', '{::/0,NULL}',"
    " '{{1,NULL},{3,4},{5,6}}',"
    " '{{{a},{NULL}},{{\"b c\"},{d}}}')",
    "INSERT INTO every (id) VALUES (2)",
    "INSERT INTO every (id, span, numbers, mood) SELECT i, interval '1 hour' * i, ARRAY[i, -i],"
    " 'sad' FROM generate_series(3, 300) i",
    "ALTER TYPE mood ADD VALUE 'ok' BEFORE 'happy'; ALTER TYPE mood RENAME VALUE 'sad' TO 'low'",
    "UPDATE every SET mood = 'ok', moods = moods || 'ok'::mood, span = span + '1 year' WHERE id < 3",
    "UPDATE every SET doc = jsonb_set('{\"a\": {}}', '{a}', to_jsonb(numbers)), numbers = '{}'"
    " WHERE id > 290",
    "UPDATE every SET address = inet '10.0.0.0' + id, networks = ARRAY[network('::1')]"
    " WHERE id BETWEEN 20 AND 29",
    "UPDATE every SET grid = grid || ARRAY[[id, -id]] WHERE id BETWEEN 5 AND 9",
    "DELETE FROM every WHERE id BETWEEN 100 AND 120",
    "INSERT INTO keyed VALUES ('30 days', '{1}', 'ok', 1), ('1 mon', '{2}', 'ok', 2),"
    " ('-1 day', '{}', 'low', 3), ('1 mon', '{NULL}', 'happy', 4)",
    "INSERT INTO keyed VALUES ('720 hours', '{1}', 'ok', 5) ON CONFLICT (span, numbers, mood)"
    " DO UPDATE SET n = excluded.n",
    "BEGIN; UPDATE keyed SET numbers = numbers || 9 WHERE mood = 'low'; ROLLBACK",
    "UPDATE keyed SET numbers = numbers || 9, n = 6 WHERE mood = 'low'",
)
QUESTIONS = (
    f"SELECT {COLUMNS} FROM every ORDER BY id",
    "SELECT id FROM every WHERE span = '3 hours'",
    "SELECT id FROM every WHERE numbers = '{7,-7}'",
    "SELECT id FROM every WHERE mood = 'ok' ORDER BY id",
    "SELECT id FROM every WHERE grid = '{{7,8},{6,-6}}'",
    "SELECT id, grid FROM every WHERE grid > '{{7,8}}' ORDER BY grid, id",
    "SELECT id, span FROM every WHERE span > '299 hours' ORDER BY span, id",
    "SELECT * FROM keyed ORDER BY span, numbers, mood",
    "SELECT n FROM keyed WHERE span = '30 days' AND numbers = '{1}' AND mood = 'ok'",
    "SELECT enum_range(NULL::mood)",
    "SELECT id, address FROM every WHERE address > '10.0.0.7/24' ORDER BY address",
)


def answers(connection: Any) -> list[list[tuple[Any, ...]]]:
    return [connection.execute(question).fetchall() for question in QUESTIONS]


def answers_of(directory: Path) -> list[list[tuple[Any, ...]]]:
    with herdpy.connect(directory, autocommit=True) as connection:
        return answers(connection)


class Place:
    """A database, what it answered, and copies of its files that were made while it was open."""

    def __init__(self, home: Path) -> None:
        self.home = home / "db"
        self.crashed, self.trimmed = home / "crashed", home / "trimmed"
        with herdpy.connect(self.home, autocommit=True, checkpoint_interval_s=3600) as connection:
            for statement in DEFINED:
                connection.execute(statement)
            for statement in CHANGED:
                connection.execute(statement)
            self.answers = answers(connection)
            table = connection.execute(f"SELECT {COLUMNS} FROM every ORDER BY id").fetch_arrow_table()
            self.arrow = table.to_pylist()
            shutil.copytree(self.home, self.crashed)
            connection.execute("CHECKPOINT")  # which trims the log, too
            connection.execute("UPDATE keyed SET n = n + 1; UPDATE every SET id = -id")
            connection.execute("UPDATE keyed SET n = n - 1; UPDATE every SET id = -id")
            shutil.copytree(self.home, self.trimmed)

    def copy(self, name: str) -> Path:
        target = self.home.parent / name
        shutil.copytree(self.crashed, target)
        return target


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("kept")
        (home / "tmp").mkdir()
        patch.setattr("tempfile.tempdir", str(home / "tmp"))  # publications of a moment are there
        yield Place(home)


def test_they_are_what_was_written(place: Place) -> None:
    rows, *others = place.answers
    assert len(rows) == 279
    assert others[0:4] == [[(3,)], [(7,)], [(1,), (2,)], [(6,)]]
    assert others[4] == [(k, [[7, 8], [k, -k]]) for k in range(5, 10)]
    assert rows[0][-2:] == ([[1, None], [3, 4], [5, 6]], [[["a"], [None]], [["b c"], ["d"]]])
    assert others[5] == [(300, others[5][0][1]), *others[5][1:]]
    assert [row[-1] for row in others[6]] == [6, 5, 2, 4]
    assert others[7] == [(5,)]
    assert others[8] == [(["low", "ok", "happy"],)]


def test_after_a_restart_and_a_crash(place: Place) -> None:
    assert answers_of(place.home) == place.answers
    assert answers_of(place.copy("after a crash")) == place.answers
    assert answers_of(place.trimmed) == place.answers


def test_from_the_log_alone(place: Place) -> None:
    """A store that is made of nothing but the log, as a follower's is."""
    follower = place.copy("follower")
    shutil.rmtree(follower / "store")
    assert answers_of(follower) == place.answers


def test_from_another_replica_s_state(place: Place) -> None:
    """A copy of the store, as a replica is seeded, and the log behind it."""
    donor, seeded = place.copy("donor"), place.home.parent / "seeded"
    assert answers_of(donor) == place.answers
    shutil.copytree(donor, seeded)
    shutil.rmtree(seeded / "store")
    store = Store.open(donor / "store")
    store.copy(seeded / "store")
    store.close()
    assert answers_of(seeded) == place.answers


def test_a_feed_replayed_is_the_table(place: Place) -> None:
    fed = place.copy("fed")
    assert answers_of(fed) == place.answers  # and its log is closed
    address = LogAddress.of_database(fed)
    table = next(
        found
        for entry in entries(address, START)
        for transaction in entry.transactions()
        for record in transaction.records
        if isinstance(record, CreateTable) and (found := decode_table(record.definition)).name == "every"
    )
    replica = Replica()
    reader = ChangeReader(FollowedTable("every", None), FeedShape.of(table), lambda *_: pytest.fail("staged"))
    for _table, batch in reader.changes(entries(address, START)):
        for change in batch.to_pylist():
            replica.apply(change)
    assert replica.rows is not None
    places = {"low": 1.0, "ok": 1.5, "happy": 2.0}
    assert same(sorted(replica.rows.values(), key=lambda row: row["id"]), place.arrow, places)


def test_a_publication_has_the_rows(place: Place) -> None:
    found = read(f"herdpy://{place.copy('published')}", table="every")
    names = found.schema.names
    rows = sorted((dict(zip(names, row, strict=True)) for row in found.rows()), key=lambda row: row["id"])
    assert same(rows, place.arrow)
    assert rows[0]["span"] == "1 year 1 mon 2 days 03:04:05.6"
    assert rows[0]["spans"] == ["1 day", "-1 mons"]


def same(
    rows: list[dict[str, Any]], expected: list[dict[str, Any]], places: dict[str, float] | None = None
) -> bool:
    """Whether rows are those: intervals as text, of ENUMs what ``places`` has for their labels, or these.

    Where there are places, addresses are datums, too.
    """
    shown: dict[str | None, Any] = {None: None, **(places or {one: one for one in ("low", "ok", "happy")})}
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected, strict=True):
        for name, value in wanted.items():
            if name in ("span", "spans"):
                assert (row[name] is None) == (value is None)
            elif name == "mood":
                assert row[name] == shown[value]
            elif name == "moods":
                assert row[name] == (None if value is None else [shown[one] for one in value])
            elif name == "address" and places:
                assert (row[name] and inet_text(row[name])) == value
            elif name == "networks" and places:
                assert (row[name] and [one and cidr_text(one) for one in row[name]]) == value
            else:
                assert row[name] == value, name
    return True
