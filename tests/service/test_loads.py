"""The service Loads on a server alone: parts staged on its disk, published once, or nothing."""

from __future__ import annotations

import threading

import grpc
import pyarrow as pa
import pytest
from google_crc32c import value as crc32c

from herdpy.rpc import loads_pb2 as pb
from tests.service.calls import TIMEOUT_S, loads, refused

SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.string())])
INVALID, NOT_FOUND = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND


def batch(ids, v="x"):
    return pa.RecordBatch.from_arrays([pa.array(ids, pa.int32()), pa.array([v] * len(ids))], schema=SCHEMA)


def chunks(load_id, *batches, crc=None, size=1000):
    """A part as it is sent."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        for one in batches:
            writer.write_batch(one)
    data = sink.getvalue().to_pybytes()
    yield pb.StageChunk(load_id=load_id)
    for at in range(0, len(data), size):
        yield pb.StageChunk(data=data[at : at + size])
    end = pb.StageEnd(crc32c=crc32c(data) if crc is None else crc, rows=sum(one.num_rows for one in batches))
    yield pb.StageChunk(end=end)


def stage(stub, load_id, *batches):
    return pb.LoadPart(file=stub.Stage(chunks(load_id, *batches), timeout=TIMEOUT_S))


def publish(stub, load_id, table, *parts, mode=pb.LOAD_MODE_APPEND):
    request = pb.PublishLoadRequest(load_id=load_id, table=table, mode=mode, parts=parts)
    *_told, last = stub.Publish(request, timeout=TIMEOUT_S)
    return last.outcome


def table(server, name):
    with server.connect() as connection:
        connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v text NOT NULL)")
    return name


def ids(server, name):
    with server.connect() as connection:
        return [one for (one,) in connection.execute(f"SELECT id FROM {name} ORDER BY id").fetchall()]


def test_a_load_from_its_beginning_to_its_end(server, channel):
    name, stub = table(server, "whole"), loads(channel)
    begin = pb.BeginLoadRequest(load_id="whole", table=name, mode=pb.LOAD_MODE_APPEND, columns=["id", "v"])
    plan = stub.Begin(begin).plan
    assert not plan.HasField("ledgers")
    assert pa.ipc.read_schema(pa.py_buffer(plan.arrow_schema)).names == SCHEMA.names
    assert plan.max_chunk_bytes == 1 << 20
    parts = [
        stage(stub, "whole", batch(range(100)), batch(range(100, 150))),
        stage(stub, "whole", batch([200])),
    ]
    assert ids(server, name) == []
    messages = list(stub.Publish(pb.PublishLoadRequest(load_id="whole", table=name, mode=1, parts=parts)))
    outcome = messages[-1].outcome
    assert (messages[-1].rows, messages[-1].total_rows) == (151, 151)
    assert (outcome.inserted, outcome.table_id) == (151, plan.table_id)
    assert ids(server, name) == [*range(150), 200]
    assert not list((server.data / "loads").rglob("*.arrow"))

    assert publish(stub, "whole", name, *parts) == outcome
    assert stub.Begin(begin).done == outcome
    assert stub.Describe(pb.DescribeLoadRequest(load_id="whole")).done == outcome
    assert stub.Abort(pb.AbortLoadRequest(load_id="whole", parts=parts)).done == outcome
    assert ids(server, name) == [*range(150), 200]


def test_an_error_names_part_and_row(server, channel):
    name, stub = table(server, "wrong"), loads(channel)
    good, bad = stage(stub, "wrong", batch(range(10))), stage(stub, "wrong", batch([20, 21]), batch([22, 5]))
    with pytest.raises(grpc.RpcError) as caught:
        publish(stub, "wrong", name, good, bad)
    told = dict(caught.value.trailing_metadata())
    assert (caught.value.code(), told["sqlstate"]) == (INVALID, "23505")
    assert told["where-bin"] == b"row 14 of the load: row 4 of part 2"
    assert told["detail-bin"] == b"Key (id)=(5) already exists."
    assert ids(server, name) == []
    assert publish(stub, "wrong", name, good).inserted == 10  # what was staged is still there


def test_a_load_that_is_given_up_is_gone(server, channel):
    name, stub = table(server, "given_up"), loads(channel)
    part = stage(stub, "given up", batch([1]))
    assert not stub.Abort(pb.AbortLoadRequest(load_id="given up")).HasField("done")
    assert not stub.Abort(pb.AbortLoadRequest(load_id="given up")).HasField("done")
    assert refused(lambda: publish(stub, "given up", name, part))[:2] == (NOT_FOUND, "58P01")
    assert not stub.Describe(pb.DescribeLoadRequest(load_id="given up")).HasField("done")


def test_what_is_no_part(server, channel):
    stub = loads(channel)
    assert refused(lambda: stub.Stage(iter([])))[1] == "08P01"
    assert refused(lambda: stub.Stage(iter([pb.StageChunk(load_id="x", data=b"a")])))[1] == "08P01"
    assert refused(lambda: stub.Stage(iter([pb.StageChunk(data=b"a")])))[1] == "22023"
    code, state, _ = refused(lambda: stub.Stage(chunks("x", batch([1]), crc=7)))
    assert (code, state) == (grpc.StatusCode.DATA_LOSS, "XX001")
    assert not list((server.data / "loads").rglob("*.*"))


def test_requests_that_make_no_sense(server, channel):
    name, stub = table(server, "senseless"), loads(channel)
    part = stage(stub, "x", batch([1]))
    ledger = pb.LoadPart(ledger=pb.StagedLedger(ledger_id=1, rows=1))
    assert refused(lambda: publish(stub, "x", name, part, mode=0))[:2] == (INVALID, "22023")
    assert refused(lambda: publish(stub, "x", name, ledger))[:2] == (INVALID, "22023")
    assert refused(lambda: publish(stub, "x", name, part, ledger))[:2] == (INVALID, "22023")
    assert refused(lambda: publish(stub, "x", name, pb.LoadPart()))[:2] == (INVALID, "22023")
    assert refused(lambda: publish(stub, "", name, part))[:2] == (INVALID, "22023")
    assert refused(lambda: publish(stub, "x", "nowhere", part))[:2] == (NOT_FOUND, "42P01")
    request = pb.PublishLoadRequest(load_id="x", table=name, mode=1, parts=[part], table_id=9999)
    assert refused(lambda: list(stub.Publish(request)))[1] == "55000"
    assert ids(server, name) == []
    stub.Abort(pb.AbortLoadRequest(load_id="x"))


def test_the_same_load_published_twice_at_once(server, channel):
    name, stub = table(server, "twice"), loads(channel)
    parts = [stage(stub, "twice", batch(range(at, at + 5000))) for at in range(0, 20_000, 5000)]
    outcomes = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(publish(stub, "twice", name, *parts)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 3
    assert all(one == outcomes[0] for one in outcomes)
    assert ids(server, name) == list(range(20_000))


def test_a_call_that_is_given_up_leaves_nothing(server, channel):
    """It waits for a lock when its caller goes; then its own locks are free, and it can be made again."""
    name, stub = table(server, "left"), loads(channel)
    part = stage(stub, "left", batch([1, 2, 3]))
    with server.connect() as other:
        other.autocommit = False
        other.execute(f"INSERT INTO {name} VALUES (2, 'theirs')")
        call = stub.Publish(pb.PublishLoadRequest(load_id="left", table=name, mode=1, parts=[part]))
        next(iter(call))  # after a while no progress is reported
        call.cancel()
        with server.connect() as third:
            third.execute("SET lock_timeout = '60s'")
            third.execute(f"INSERT INTO {name} VALUES (1, 'free')")
        other.rollback()
    with server.connect() as connection:
        connection.execute(f"DELETE FROM {name}")
    assert publish(stub, "left", name, part).inserted == 3


def test_parts_outlive_the_server(start, channels):
    first = start().ready()
    name = table(first, "kept")
    part = stage(loads(channels(first)), "kept", batch([1, 2]))
    first.process.kill()
    first.process.wait()
    second = start(data=first.data).ready()
    stub = loads(channels(second))
    assert publish(stub, "kept", name, part).inserted == 2
    assert ids(second, name) == [1, 2]
