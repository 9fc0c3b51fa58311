"""What tests of replicas share: a node's own word on where it stands, connections to one node, equality."""

from __future__ import annotations

import itertools
import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import psycopg

from herdpy.dev import LocalCluster
from herdpy.rpc import admin_pb2
from herdpy.rpc.admin_pb2_grpc import AdminStub
from herdpy.testing.process import await_until

PATIENCE_S = 60.0
_OWN_ENGINE = "SET herdpy.engine = 'own'"  # no worker has to be started for it
_NUMBERS = itertools.count(1_000_000)


def server(cluster: LocalCluster, node: str) -> Any:
    """The status of one server."""
    return next(one for one in cluster.status().servers if one.id == node)


def replica_status(cluster: LocalCluster, node: str, tablespace: str = "herdpy") -> dict[str, Any]:
    """What the node's /status says of its replica; {} when it says nothing."""
    port = server(cluster, node).http_port
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=5) as answer:
            told = json.load(answer)
    except OSError:
        return {}
    return next((one for one in told["tablespaces"] if one["name"] == tablespace), {})


def await_status(
    cluster: LocalCluster, node: str, condition: Callable[[dict[str, Any]], bool], what: str
) -> dict[str, Any]:
    """Wait until the node says something that fits; what it says then."""
    found: dict[str, Any] = {}

    def fits() -> bool:
        found.clear()
        found.update(replica_status(cluster, node))
        return bool(found) and condition(found)

    assert await_until(fits, PATIENCE_S), f"{node} {what}: {found}\n{cluster.log_tail(node)}"
    return found


def await_leader(cluster: LocalCluster, *, other_than: str | None = None) -> str:
    """The node that leads, once it answers."""
    leader = cluster.await_leader(timeout_s=PATIENCE_S, other_than=other_than)
    await_status(cluster, leader, lambda one: one["role"] == "leader", "did not come to lead")
    return leader


def await_follower(cluster: LocalCluster, node: str, seedings: int = 0) -> dict[str, Any]:
    """Wait until the node follows, and was seeded so often."""
    return await_status(
        cluster,
        node,
        lambda one: one["role"] == "follower" and one["seedings"] >= seedings,
        f"did not come to follow, seeded {seedings} times",
    )


def connect(cluster: LocalCluster, node: str) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection to one node."""
    port = server(cluster, node).sql_port
    return psycopg.connect(f"host=127.0.0.1 port={port} dbname=herdpy user=herdpy", autocommit=True)


def run(cluster: LocalCluster, node: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements on one node; the rows of the last."""
    with connect(cluster, node) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def channel(cluster: LocalCluster, node: str) -> grpc.Channel:
    """A channel to one node's gRPC services; to be closed."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    return grpc.insecure_channel(f"127.0.0.1:{server(cluster, node).grpc_port}", options)


def first_ledger(cluster: LocalCluster, leader: str) -> int:
    """The oldest ledger that the leader's log still has."""
    with channel(cluster, leader) as opened:
        ledgers: Any = AdminStub(opened).ListLedgers(admin_pb2.ListLedgersRequest()).ledgers
    return int(ledgers[0].ledger_id)


def followers(cluster: LocalCluster, leader: str) -> list[str]:
    """The servers that do not lead."""
    return [one.id for one in cluster.status().servers if one.id != leader]


def assert_equal(cluster: LocalCluster, table: str, nodes: list[str]) -> int:
    """All nodes have the same rows as the leader has now; how many those are."""
    leader = await_leader(cluster)
    query = f"SELECT * FROM {table} ORDER BY 1"
    rows = run(cluster, leader, _OWN_ENGINE, query)
    position = replica_status(cluster, leader)["applied"]
    for node in nodes:
        found = run(
            cluster,
            node,
            "SET herdpy.read_level = 'at_lsn'",
            f"SET herdpy.min_lsn = '{position}'",
            _OWN_ENGINE,
            query,
        )
        assert found == rows, f"{node} has {len(found)} rows, {leader} {len(rows)}"
    return len(rows)


class Load:
    """Rows that are inserted one after the other, by a thread; `acknowledged`: those that were answered."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []
        self.errors: list[BaseException] = []
        self.going = threading.Event()


@contextmanager
def load(cluster: LocalCluster, table: str, size: int = 200) -> Iterator[Load]:
    """Insert rows into `table` through the leader while the block runs."""
    made = Load()
    stop = threading.Event()

    def insert() -> None:
        try:
            with connect(cluster, await_leader(cluster)) as connection:
                while not stop.is_set():
                    number = next(_NUMBERS)
                    connection.execute(
                        f"INSERT INTO {table} VALUES (%s, %s)".encode(), (number, str(number) * (size // 7))
                    )
                    made.acknowledged.append(number)
                    if len(made.acknowledged) > 50:
                        made.going.set()
        except BaseException as error:  # noqa: BLE001 - reported by the test
            made.errors.append(error)
            made.going.set()

    thread = threading.Thread(target=insert, name="load")
    thread.start()
    try:
        assert made.going.wait(PATIENCE_S)
        yield made
    finally:
        stop.set()
        thread.join()
    assert not made.errors, made.errors
