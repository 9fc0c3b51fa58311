"""A stream into Delta Lake and into another table: drivers, an executor and the leader are killed.

What each has is known by its rows alone, against a SELECT of the table that was followed: its rows move to
other keys, go and come back, so that a batch that is missing, or is there twice, shows.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import herdpy
from herdpy.testing.errors import MissingSoftwareError
from herdpy.testing.java import delta_jars
from herdpy.testing.process import await_until
from tests.spark import feed_program
from tests.spark.test_jobs_soak import delta_rows
from tests.spark.test_spark_kills import EXECUTOR, ROOT, _kill, _read

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
PATIENCE_S = 600.0


class Stream:
    """The program, running; all runs of one have one place."""

    def __init__(self, place, given):
        roots = [str(ROOT / name) for name in ("", "server", "sql", "spark_jobs")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(roots),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        environment.pop("SPARK_HOME", None)
        self._place = place
        self._output = (place / "output").open("ab")
        argv = [sys.executable, feed_program.__file__, json.dumps(given)]
        self.process = subprocess.Popen(
            argv, env=environment, stdout=self._output, stderr=self._output, start_new_session=True
        )

    def reached(self):
        """Marks of batches."""
        return {path.name for name in ("lake", "put") for path in self._place.glob(f"{name}-*")}

    def await_mark(self, what, seen):
        """A mark that is not among those."""

        def there():
            assert self.process.poll() is None, (self._place / "output").read_text()[-3000:]
            return any(mark.startswith(what) for mark in self.reached() - seen)

        assert await_until(there, PATIENCE_S), f"no batch came to {what}"

    def descendants(self):
        parents = {}
        for name in os.listdir("/proc"):
            if name.isdigit() and (stat := _read(int(name), "stat")):
                parents[int(name)] = int(stat.rpartition(b")")[2].split()[1])
        found, new = [], [self.process.pid]
        while new:
            new = [pid for pid, parent in parents.items() if parent in new]
            found += new
        return found

    def executors(self):
        return [pid for pid in self.descendants() if EXECUTOR in _read(pid, "cmdline")]

    def close(self):
        """Kill the driver, its JVM, and all that they have started."""
        if self.process.poll() is None:
            for pid in [self.process.pid, *self.descendants()]:
                _kill(pid)
            self.process.wait(60)
        self._output.close()


def work(cluster, table, random_, count):
    """Transactions on whichever server leads; one that a kill leaves unknown may be there or not."""
    with herdpy.connect(cluster.url, autocommit=True) as connection:
        for _ in range(count):
            one, other = random_.sample(range(40), 2)
            statement = random_.choice(
                [
                    f"INSERT INTO {table} VALUES ({one}, 'v{other}')"
                    " ON CONFLICT (id) DO UPDATE SET v = excluded.v",
                    f"UPDATE {table} SET id = {one} WHERE id = {other}",
                    f"UPDATE {table} SET v = v || '+' WHERE id % 5 = {one % 5}",
                    f"DELETE FROM {table} WHERE id = {one}",
                ]
            )
            # The key is taken; or the leader was killed, and the next statement goes to another.
            with suppress(herdpy.IntegrityError, herdpy.OperationalError):
                connection.execute(statement)


def test_a_stream_whose_parts_are_killed_has_each_change_once(cluster, sql, new_name, tmp_path):
    try:
        jars = ",".join(map(str, sorted(delta_jars().glob("*.jar"))))
    except MissingSoftwareError as error:
        pytest.skip(str(error))
    table, target, random_ = new_name("followed"), new_name("target"), random.Random(4)
    for name in (table, target):
        sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v TEXT)")
    common = {"url": cluster.url, "table": table, "target": target, "place": str(tmp_path), "key": ["id"]}
    common |= {"jars": jars, "master": "local[2,20]"}
    seen: set[str] = set()
    for given in ({"hold": "lake"}, {"hold": "put"}):  # between Delta and the table, between its two loads
        work(cluster, table, random_, 60)
        stream = Stream(tmp_path, common | given)
        try:
            stream.await_mark(given["hold"], seen)
        finally:
            stream.close()
        seen |= stream.reached()
    stream = Stream(tmp_path, common | {"master": "local-cluster[2,1,1024]"})
    try:
        stream.await_mark("lake", seen)
        work(cluster, table, random_, 60)
        assert await_until(stream.executors, PATIENCE_S)
        _kill(stream.executors()[0])
        leader = cluster.await_leader()
        cluster.kill(leader)
        try:
            work(cluster, table, random_, 60)
            seen = stream.reached()
            stream.await_mark("put", seen)
        finally:
            cluster.start(leader)
    finally:
        stream.close()
    work(cluster, table, random_, 20)
    stream = Stream(tmp_path, common | {"to_end": True})
    try:
        code = stream.process.wait(PATIENCE_S)
        assert code == 0, (tmp_path / "output").read_text()[-3000:]
    finally:
        stream.close()
    rows = sorted(map(tuple, sql(f"SELECT id, v FROM {table}")))
    assert rows
    assert delta_rows(Path(tmp_path) / "lake") == rows
    assert sorted(map(tuple, sql(f"SELECT id, v FROM {target}"))) == rows
