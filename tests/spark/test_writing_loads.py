"""Loads begun, staged and published at a server that says what each test wrote down for it."""

import itertools
import socket

import grpc
import pyarrow as pa
import pytest

from herdpy.log.records import StagedPart
from herdpy.rpc import loads_pb2 as pb
from herdpy.rpc.address import GrpcAddress
from herdpy_spark.writing.loads import ServerLoads
from herdpy_spark.writing.plan import (
    LoadError,
    LoadUnknownError,
    ServerFiles,
    StagedFile,
    TaskRows,
    WriteMode,
    WriteOutcome,
    WritePlan,
    target_columns,
)
from herdpy_spark.writing.staging import stage
from tests.spark.loads_server import LoadsServer, ScriptedLoads, refuse

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
DONE = pb.LoadOutcome(load_id="nightly", lsn={"ledger_id": 7, "entry_id": 3}, inserted=5)
OUTCOME = WriteOutcome("nightly", "7:3", 5, 0, 0, 0)
ANYWHERE = GrpcAddress("127.0.0.1", 1)
UNAVAILABLE, UNKNOWN = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN


def plan(place=ANYWHERE, max_chunk_bytes=1 << 20):
    columns = target_columns(SCHEMA)
    staging = ServerFiles(place, "shop")
    return WritePlan("nightly", "shop", "orders", WriteMode.APPEND, 9, columns, b"", max_chunk_bytes, staging)


def begun(_request, _context):
    return pb.BeginLoadResponse(
        plan={"table_id": 9, "arrow_schema": SCHEMA.serialize().to_pybytes(), "max_chunk_bytes": 1 << 20}
    )


def in_turn(*answers):
    """Answers one call after the other; the last again and again."""
    turns = itertools.chain(answers, itertools.repeat(answers[-1]))
    return lambda request, context: next(turns)(request, context)


def not_leader(leader=None):
    named = {} if leader is None else {"leader_grpc": leader.target}
    return lambda _request, context: refuse(
        context, grpc.StatusCode.FAILED_PRECONDITION, "25006", "this server follows", **named
    )


def broken(code=UNAVAILABLE, sqlstate="57P01"):
    return lambda _request, context: refuse(context, code, sqlstate, "the server goes down")


def published(_request, _context):
    return [pb.PublishProgress(rows=2, total_rows=5), pb.PublishProgress(rows=5, total_rows=5, outcome=DONE)]


