"""The service Partitions: a table in parts, all at one moment."""

from __future__ import annotations

import random
import threading
import time

import grpc
import psycopg
import pyarrow as pa
import pytest

from herdpy.rpc import partitions_pb2 as pb
from herdpy_sql.definitions import decode_table
from tests.service.calls import partitions, refused, rows_of, told

NOT_FOUND = grpc.StatusCode.NOT_FOUND
INVALID = grpc.StatusCode.INVALID_ARGUMENT
OUT_OF_RANGE = grpc.StatusCode.OUT_OF_RANGE


def table(server, name: str, definition: str, rows: str = "") -> None:
    """A new table, filled by a SELECT."""
    with server.connect() as connection:
        connection.execute(f"CREATE TABLE {name} ({definition})")
        if rows:
            connection.execute(f"INSERT INTO {name} {rows}")


def lsn(plan) -> tuple[int, int]:
    return plan.lsn.ledger_id, plan.lsn.entry_id


@pytest.mark.parametrize("wanted", [1, 2, 7, 64])
def test_partitions_are_even_in_order_and_cover_the_table_once(server, channel, wanted):
    name = f"even{wanted}"
    # Most keys lie close together: equal ranges of values would not do.
    table(
        server,
        name,
        "id BIGINT PRIMARY KEY, v TEXT",
        "SELECT g::bigint * g * g, 'v' || g FROM generate_series(1, 9000) g",
    )
    stub = partitions(channel)
    plan = stub.Plan(pb.PlanRequest(table=name, partitions=wanted))
    counts = [one.rows for one in plan.partitions]
    assert len(counts) == wanted
    assert max(counts) - min(counts) <= 9000 // wanted * 0.02 + 2
    rows = [row for part in rows_of(stub, plan) for row in part]
    assert rows == [(g**3, f"v{g}") for g in range(1, 9001)]
    assert rows_of(stub, plan) == rows_of(stub, plan)
    stub.Release(pb.PlanId(id=plan.id))


def test_columns_are_chosen_and_the_schema_told(server, channel):
    table(
        server,
        "chosen",
        "id INT PRIMARY KEY, b BOOLEAN, n NUMERIC(10,2)",
        "SELECT g, g > 1, g FROM generate_series(1, 3) g",
    )
    stub = partitions(channel)
    plan = stub.Plan(pb.PlanRequest(table="chosen", columns=["n", "id"], partitions=1))
    schema = pa.ipc.read_schema(pa.py_buffer(plan.arrow_schema))
    assert schema.names == ["n", "id"]
    assert pa.types.is_decimal(schema.field("n").type)
    assert [[str(n), i] for n, i in rows_of(stub, plan)[0]] == [["1.00", 1], ["2.00", 2], ["3.00", 3]]


def test_keys_are_bounded(server, channel):
    table(
        server,
        "bounded",
        "name TEXT, n INT, PRIMARY KEY (name, n)",
        "SELECT chr(97 + g / 10), g FROM generate_series(0, 59) g",
    )
    stub = partitions(channel)
    for low, high, wanted in (
        ("b", "d", range(10, 30)),
        (None, "b", range(10)),
        ("f", None, range(50, 60)),
        ("d", "b", ()),
        ("x", None, ()),
    ):
        plan = stub.Plan(pb.PlanRequest(table="bounded", low=low, high=high, partitions=3))
        assert [n for part in rows_of(stub, plan) for _name, n in part] == list(wanted)
        stub.Release(pb.PlanId(id=plan.id))


def read(stub, ticket: str, **chosen) -> pa.Table:
    """What a reading gives."""
    stream = stub.Read(pb.ReadPartitionRequest(ticket=ticket, **chosen))
    return pa.ipc.open_stream(b"".join(message.data for message in stream)).read_all()


def test_encoded_keys_bound_plans_and_readings(server, channel):
    table(server, "keyed", "id INT PRIMARY KEY", "SELECT g FROM generate_series(1, 1000) g")
    stub = partitions(channel)
    codec = decode_table(
        stub.Plan(pb.PlanRequest(table="keyed", partitions=1)).definitions[0].encode()
    ).key_codec
    keys = {n: codec.encode((n,)) for n in (100, 150, 170, 301)}
    plan = stub.Plan(pb.PlanRequest(table="keyed", low_key=keys[100], high_key=keys[301], partitions=2))
    assert [one.rows for one in plan.partitions] == [100, 101]
    assert [[n for (n,) in part] for part in rows_of(stub, plan)] == [[*range(100, 200)], [*range(200, 301)]]
    first, second = (one.ticket for one in plan.partitions)
    within = {"low_key": keys[150], "high_key": keys[170]}
    assert read(stub, first, **within).column("id").to_pylist() == [*range(150, 170)]
    assert read(stub, second, **within).num_rows == 0
    assert read(stub, first, high_key=keys[301]).num_rows == 100  # a reading does not leave its partition


