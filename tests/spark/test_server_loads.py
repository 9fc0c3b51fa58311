"""Loads into a server that is alone: parts are staged on its disk, sent by gRPC."""

from __future__ import annotations

import pyarrow as pa
import pytest

from herdpy_spark.access import find
from herdpy_spark.options import Options
from herdpy_spark.writing import LoadWriter, begin
from herdpy_spark.writing.loads import ServerLoads
from herdpy_spark.writing.plan import LoadError, ServerFiles, WriteMode, WriteOutcome
from herdpy_spark.writing.staging import stage
from tests.support.server_process import RunningServer

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = RunningServer(tmp_path_factory.mktemp("loads") / "data").ready()
    yield running
    running.close()


@pytest.fixture
def run(server):
    """Begin a load into the table t, which is new; and stage two partitions."""
    with server.connect(user="herdpy") as connection:
        connection.execute("DROP TABLE IF EXISTS t")
        connection.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT)")
        url = f"herdpy://127.0.0.1:{server.port}/data"
        options = Options.parse({"url": url, "table": "t", "grpc": f"127.0.0.1:{server.grpc_port}"}, "write")
        servers = find(options).servers
        loads = ServerLoads(servers.places, servers.tablespace)

        def run(load_id, carried_bytes=0):
            plan = begin(loads, load_id, "t", WriteMode.APPEND, SCHEMA)
            if isinstance(plan, WriteOutcome):
                return LoadWriter(loads, plan), []
            assert isinstance(plan.staging, ServerFiles)
            ids = [range(500), range(500, 1000)]
            batches = [
                pa.RecordBatch.from_pydict({"id": list(some), "name": ["x"] * 500}, SCHEMA) for some in ids
            ]
            return LoadWriter(loads, plan), [
                stage(plan, iter([batch]), n, n, carried_bytes=carried_bytes)
                for n, batch in enumerate(batches)
            ]

        run.count = lambda: connection.execute("SELECT count(*) FROM t").fetchone()[0]
        yield run


def test_rows_are_staged_published_and_not_loaded_again(run):
    writer, messages = run("first")
    assert run.count() == 0
    writer.commit(messages)
    writer.abort(messages)
    assert run.count() == 1000
    again, nothing = run("first")
    again.commit(nothing)
    assert run.count() == 1000


def test_rows_that_tasks_carry_are_sent_by_the_driver(run, server):
    writer, messages = run("carried", carried_bytes=100_000)
    assert not any(one.parts for one in messages)
    writer.commit(messages)
    assert run.count() == 1000
    assert not list((server.data / "loads").glob("*/*"))


def test_an_abort_removes_the_files(run, server):
    writer, messages = run("given-up")
    assert list((server.data / "loads").glob("*/*.arrow"))
    writer.abort(messages)
    assert not list((server.data / "loads").glob("*/*"))
    with pytest.raises(LoadError, match="part 1 of load given-up is not on this server"):
        writer.commit(messages)
    assert run.count() == 0
