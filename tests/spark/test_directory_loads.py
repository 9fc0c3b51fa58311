"""DataFrames written to the embedded database in a directory: begun, staged and published as Spark does."""

from __future__ import annotations

import pyarrow as pa
import pytest

import herdpy
from herdpy_spark.writing import LoadWriter, begin
from herdpy_spark.writing.conforming import ColumnError
from herdpy_spark.writing.directory import DirectoryLoads
from herdpy_spark.writing.gathering import gathered
from herdpy_spark.writing.plan import LoadError, WriteMode, WriteOutcome
from herdpy_spark.writing.staging import stage

SCHEMA = pa.schema([("ID", pa.int32()), ("amount", pa.int64())])


@pytest.fixture
def path(tmp_path):
    with herdpy.connect(str(tmp_path / "shop"), autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, amount NUMERIC NOT NULL, kind TEXT DEFAULT 'x')"
        )
        connection.execute("INSERT INTO t (id, amount) VALUES (1, 1), (2, 2)")
    return str(tmp_path / "shop")


def rows(path):
    with herdpy.connect(path) as connection:
        return [
            (id, int(amount)) for id, amount in connection.execute("SELECT id, amount FROM t ORDER BY id")
        ]


def batches(**columns):
    yield pa.RecordBatch.from_pydict(columns, SCHEMA)


def staged(loads, mode=WriteMode.APPEND, load_id="one", **columns):
    plan = begin(loads, load_id, "t", mode, SCHEMA)
    return plan, [stage(plan, batches(**columns), 0, 7)]


@pytest.mark.parametrize(
    ("mode", "after"),
    [
        (WriteMode.OVERWRITE, [(2, 20), (3, 30)]),
        (WriteMode.IGNORE, [(1, 1), (2, 2), (3, 30)]),
        (WriteMode.DELETE, [(1, 1)]),
    ],
)
def test_each_mode(path, tmp_path, mode, after):
    loads = DirectoryLoads(path)
    plan, parts = staged(loads, mode, ID=[2, 3], amount=[20, 30])
    loads.publish(plan, parts)
    assert rows(path) == after
    assert not list((tmp_path / "shop" / "loads").iterdir())


def test_rows_that_tasks_carry_share_a_file_until_they_are_published(path, tmp_path):
    loads = DirectoryLoads(path)
    plan = begin(loads, "one", "t", WriteMode.UPSERT, SCHEMA)
    tasks = [
        stage(plan, batches(ID=[at, 9], amount=[10 * at, at]), at, at + 7, carried_bytes=10_000)
        for at in (3, 4, 5)
    ]
    assert not list((tmp_path / "shop" / "loads").glob("*"))
    (first, *others) = gathered(plan, tasks)
    assert len(first.parts) == 1
    assert not any(one.parts for one in others)
    LoadWriter(loads, plan).commit(tasks)
    assert rows(path) == [(1, 1), (2, 2), (3, 30), (4, 40), (5, 50), (9, 5)]
    assert not list((tmp_path / "shop" / "loads").iterdir())


def test_a_load_is_done_once(path):
    loads = DirectoryLoads(path)
    plan, parts = staged(loads, ID=[3], amount=[30])
    outcome = loads.publish(plan, parts)
    assert (outcome.inserted, rows(path)) == (1, [(1, 1), (2, 2), (3, 30)])
    assert begin(loads, "one", "t", WriteMode.APPEND, SCHEMA) == outcome
    loads.abort(plan, parts)
    assert rows(path) == [(1, 1), (2, 2), (3, 30)]
    assert isinstance(outcome, WriteOutcome)


def test_a_row_that_is_there_is_refused_and_named(path):
    loads = DirectoryLoads(path)
    plan, parts = staged(loads, ID=[3, 2], amount=[30, 20])
    with pytest.raises(LoadError, match="row 2 of the load") as caught:
        loads.publish(plan, parts)
    assert caught.value.sqlstate == "23505"
    assert rows(path) == [(1, 1), (2, 2)]


def test_columns_that_are_not_the_tables_are_refused(path):
    with pytest.raises(ColumnError, match='no column "colour"'):
        begin(DirectoryLoads(path), "one", "t", WriteMode.APPEND, pa.schema([("colour", pa.string())]))


def test_damaged_files_are_noticed(path, tmp_path):
    loads = DirectoryLoads(path)
    plan, parts = staged(loads, ID=[3], amount=[30])
    (file,) = (tmp_path / "shop" / "loads").glob("*/*")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(LoadError, match="is not what was staged"):
        loads.publish(plan, parts)
    assert rows(path) == [(1, 1), (2, 2)]


def test_a_directory_that_is_open_elsewhere_says_so(path, monkeypatch):
    with (
        herdpy.connect(path),
        pytest.raises(LoadError, match=r"in use|open|another"),
    ):
        begin(DirectoryLoads(path), "one", "t", WriteMode.APPEND, SCHEMA)
