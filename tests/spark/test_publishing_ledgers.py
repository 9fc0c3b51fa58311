"""Loads that stand in ledgers, on a real cluster: what each mode does, alike on every replica, once."""

from __future__ import annotations

import itertools
import random
import threading

import grpc
import pyarrow as pa
import pytest

from herdpy.rpc import loads_pb2 as pb
from tests.spark.loads_client import Loader, counts, publish_by_whoever_leads, schema_of
from tests.spark.staged import staged_ledgers

TABLES = {
    "plain": "id bigint primary key, name text, n numeric(9,2)",
    "indexed": "id bigint primary key, name text, n numeric(9,2)",
    "full": "id bigint primary key, name text, n numeric(9,2)",
}
_IDS = itertools.count(1)


@pytest.fixture
def loader(cluster):
    with Loader(cluster, cluster.await_leader()) as found:
        yield found


@pytest.fixture
def load_id():
    return f"published-{next(_IDS)}"


def rows(schema, ids, tag):
    """A batch of these keys; the names say which row of the load it was."""
    columns = {
        "id": pa.array(ids, pa.int64()),
        "name": pa.array([f"{tag}-{at}" for at in range(len(ids))]),
        "n": pa.array([None if one % 7 == 0 else one for one in ids], pa.decimal128(9, 2)),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def apply(model, mode, ids, tag):
    """What the load does, by a dict; the counts."""
    if mode == "overwrite":
        model.clear()
    done = [0, 0, 0, 0]
    for at, key in enumerate(ids):
        there = key in model
        if mode == "delete":
            model.pop(key, None)
            done[2 if there else 3] += 1
        elif mode == "ignore" and there:
            done[3] += 1
        else:
            model[key] = f"{tag}-{at}"
            done[1 if there else 0] += 1
    return tuple(done)


def same_everywhere(sql):
    checked = sql("CHECK TABLESPACE herdpy")
    assert checked
    assert all(row[4] for row in checked), checked


@pytest.mark.parametrize("kind", TABLES)
def test_every_mode_does_the_same_on_every_replica(kind, sql, loader, new_name):
    dice = random.Random(kind)
    table = new_name(kind)
    sql(f"CREATE TABLE {table} ({TABLES[kind]})")
    if kind == "indexed":
        sql(f"CREATE UNIQUE INDEX ON {table} (name, id)")
        sql(f"CREATE INDEX ON {table} (n)")
    if kind == "full":
        sql(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
    model = {}
    modes = ["append", "upsert", "ignore", "delete", "upsert", "ignore", "overwrite", "upsert", "delete"]
    for number, mode in enumerate(modes):
        load, tag = f"{table}-{number}", f"{mode}{number}"
        if mode in ("append", "overwrite"):
            ids = dice.sample(range(1500), 700)
        else:
            ids = [dice.randrange(1500) for _ in range(500)]  # some of them twice
        plan = loader.begin(load, table, mode, ["id", "name", "n"]).plan
        schema = schema_of(plan)
        whole = rows(schema, ids, tag)
        parts = [[whole.slice(0, 100), whole.slice(100, 150)], [whole.slice(250)]]
        outcome = loader.publish(load, table, mode, loader.stage(load, plan, parts), plan.table_id)
        assert counts(outcome) == apply(model, mode, ids, tag)
        assert dict(sql(f"SELECT id, name FROM {table}")) == model
        sql(f"UPDATE {table} SET name = name WHERE id = {ids[0]}")  # others write, too
    same_everywhere(sql)


def test_rows_without_a_key_get_keys_that_nobody_else_has(sql, loader, new_name, load_id):
    table = new_name("keyless")
    sql(f"CREATE TABLE {table} (v bigint)")
    sql(f"INSERT INTO {table} VALUES (-1)")
    plan = loader.begin(load_id, table, "append", ["v"]).plan
    batch = pa.RecordBatch.from_arrays([pa.array(range(1000), pa.int64())], schema=schema_of(plan))
    loader.publish(load_id, table, "append", loader.stage(load_id, plan, [[batch], [batch]]))
    sql(f"INSERT INTO {table} VALUES (-2)")
    assert sql(f"SELECT count(*), sum(v), min(v) FROM {table}") == [(2002, 2 * sum(range(1000)) - 3, -2)]
    same_everywhere(sql)


def test_a_follower_names_who_leads(cluster, sql, new_name, load_id):
    table = new_name()
    sql(f"CREATE TABLE {table} (id bigint primary key, name text, n numeric(9,2))")
    leader = cluster.await_leader()
    servers = cluster.status().servers
    (door,) = [f"127.0.0.1:{one.grpc_port}" for one in servers if one.id == leader]
    follower = next(one.id for one in servers if one.id != leader)
    with Loader(cluster, follower) as loader:
        requests = [
            lambda: loader.begin(load_id, table, "append", ["id", "name", "n"]),
            lambda: loader.publish(load_id, table, "append", []),
            lambda: loader.stub.Abort(pb.AbortLoadRequest(load_id=load_id)),
            lambda: loader.stub.Describe(pb.DescribeLoadRequest(load_id=load_id)),
            lambda: loader.stub.Stage(iter([pb.StageChunk(load_id=load_id)])),
        ]
        for request in requests:
            with pytest.raises(grpc.RpcError) as refused:
                request()
            told = dict(refused.value.trailing_metadata())
            assert (refused.value.code(), told["sqlstate"]) == (grpc.StatusCode.FAILED_PRECONDITION, "25006")
            assert told["leader-grpc"] == door


def test_parts_that_are_not_what_was_staged_are_refused(cluster, sql, loader, new_name, load_id):
    table = new_name()
    sql(f"CREATE TABLE {table} (id bigint primary key, name text, n numeric(9,2))")
    plan = loader.begin(load_id, table, "append", ["id", "name", "n"]).plan
    batch = rows(schema_of(plan), range(5000), "x")
    (part,) = loader.stage(load_id, plan, [[batch]])
    (others,) = loader.stage("another load", plan, [[batch]])

    def changed(**values):
        wrong = pb.LoadPart()
        wrong.CopyFrom(part)
        for name, value in values.items():
            setattr(wrong.ledger, name, value)
        return wrong

    cases = [
        ([changed(crc32c=1)], "XX001"),
        ([changed(last_entry_id=0)], "XX001"),
        ([changed(rows=4999)], "22023"),
        ([changed(ledger_id=1 << 40)], "58P01"),
        ([part, part], "22023"),
        ([others], "22023"),
        ([part, pb.LoadPart(file=pb.StagedFile(id="ab"))], "22023"),
    ]
    for parts, state in cases:
        with pytest.raises(grpc.RpcError) as refused:
            loader.publish(load_id, table, "append", parts)
        assert dict(refused.value.trailing_metadata())["sqlstate"] == state, refused.value.details()
    assert sql(f"SELECT count(*) FROM {table}") == [(0,)]
    assert not loader.stub.Describe(pb.DescribeLoadRequest(load_id=load_id)).HasField("done")

    loader.stub.Abort(pb.AbortLoadRequest(load_id=load_id, parts=[part, others]))
    assert staged_ledgers(cluster.bookkeeper_uri, load_id) == []
    assert staged_ledgers(cluster.bookkeeper_uri, "another load") == [others.ledger.ledger_id]
    with pytest.raises(grpc.RpcError) as refused:
        loader.publish(load_id, table, "append", [part])
    assert dict(refused.value.trailing_metadata())["sqlstate"] == "58P01"


def test_a_published_load_cannot_be_given_up(cluster, sql, loader, new_name, load_id):
    table = new_name()
    sql(f"CREATE TABLE {table} (id bigint primary key, name text, n numeric(9,2))")
    plan = loader.begin(load_id, table, "append", ["id", "name", "n"]).plan
    parts = loader.stage(load_id, plan, [[rows(schema_of(plan), range(10), "x")]])
    outcome = loader.publish(load_id, table, "append", parts)
    assert loader.begin(load_id, table, "append", ["id", "name", "n"]).done == outcome
    assert loader.stub.Abort(pb.AbortLoadRequest(load_id=load_id, parts=parts)).done == outcome
    assert loader.stub.Describe(pb.DescribeLoadRequest(load_id=load_id)).done == outcome
    assert staged_ledgers(cluster.bookkeeper_uri, load_id) == [parts[0].ledger.ledger_id]


@pytest.mark.soak
def test_a_leader_killed_while_it_publishes(cluster, sql, new_name, load_id):
    """Whether it was done before the crash, or is by the repetition: it is done once."""
    table = new_name()
    sql(f"CREATE TABLE {table} (id bigint primary key, name text, n numeric(9,2))")
    first = cluster.await_leader()
    with Loader(cluster, first) as loader:
        plan = loader.begin(load_id, table, "append", ["id", "name", "n"]).plan
        whole = rows(schema_of(plan), range(60_000), "x")
        parts = loader.stage(load_id, plan, [[whole.slice(at, 20_000)] for at in (0, 20_000, 40_000)])
        told = threading.Event()
        answers = []

        def publish():
            try:
                for message in loader.stub.Publish(
                    pb.PublishLoadRequest(load_id=load_id, table=table, mode=pb.LOAD_MODE_APPEND, parts=parts)
                ):
                    answers.append(message)
                    told.set()
            except grpc.RpcError as error:
                answers.append(error)
            told.set()

        publishing = threading.Thread(target=publish)
        publishing.start()
        told.wait(0.5)
        cluster.kill(first)
        publishing.join()
    load = (load_id, table, "append", parts)
    outcome = publish_by_whoever_leads(cluster, *load)
    assert counts(outcome) == (60_000, 0, 0, 0)
    assert publish_by_whoever_leads(cluster, *load) == outcome
    done = [one.outcome for one in answers if isinstance(one, pb.PublishProgress) and one.HasField("outcome")]
    assert done in ([], [outcome])
    assert sql(f"SELECT count(*), sum(id) FROM {table}") == [(60_000, sum(range(60_000)))]
    cluster.start(first)
    same_everywhere(sql)
