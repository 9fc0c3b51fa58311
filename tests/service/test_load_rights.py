"""What a role may do over gRPC is what it was granted, at every step; and the record tells of all of it."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest

from herdpy.rpc import admin_pb2, partitions_pb2
from herdpy.rpc import loads_pb2 as pb
from tests.service.calls import TIMEOUT_S, admin, basic, loads, partitions, refused
from tests.service.test_loads import batch, chunks
from tests.support.server_process import RunningServer

DENIED = (grpc.StatusCode.PERMISSION_DENIED, "42501")
CLASSES = '["login", "write", "read", "call"]'
GRANTS = {
    pb.LOAD_MODE_APPEND: ["INSERT"],
    pb.LOAD_MODE_OVERWRITE: ["INSERT", "TRUNCATE"],
    pb.LOAD_MODE_UPSERT: ["INSERT", "UPDATE"],
    pb.LOAD_MODE_IGNORE: ["INSERT", "SELECT"],
    pb.LOAD_MODE_DELETE: ["DELETE", "SELECT"],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with a record; lea may load into other tables than t, bob into none."""
    folder = tmp_path_factory.mktemp("rights")
    record = folder / "audit.jsonl"
    (folder / "server.toml").write_text(f'[audit]\nclasses = {CLASSES}\nfile = "{record}"\n')
    running = RunningServer(folder / "data", "--config", folder / "server.toml").ready()
    running.record = record
    connection = running.connect(dbname="data")
    for sql in (
        "CREATE ROLE lea LOGIN",
        "CREATE ROLE bob LOGIN",
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "INSERT INTO t VALUES (7, 'there')",
        "CREATE TABLE others (id int PRIMARY KEY, v text)",
        "GRANT INSERT ON others TO lea",
        "GRANT SELECT ON t TO bob",
    ):
        connection.execute(sql)
    yield running
    running.close()


def rows(server):
    return server.connect(dbname="data").execute("SELECT id, v FROM t ORDER BY id").fetchall()


def staged(server) -> list[Path]:
    return list((server.data / "loads").rglob("*.*"))


def begin(stub, load_id, mode, user):
    columns = ["id"] if mode == pb.LOAD_MODE_DELETE else ["id", "v"]
    request = pb.BeginLoadRequest(load_id=load_id, table="t", mode=mode, columns=columns)
    return stub.Begin(request, metadata=basic(user), timeout=TIMEOUT_S)


def publish(stub, load_id, mode, user, *parts):
    request = pb.PublishLoadRequest(load_id=load_id, table="t", mode=mode, parts=parts)
    return list(stub.Publish(request, metadata=basic(user), timeout=TIMEOUT_S))


def stage(stub, load_id, user, rows=(1,)):
    return stub.Stage(chunks(load_id, batch(list(rows))), metadata=basic(user), timeout=TIMEOUT_S)


@pytest.mark.parametrize("mode", GRANTS)
def test_each_privilege_of_a_mode_is_needed_and_nothing_is_written_without(server, channel, mode):
    stub, before = loads(channel), rows(server)
    load_id = f"mode {mode}"
    part = pb.LoadPart(file=stage(stub, load_id, "lea"))
    connection = server.connect(dbname="data")
    for missing in GRANTS[mode]:
        for one in GRANTS[mode]:
            connection.execute(f"{'REVOKE' if one == missing else 'GRANT'} {one} ON t "
                               f"{'FROM' if one == missing else 'TO'} lea")  # fmt: skip
        assert refused(lambda: begin(stub, load_id, mode, "lea"))[:2] == DENIED
        code, state, said = refused(lambda: publish(stub, load_id, mode, "lea", part))
        assert (code, state, said) == (*DENIED, "permission denied for table t")
        assert rows(server) == before
    connection.execute(f"GRANT {', '.join(GRANTS[mode])} ON t TO lea")
    assert begin(stub, load_id, mode, "lea").plan.table_id
    connection.execute("REVOKE ALL ON t FROM lea")  # between the beginning and the end
    assert refused(lambda: publish(stub, load_id, mode, "lea", part))[:2] == DENIED
    assert rows(server) == before
    stub.Abort(pb.AbortLoadRequest(load_id=load_id), metadata=basic("lea"))


def test_who_may_load_nothing_fills_no_disk_and_disturbs_nobody(server, channel):
    stub = loads(channel)
    part = stage(stub, "whose", "lea")
    kept = staged(server)
    assert refused(lambda: stage(stub, "mine", "bob"))[:2] == DENIED
    assert (
        refused(lambda: stub.Abort(pb.AbortLoadRequest(load_id="whose"), metadata=basic("bob")))[:2] == DENIED
    )
    asked = pb.DescribeLoadRequest(load_id="whose")
    assert refused(lambda: stub.Describe(asked, metadata=basic("bob")))[:2] == DENIED
    assert staged(server) == kept != []
    assert part.rows == 1
    stub.Abort(pb.AbortLoadRequest(load_id="whose"), metadata=basic("lea"))
    assert staged(server) == []


def test_who_may_not_connect_comes_in_by_no_door(server, channel):
    connection = server.connect(dbname="data")
    plan = partitions_pb2.PlanRequest(table="t", partitions=1)
    assert partitions(channel).Plan(plan, metadata=basic("bob")).id
    connection.execute("REVOKE CONNECT ON TABLESPACE data FROM PUBLIC")
    try:
        assert refused(lambda: partitions(channel).Plan(plan, metadata=basic("bob")))[:2] == DENIED
        code, state, said = refused(lambda: stage(loads(channel), "refused", "lea"))
        assert (code, state, said) == (*DENIED, "permission denied for database default")
    finally:
        connection.execute("GRANT CONNECT ON TABLESPACE data TO PUBLIC")


def test_the_record_tells_of_calls_of_what_they_read_and_write_and_of_refusals(server, channel):
    connection, stub = server.connect(dbname="data"), loads(channel)
    connection.execute("GRANT INSERT ON t TO lea")
    done = server.record.read_text().count("\n")
    part = pb.LoadPart(file=stage(stub, "told", "lea", [100]))
    publish(stub, "told", pb.LOAD_MODE_APPEND, "lea", part)
    partitions(channel).Plan(partitions_pb2.PlanRequest(table="t", partitions=1), metadata=basic("bob"))
    assert refused(lambda: publish(stub, "more", pb.LOAD_MODE_APPEND, "bob", part))[:2] == DENIED
    assert (
        refused(lambda: admin(channel).GetNode(admin_pb2.GetNodeRequest(), metadata=basic("bob")))[:2]
        == DENIED
    )
    lines = [json.loads(line) for line in server.record.read_text().splitlines()[done:]]
    told = [(one["class"], one["event"], one["user"], one.get("table"), one.get("mode")) for one in lines]
    assert told == [
        ("call", "call", "lea", None, None),
        ("call", "call", "lea", None, None),
        ("write", "load", "lea", "t", "append"),
        ("call", "call", "bob", None, None),
        ("read", "partitions", "bob", "public.t", None),
        ("call", "call", "bob", None, None),
        ("call", "refused", "bob", None, None),
        ("call", "refused", "bob", None, None),
    ]
    assert lines[-1]["service"] == "herdpy.v1.Admin"
    assert lines[-2]["reason"] == "permission denied for table t"
    assert all(one["address"].startswith("ipv4:127.0.0.1:") for one in lines if one["class"] == "call")
