"""A partitioned table is a definition without rows: what reads tables by themselves refuses it by name.

The log, published snapshots, change feeds, gRPC and the command line; whoever reads SQL reads its rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from typer.testing import CliRunner

import herdpy
from herdpy.cli.app import app
from herdpy.log.lsn import LSN
from herdpy.rpc import logs_pb2, partitions_pb2
from herdpy.rpc.address import RemoteError
from herdpy_spark.access import AccessError, SparkDatabase, find
from herdpy_spark.directory import publish
from herdpy_spark.feed.driver import FeedDriver, Offset, newest_table
from herdpy_spark.feed.table import PLAIN, AdaptingShape
from herdpy_spark.feed.tasks import read_task
from herdpy_spark.log import LogAddress, PartitionedTableError, end, plan_table, plan_tables, read_partition
from herdpy_spark.options import Options
from tests.service.calls import logs, partitions, told
from tests.support.server_process import RunningServer

MAKE = (
    "CREATE SCHEMA app",
    "CREATE TABLE plain (id int PRIMARY KEY)",
    "CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE app.t1 PARTITION OF t FOR VALUES FROM (100) TO (200)",
    "CREATE TABLE app.t (id int PRIMARY KEY)",
    "INSERT INTO t VALUES (1, 'a'), (150, 'b')",
    "INSERT INTO app.t VALUES (7)",
)
REFUSAL = '"t" is a partitioned table: read its partitions (t1, app.t1)'
MANY = [f"CREATE TABLE t{n} PARTITION OF t FOR VALUES FROM ({n}00) TO ({n + 1}00)" for n in range(2, 12)]


def execute(path: Path, *statements: str) -> None:
    with herdpy.connect(str(path), autocommit=True) as connection:
        for one in statements:
            connection.execute(one)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    execute(tmp_path / "db", *MAKE)
    return tmp_path / "db"


def database_of(path: Path) -> SparkDatabase:
    return SparkDatabase(None, str(path), LogAddress.of_database(path))


def follower(path: Path, table: str) -> FeedDriver:
    return FeedDriver(database_of(path), table, AdaptingShape(PLAIN))


def changes(drive: FeedDriver, start: Offset, stop: Offset) -> list[tuple[str, Any]]:
    """What happened, and the row after it."""
    shape = AdaptingShape(PLAIN)
    batches = [batch for task in drive.tasks(start, stop) for batch in read_task(task, shape)]
    return [(row["op"], row["after"]) for batch in batches for row in batch.to_pylist()]


def rows_at(address: LogAddress, table: str, at: LSN | None = None) -> list[Any]:
    plan = plan_table(address, table, at)
    batches = [batch for part in range(len(plan.ranges)) for batch in read_partition(plan, part)]
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("published", [False, True])
def test_the_log_and_snapshots_give_partitions_and_refuse_their_parent(
    directory: Path, *, published: bool
) -> None:
    made = publish(str(directory)) if published else None
    address = made.address if made else LogAddress.of_database(directory)
    at = made.ref.lsn if made else None
    with pytest.raises(PartitionedTableError) as refusal:
        plan_table(address, "t", at)
    assert str(refusal.value) == REFUSAL
    with pytest.raises(PartitionedTableError):
        plan_tables(address, ["t1", "t"], at)
    assert rows_at(address, "t1", at) == [{"id": 1, "v": "a"}]
    assert rows_at(address, "app.t1", at) == [{"id": 150, "v": "b"}]
    assert rows_at(address, "app.t", at) == [{"id": 7}]


def test_what_was_a_partition_is_named_no_more(directory: Path) -> None:
    address = LogAddress.of_database(directory)
    before = end(address)
    execute(directory, "ALTER TABLE t DETACH PARTITION t1", "DROP TABLE app.t1")
    with pytest.raises(PartitionedTableError, match=r"partitions \(it has none\)"):
        plan_table(address, "t")
    with pytest.raises(PartitionedTableError, match=r"partitions \(t1, app\.t1\)"):
        plan_table(address, "t", before)
    assert rows_at(address, "t1") == [{"id": 1, "v": "a"}]
    execute(directory, *MANY)
    with pytest.raises(PartitionedTableError, match=r"\(t2, t3, t4, t5, t6, t7, t8, t9, and 2 more\)"):
        plan_table(address, "t")


def test_a_feed_refuses_a_partitioned_table_and_follows_its_partitions(directory: Path) -> None:
    for begin in (
        lambda: newest_table(database_of(directory), "t"),
        lambda: follower(directory, "t").first("latest"),
        lambda: follower(directory, "t").state(),
    ):
        with pytest.raises(PartitionedTableError) as refusal:
            begin()
        assert str(refusal.value) == REFUSAL
    drive = follower(directory, "app.t1")
    start = drive.first("earliest")
    found = changes(drive, start, drive.next(start, None))
    assert found == [("create", None), ("insert", {"id": 150, "v": "b"})]


def test_a_feed_ends_where_its_name_comes_to_be_a_partitioned_table(directory: Path) -> None:
    execute(directory, "INSERT INTO plain VALUES (1)")
    drive = follower(directory, "plain")
    at = drive.first("latest")
    execute(
        directory,
        "INSERT INTO plain VALUES (2)",
        "DROP TABLE plain",
        "CREATE TABLE plain (id int PRIMARY KEY) PARTITION BY LIST (id)",
        "CREATE TABLE one PARTITION OF plain FOR VALUES IN (1)",
        "INSERT INTO plain VALUES (1)",
    )
    reached = drive.next(at, None)  # what was before it comes first
    assert [op for op, _row in changes(drive, at, reached)] == ["insert", "drop"]
    with pytest.raises(PartitionedTableError, match=r'"plain" is a partitioned table: .*\(one\)'):
        drive.next(reached, None)


def command(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    assert done.exit_code == code, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stderr if code else done.stdout


def test_commands_on_a_directory(directory: Path, tmp_path: Path) -> None:
    for more in ((), ("--from", "snapshot"), ("--to-table", tmp_path / "copy")):
        assert REFUSAL in command("changes", directory, "--table", "t", *more, code=1)
    messages = command("changes", directory, "--table", "t1").splitlines()
    assert [json.loads(one)["op"] for one in messages] == ["create", "insert"]
    file = tmp_path / "t.csv"
    command("export", directory, "t", file)
    assert file.read_text() == 'id,v\n1,"a"\n150,"b"\n'
    execute(directory, "DELETE FROM t")
    command("import", directory, file, "-t", "t")
    assert rows_at(LogAddress.of_database(directory), "app.t1") == [{"id": 150, "v": "b"}]
    command("check", directory)


def test_the_shell_says_what_is_partitioned(directory: Path) -> None:
    assert "Partitioned: RANGE (id); its rows are in its partitions\n" in command(
        "sql", directory, "-c", r"\d t"
    )
    shown = command("sql", directory, "-c", r"\d app.t1")
    assert "Partition of: t FOR VALUES FROM (100) TO (200)\n" in shown
    assert "artition" not in command("sql", directory, "-c", r"\d app.t")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path_factory.mktemp("partitions") / "data").ready()
    with running.connect() as connection:
        for one in MAKE:
            connection.execute(one)
    yield running
    running.close()


@pytest.fixture
def channel(server: RunningServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as opened:
        yield opened


def test_a_server_refuses_it_by_grpc(channel: grpc.Channel) -> None:
    def describe(name: str) -> Any:
        return logs(channel).Describe(logs_pb2.DescribeLogRequest(table=name))

    def plan(name: str) -> Any:
        return partitions(channel).Plan(partitions_pb2.PlanRequest(table=name, partitions=1))

    refusals = {
        describe: "read the changes of its partitions",
        plan: "read its partitions, or query it by SQL",
    }
    for ask, words in refusals.items():
        with pytest.raises(grpc.RpcError) as caught:
            ask("t")
        assert told(caught.value)[1:] == ("0A000", f'"t" is a partitioned table: {words}')
        assert RemoteError.of(caught.value).hint == "Its partitions: t1, app.t1."
        assert ask("app.t1")
        assert ask("app.t")


def test_spark_and_the_shell_are_told_by_a_server(server: RunningServer) -> None:
    url = f"herdpy://herdpy@127.0.0.1:{server.port}/default"
    options = {"url": url, "grpc": f"127.0.0.1:{server.grpc_port}", "table": "t"}
    database = find(Options.parse(options))
    with pytest.raises(AccessError, match=r"is a partitioned table.*t1, app\.t1") as refusal:
        newest_table(database, "t")
    assert refusal.value.sqlstate == "0A000"
    assert newest_table(database, "app.t1") is not None
    assert "Partitioned: RANGE (id)" in command("sql", url, "-c", r"\d t")
    assert "Partition of: t FOR VALUES FROM (0) TO (100)" in command("sql", url, "-c", r"\d t1")