def test_several_tables_are_held_at_one_moment(server, channel):
    table(
        server,
        "held_a",
        "id INT PRIMARY KEY, v TEXT, w INT",
        "SELECT g, 'v' || g, -g FROM generate_series(1, 5) g",
    )
    table(server, "held_b", "n INT", "SELECT 7")
    stub = partitions(channel)
    plan = stub.Plan(pb.PlanRequest(tables=["held_b", "held_a"]))
    with server.connect() as connection:
        connection.execute("UPDATE held_a SET w = 0")
        connection.execute("DELETE FROM held_b")
    assert [decode_table(one.encode()).name for one in plan.definitions] == ["held_b", "held_a"]
    of_b, of_a = (one.ticket for one in plan.partitions)
    assert read(stub, of_b).to_pylist() == [{"n": 7}]
    assert read(stub, of_a, columns=["w", "id"]).to_pylist() == [{"w": -g, "id": g} for g in range(1, 6)]
    found = refused(lambda: list(stub.Read(pb.ReadPartitionRequest(ticket=of_a, columns=["n"]))))
    assert found[:2] == (NOT_FOUND, "42703")
    stub.Release(pb.PlanId(id=plan.id))


def test_tables_without_rows_or_key_are_read_too(server, channel):
    table(server, "empty", "id INT PRIMARY KEY")
    table(server, "keyless", "n INT", "SELECT g FROM generate_series(1, 100) g")
    stub = partitions(channel)
    assert rows_of(stub, stub.Plan(pb.PlanRequest(table="empty", partitions=5))) == [[]]
    plan = stub.Plan(pb.PlanRequest(table="keyless", partitions=4))
    assert sorted(n for part in rows_of(stub, plan) for (n,) in part) == list(range(1, 101))
    found = refused(lambda: stub.Plan(pb.PlanRequest(table="keyless", low="1", partitions=1)))
    assert found[:2] == (grpc.StatusCode.FAILED_PRECONDITION, "55000")


def test_long_keys_are_read(server, channel):
    table(
        server,
        "long",
        "k TEXT PRIMARY KEY",
        "SELECT repeat('k', 600) || g FROM generate_series(1000, 1999) g",
    )
    stub = partitions(channel)
    plan = stub.Plan(pb.PlanRequest(table="long", partitions=6))
    assert [k for part in rows_of(stub, plan) for (k,) in part] == [
        "k" * 600 + str(g) for g in range(1000, 2000)
    ]


@pytest.mark.parametrize(
    ("request_", "code", "state"),
    [
        (pb.PlanRequest(table="no_such", partitions=1), NOT_FOUND, "42P01"),
        (pb.PlanRequest(table="wrong", columns=["no_such"], partitions=1), NOT_FOUND, "42703"),
        (pb.PlanRequest(tables=["wrong", "no_such"]), NOT_FOUND, "42P01"),
        (pb.PlanRequest(tables=["wrong"], columns=["id"]), INVALID, "22023"),
        (pb.PlanRequest(tables=["wrong"], low_key=b""), INVALID, "22023"),
        (pb.PlanRequest(table="wrong", columns=["id", "id"], partitions=1), INVALID, "42701"),
        (pb.PlanRequest(table="wrong", partitions=0), INVALID, "22023"),
        (pb.PlanRequest(table="wrong", partitions=1025), INVALID, "22023"),
        (pb.PlanRequest(table="wrong", partitions=1, low="x"), INVALID, "22P02"),
        (pb.PlanRequest(table="wrong", partitions=1, high="99999999999"), OUT_OF_RANGE, "22003"),
    ],
)
def test_what_cannot_be_planned_is_refused(server, channel, request_, code, state):
    with server.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS wrong (id INT PRIMARY KEY)")
    assert refused(lambda: partitions(channel).Plan(request_))[:2] == (code, state)


def test_tickets_and_plans_end(server, channel):
    table(server, "ending", "id INT PRIMARY KEY", "SELECT g FROM generate_series(1, 10) g")
    stub = partitions(channel)
    plan = stub.Plan(pb.PlanRequest(table="ending", partitions=2, lease_s=100))
    assert 90 < plan.lease.remaining_s <= 100
    assert stub.Renew(pb.RenewPlanRequest(id=plan.id, lease_s=10_000_000)).remaining_s <= 3600
    for ticket in ("", "x", plan.id, f"{plan.id}.2", f"{plan.id}.-1", f"{plan.id}.٣", f"{plan.id}.99999999"):
        found = refused(lambda ticket=ticket: list(stub.Read(pb.ReadPartitionRequest(ticket=ticket))))
        assert found[:2] == (NOT_FOUND, "42704")
    stub.Release(pb.PlanId(id=plan.id))
    stub.Release(pb.PlanId(id=plan.id))
    short = stub.Plan(pb.PlanRequest(table="ending", partitions=1, lease_s=0.1))
    with pytest.raises(grpc.RpcError) as caught:
        read_for_ever(stub, short.partitions[0].ticket)
    assert told(caught.value)[:2] == (NOT_FOUND, "42704")
    for one in (plan, short):
        assert refused(lambda one=one: stub.Renew(pb.RenewPlanRequest(id=one.id)))[1] == "42704"