@pytest.fixture
def nowhere():
    """Where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield GrpcAddress(*held.getsockname())


# Finding who leads.


def test_a_follower_names_the_leader():
    leader = ScriptedLoads(Begin=begun)
    with LoadsServer(leader) as there, LoadsServer(ScriptedLoads(Begin=not_leader(there))) as here:
        made = ServerLoads([here], "shop").begin("nightly", "orders", WriteMode.UPSERT, ["id", "name"])
    assert isinstance(made, WritePlan)
    assert made.staging == ServerFiles(there, "shop")
    ((_, request),) = leader.asked
    assert (request.mode, list(request.columns), request.tablespace) == (
        pb.LOAD_MODE_UPSERT,
        ["id", "name"],
        "shop",
    )


def test_servers_that_are_down_are_passed_over(nowhere):
    with LoadsServer(ScriptedLoads(Begin=begun)) as here:
        made = ServerLoads([nowhere, nowhere, here], "").begin("nightly", "orders", WriteMode.APPEND, ["id"])
    assert isinstance(made, WritePlan)


def test_without_a_leader_nothing_is_added_and_that_is_said():
    with (
        LoadsServer(ScriptedLoads(Begin=not_leader())) as here,
        pytest.raises(LoadError, match=r"no server leads .*this server follows") as caught,
    ):
        ServerLoads([here], "", patience_s=0.2).begin("nightly", "orders", WriteMode.APPEND, ["id"])
    assert not isinstance(caught.value, LoadUnknownError)


def test_a_load_that_was_published_has_its_outcome_at_once():
    answer = pb.BeginLoadResponse(done=DONE)
    with LoadsServer(ScriptedLoads(Begin=lambda _request, _context: answer)) as here:
        assert ServerLoads([here], "").begin("nightly", "orders", WriteMode.APPEND, ["id"]) == OUTCOME


# Publishing.


def test_what_was_staged_is_published_in_its_order_and_progress_told():
    server, told = ScriptedLoads(Publish=published), []
    staged = [
        TaskRows(0, 11, 2, (StagedPart(41, 0, 100, 5, 2),)),
        TaskRows(2, 10, 3, (StagedFile("f", 120, 6, 3),)),
    ]
    with LoadsServer(server) as here:
        outcome = ServerLoads([here], "shop").publish(plan(), staged, lambda *rows: told.append(rows))
    assert outcome == OUTCOME
    assert told == [(2, 5), (5, 5)]
    ((_, request),) = server.asked
    assert [part.WhichOneof("staged") for part in request.parts] == ["ledger", "file"]
    assert (request.parts[0].ledger.ledger_id, request.parts[1].file.id, request.table_id) == (41, "f", 9)


@pytest.mark.parametrize("failure", [broken(), broken(UNKNOWN, "08007")])
def test_a_publish_that_broke_off_is_repeated_under_its_id(failure):
    server = ScriptedLoads(Publish=in_turn(failure, failure, published))
    with LoadsServer(server) as here:
        assert ServerLoads([here], "").publish(plan(), []) == OUTCOME
    assert [request.load_id for _, request in server.asked] == ["nightly"] * 3


def test_a_publish_that_breaks_off_late_is_repeated_too():
    now_s = [0.0]

    def late(_request, context):
        now_s[0] += 3600
        return slow(context)

    async def slow(context):
        await context.write(pb.PublishProgress(rows=1, total_rows=5))
        await broken()(None, context)

    with LoadsServer(ScriptedLoads(Publish=in_turn(late, published))) as here:
        assert ServerLoads([here], "", patience_s=60.0, clock=lambda: now_s[0]).publish(plan(), []) == OUTCOME


def test_an_outcome_that_nobody_tells_is_unknown_and_says_how_to_learn_it():
    with (
        LoadsServer(ScriptedLoads(Publish=broken())) as here,
        pytest.raises(LoadUnknownError, match=r'loadId set to "nightly".*08007'),
    ):
        ServerLoads([here], "", patience_s=0.2).publish(plan(), [])


def test_a_row_that_is_refused_is_named_with_its_partition():
    def refused(_request, context):
        where = b"row 5 of the load, row 2 of part 2"
        return refuse(
            context,
            grpc.StatusCode.INVALID_ARGUMENT,
            "23505",
            "duplicate key",
            where_bin=where,
            detail_bin=b"id=7",
        )

    staged = [TaskRows(n, n, 3, (StagedFile("f", 120, 6, 3),)) for n in (0, 3)]
    with LoadsServer(ScriptedLoads(Publish=refused)) as here, pytest.raises(LoadError) as caught:
        ServerLoads([here], "").publish(plan(), staged)
    assert caught.value.sqlstate == "23505"
    assert "id=7; row 5 of the load, row 2 of Spark's partition 3" in str(caught.value)


def test_an_abort_that_reaches_nobody_does_not_hide_the_error_before_it(caplog, nowhere):
    ServerLoads([nowhere], "", abort_patience_s=0.0).abort(plan(), [])
    assert "staged rows were left" in caplog.text


# Staging on the server.


def batches(*sizes):
    first = 0
    for size in sizes:
        yield pa.RecordBatch.from_pydict(
            {"name": [f"row {n}" for n in range(first, first + size)], "id": list(range(first, first + size))}
        )
        first += size


def test_a_partition_arrives_as_one_stream_in_small_chunks():
    server = ScriptedLoads()
    with LoadsServer(server) as here:
        rows = stage(plan(here, 700), batches(100, 0, 50), 3, 17)
    (chunks,) = server.streams
    data = b"".join(chunk.data for chunk in chunks)
    assert max(len(chunk.data) for chunk in chunks) <= 700
    table = pa.ipc.open_stream(data).read_all()
    assert table.column("id").to_pylist() == list(range(150))
    assert rows == TaskRows(3, 17, 150, (StagedFile("file-1", len(data), chunks[-1].end.crc32c, 150),))


def test_a_stream_that_the_server_refuses_ends_the_task_with_its_reason():
    full = lambda chunk, context: (  # noqa: E731
        refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "53100", "no room") if chunk.data else None
    )
    with LoadsServer(ScriptedLoads(Stage=full)) as here, pytest.raises(LoadError, match="no room") as caught:
        stage(plan(here), batches(*[1000] * 50), 0, 1)
    assert caught.value.sqlstate == "53100"


def test_a_stream_that_is_given_up_has_no_end():
    def then_fail():
        yield from batches(10)
        raise RuntimeError("the executor's disk is full")

    server = ScriptedLoads()
    with LoadsServer(server) as here, pytest.raises(RuntimeError, match="disk is full"):
        stage(plan(here), then_fail(), 0, 1)
    assert not any(chunk.HasField("end") for stream in server.streams for chunk in stream)
