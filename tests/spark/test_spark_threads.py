"""DataFrames from any thread and any session: of one Spark, of its other sessions, of Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql.datasource import DataSource

import herdpy
import herdpy_spark
from tests.spark.conftest import QUICK_JAVA

THREADS = 2


def test_threads_read_and_load_at_once_and_share_a_dataframe(spark, cluster, sql, new_name):
    shared = new_name("shared")
    sql(f"CREATE TABLE {shared} (id INT PRIMARY KEY)")
    sql(f"INSERT INTO {shared} SELECT * FROM generate_series(1, 100)")
    tables = [new_name("each") for _ in range(THREADS)]
    for table in tables:
        sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, thread TEXT)")
    url = {"url": cluster.url}

    def made():
        return spark.read.format("herdpy").options(**url, table=shared).load()

    def loads_and_reads(table):
        rows = frame.selectExpr("cast(id AS bigint) AS id", f"'{table}' AS thread")
        herdpy_spark.register(spark)
        rows.write.format("herdpy").options(**url, table=table, loadId=table).mode("append").save()
        return made().count()

    with ThreadPoolExecutor(THREADS) as threads:
        frame = threads.submit(made).result()
        assert frame.count() == 100
        sql(f"DELETE FROM {shared} WHERE id > 60")  # the DataFrame keeps its state, whoever reads it
        answers = list(threads.map(loads_and_reads, tables))
    assert answers == [60] * THREADS
    assert [sql(f"SELECT count(*) FROM {table}") for table in tables] == [[(100,)]] * THREADS


def test_spark_still_has_no_session_in_another_thread_that_writes(spark):
    """If this fails, Spark was mended, and threads that write need `register` no longer (docs/spark.md)."""
    write = spark.range(1).write.format("herdpy").mode("append").save
    with ThreadPoolExecutor(1) as thread, pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        thread.submit(write).result()
    with pytest.raises(Exception, match="the option url is missing"):
        write()


def test_another_session_finds_the_format_by_itself(spark):
    with pytest.raises(Exception, match="the option url is missing"):
        spark.newSession().read.format("HerdPy").load()


class OfThisName(DataSource):
    """Another source that is called herdpy."""

    @classmethod
    def name(cls):
        return "herdpy"

    def schema(self):
        raise ValueError("this is the other one")


def test_a_session_that_knows_the_format_stays_as_it_is(spark):
    other = spark.newSession()
    other.dataSource.register(OfThisName)
    herdpy_spark.register(other)
    with pytest.raises(Exception, match="this is the other one"):
        other.read.format("herdpy").load()
    with pytest.raises(Exception, match="the option url is missing"):
        spark.read.format("herdpy").load()


def python(code, **environment):
    """What a program of Python prints, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_the_extra_spark_has_no_source_and_no_error():
    without = "import sys; sys.modules['grpc'] = None; import pyspark_herdpy as p"
    assert python(f"{without}; print(hasattr(p, 'DefaultSource'))") == "False\n"
    assert python("import pyspark_herdpy as p; print(p.DefaultSource.name())") == "herdpy\n"


SERVING = """
import subprocess, sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.connect.grpc.binding.port", "0")
builder = builder.config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
builder = builder.config("spark.ui.enabled", "false").config("spark.driver.extraJavaOptions", sys.argv[3])
spark = builder.getOrCreate()
service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
port = getattr(service, "MODULE$").localPort()
client = [sys.executable, sys.argv[1], sys.argv[2], f"sc://127.0.0.1:{port}"]
done = subprocess.run(client, timeout=800)
spark.stop()
sys.exit(done.returncode)
"""

CONNECTED = """
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pyspark.sql import SparkSession
import herdpy_spark

def read(spark):
    return spark.read.format("herdpy").options(url=sys.argv[1], table="t").load()

first, second = (SparkSession.builder.remote(sys.argv[2]).create() for _ in range(2))
assert first.session_id != second.session_id
with ThreadPoolExecutor(2) as threads:
    print(*threads.map(lambda spark: read(spark).count(), (first, second)))
herdpy_spark.register(second)
print(herdpy_spark.attach(second, sys.argv[1]), second.table("t").count())
rows = second.range(10, 15).selectExpr("cast(id AS int) AS id")
rows.write.format("herdpy").options(url=sys.argv[1], table="t", loadId="one").mode("append").save()
print(read(first).count(), flush=True)
os._exit(0)  # the client would wait minutes for a session that it has closed
"""


@pytest.mark.soak
@pytest.mark.timeout(1000)
def test_sessions_of_spark_connect(tmp_path):
    path = tmp_path / "db"
    with herdpy.connect(str(path), autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1), (2), (3)")
    program = tmp_path / "connected.py"
    program.write_text(CONNECTED)
    arguments = ["", str(program), f"herdpy://{path}", QUICK_JAVA]
    environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    printed = python(f"import sys; sys.argv = {arguments!r}\n{SERVING}", **environment)
    assert printed == "3 3\n['t'] 3\n8\n"