def read_for_ever(stub, ticket: str) -> None:
    """Read a partition again and again."""
    while True:
        list(stub.Read(pb.ReadPartitionRequest(ticket=ticket)))


def test_a_reading_is_ended_when_its_plan_is_released(server, channel):
    table(
        server,
        "released",
        "id INT PRIMARY KEY, v TEXT",
        "SELECT g, repeat('v', 1000) FROM generate_series(1, 30000) g",
    )
    stub = partitions(channel)
    plan = stub.Plan(pb.PlanRequest(table="released", partitions=1))
    stream = stub.Read(pb.ReadPartitionRequest(ticket=plan.partitions[0].ticket))
    next(stream)
    stub.Release(pb.PlanId(id=plan.id))
    with pytest.raises(grpc.RpcError) as caught:
        for _message in stream:
            pass
    assert told(caught.value)[:2] == (NOT_FOUND, "42704")


def test_there_is_a_limit_to_plans(start, channels):
    server = start("--set", "grpc.max_plans=2").ready()
    table(server, "limited", "id INT PRIMARY KEY")
    stub = partitions(channels(server))
    first, _second = (stub.Plan(pb.PlanRequest(table="limited", partitions=1)) for _ in range(2))
    found = refused(lambda: stub.Plan(pb.PlanRequest(table="limited", partitions=1)))
    assert found[:2] == (grpc.StatusCode.RESOURCE_EXHAUSTED, "53400")
    stub.Release(pb.PlanId(id=first.id))
    assert stub.Plan(pb.PlanRequest(table="limited", partitions=1)).id


def test_a_table_that_is_dropped_or_changed_is_read_as_it_was(server, channel):
    table(server, "dropped", "id INT PRIMARY KEY, v TEXT", "SELECT g, 'v' FROM generate_series(1, 5000) g")
    stub = partitions(channel)
    plan = stub.Plan(pb.PlanRequest(table="dropped", partitions=3))
    with server.connect() as connection:
        connection.execute("TRUNCATE dropped")
        connection.execute("DROP TABLE dropped")
        connection.execute("CHECKPOINT")
        connection.execute("CHECKPOINT")
    assert [row for part in rows_of(stub, plan) for row in part] == [(g, "v") for g in range(1, 5001)]


def test_every_plan_under_writes_has_each_row_once_at_one_moment(start, channels):
    """Tokens move from key to key, each move one transaction: a state has every token exactly once."""
    server = start("--set", "storage.checkpoint_interval_s=0.05").ready()
    tokens = 4000
    table(
        server,
        "moving",
        "id INT PRIMARY KEY, token INT",
        f"SELECT g * 1000, g FROM generate_series(1, {tokens}) g",
    )
    over = threading.Event()
    moves = [0, 0]

    def move(mover: int) -> None:
        dice = random.Random(mover)
        connection = server.connect()
        while not over.is_set():
            token, target = dice.randrange(tokens) + 1, dice.randrange(tokens * 1000) + 1
            try:
                connection.execute("UPDATE moving SET id = %s WHERE token = %s", (target, token))
            except (psycopg.errors.UniqueViolation, psycopg.errors.SerializationFailure):
                continue  # there is one already, or the other mover was quicker
            moves[mover] += 1

    with server.connect() as connection:
        connection.execute("CREATE INDEX moving_token ON moving (token)")
    movers = [threading.Thread(target=move, args=(number,)) for number in range(2)]
    for mover in movers:
        mover.start()
    try:
        stub = partitions(channels(server))
        positions = []
        for _round in range(8):
            plan = stub.Plan(pb.PlanRequest(table="moving", partitions=5))
            before = list(moves)
            while any(now < then + 5 for now, then in zip(moves, before, strict=True)):
                assert all(mover.is_alive() for mover in movers)
                time.sleep(0.001)
            parts = rows_of(stub, plan)
            rows = [row for part in parts for row in part]
            assert sorted(token for _id, token in rows) == list(range(1, tokens + 1))
            assert rows == sorted(rows)
            positions.append(lsn(plan))
            stub.Release(pb.PlanId(id=plan.id))
        assert positions == sorted(set(positions))
    finally:
        over.set()
        for mover in movers:
            mover.join()


def test_a_slow_reader_of_a_partition_is_waited_for(server, channel):
    table(
        server,
        "patient",
        "id INT PRIMARY KEY, v TEXT",
        "SELECT g, repeat('v', 4000) FROM generate_series(1, 10000) g",
    )
    stub = partitions(channel)
    plan = stub.Plan(pb.PlanRequest(table="patient", partitions=1))
    ticket = plan.partitions[0].ticket
    streams = [stub.Read(pb.ReadPartitionRequest(ticket=ticket)) for _ in range(20)]
    for stream in streams:
        next(stream)
    peak = resident(server.pid)
    for _round in range(100):  # the server answers so often while it could have gone on
        stub.Renew(pb.RenewPlanRequest(id=plan.id))
    assert resident(server.pid) - peak < 200 << 20  # of 800 MB
    for stream in streams[1:]:
        stream.cancel()
    assert sum(message.rows for message in streams[0]) == 10000
    stub.Release(pb.PlanId(id=plan.id))


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096
