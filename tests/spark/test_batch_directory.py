"""A directory's database as a DataFrame: closed, open here, and open in a process that goes on writing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

import herdpy
from herdpy.testing.process import await_until
from herdpy_spark.directory import DirectoryError, publish
from tests.spark.reading import read

HOLDER = """
import sys, herdpy
connection = herdpy.connect(sys.argv[1], autocommit=True)
for statement in sys.stdin:
    connection.execute(statement)
    print("done", flush=True)
"""


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    """Snapshots of a moment are below the test's own directory."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))


@pytest.fixture
def shop(tmp_path):
    """A database of 1000 rows."""
    path = tmp_path / "shop"
    with herdpy.connect(path, autocommit=True) as connection:
        connection.execute("CREATE TABLE item (id INT PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO item SELECT g, 'item ' || g FROM generate_series(1, 1000) AS s (g)")
    return path


@pytest.fixture
def holder(shop):
    """``holder(statement)``: run in another process, which has the database open."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(shop)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def run(statement):
            print(statement, file=process.stdin, flush=True)
            assert process.stdout.readline() == "done\n"

        yield run


def items(path, **options):
    return sorted(read(f"herdpy://{path}", table="item", numPartitions=3, **options).rows())


def test_a_directory_that_nobody_has_open(shop):
    assert items(shop) == [(g, f"item {g}") for g in range(1, 1001)]
    assert items(shop, columns="name", where="id < 3") == [("item 1",), ("item 2",)]
    found = read(str(shop), query="SELECT count(*) AS n, max(id) AS most FROM item")
    assert found.rows() == [(1000, 1000)]


def test_a_directory_that_is_open_here(shop):
    with herdpy.connect(shop, autocommit=True) as connection:
        connection.execute("DELETE FROM item WHERE id > 5")
        found = read(f"herdpy://{shop}", table="item")
        connection.execute("DELETE FROM item")
        assert sorted(row[0] for row in found.rows()) == [1, 2, 3, 4, 5]
        assert items(shop) == []


def test_a_directory_that_another_process_writes_has_what_it_committed(shop, holder):
    holder("INSERT INTO item VALUES (-1, 'new')")
    assert await_until(lambda: items(shop, where="id < 0") == [(-1, "new")], 60.0)
    found = read(f"herdpy://{shop}", table="item")
    holder("DELETE FROM item WHERE id <> 5")
    assert sorted(found.rows()) == [(-1, "new"), *((g, f"item {g}") for g in range(1, 1001))]
    assert await_until(lambda: items(shop) == [(5, "item 5")], 60.0)


def test_what_was_committed_before_a_crash_is_there(shop):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(shop)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        process.stdin.write("DELETE FROM item WHERE id <> 7\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        process.kill()
    assert items(shop) == [(7, "item 7")]


def test_a_directory_without_a_database_is_left_as_it_is(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing"):
        with pytest.raises(DirectoryError, match="there is no database"):
            items(tmp_path / name)
    assert os.listdir(tmp_path / "empty") == []
    assert not (tmp_path / "missing").exists()


def test_a_state_is_written_once_and_goes_when_nobody_reads_it(shop):
    first = publish(str(shop))
    assert publish(str(shop)) == first
    found = read(f"herdpy://{shop}", table="item")
    with herdpy.connect(shop, autocommit=True) as connection:
        connection.execute("DELETE FROM item")
    os.utime(first.kept, (0, 0))
    assert publish(str(shop)) != first
    assert not os.path.exists(first.kept)
    with pytest.raises(DirectoryError, match="make the DataFrame again"):
        found.rows()


def test_a_place_that_others_may_write_is_not_used(shop, tmp_path):
    publish(str(shop))
    (root,) = (tmp_path / "tmp").iterdir()
    root.chmod(0o777)
    with pytest.raises(DirectoryError, match="is not a directory of this user alone"):
        publish(str(shop))
    shutil.rmtree(root)
    assert len(items(shop)) == 1000
