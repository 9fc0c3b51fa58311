"""A real cluster: one trace from the driver to each bookie, and what its followers say of the same entry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from herdpy.dev import LocalCluster
from herdpy.log import LSN
from herdpy_server.tracing.entries import is_recorded, trace_of_entry
from tests.replica.replicas import await_leader, connect, followers
from tests.support.collector import Collector
from tests.tracing.conftest import Context


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[LocalCluster]:
    settings = {"tracing.endpoint": collector.endpoint, "tracing.sample_ratio": 1.0}
    directory = tmp_path_factory.mktemp("traced") / "c"
    with LocalCluster(directory, servers=2, bookies=2, server_settings=settings) as running:
        yield running


def test_a_commit_is_followed_to_its_bookies_and_its_followers(
    cluster: LocalCluster, collector: Collector, context: Context
) -> None:
    leader = await_leader(cluster)
    (follower,) = followers(cluster, leader)
    with connect(cluster, leader) as connection:
        connection.execute("CREATE TABLE followed (a INT PRIMARY KEY)")
        connection.execute(context.on("INSERT INTO followed VALUES (1)"))

    def is_there(name: str, node: str, key: str) -> bool:
        return any(
            one.name == name and one.resource["service.instance.id"] == node
            for one in collector.spans
            if one.trace_id == key
        )

    tree = collector.wait_for_names(context.trace_id, "INSERT", "log append", "bookie add")
    collector.wait_for(
        lambda spans: sum(one.name == "bookie add" and one.trace_id == context.trace_id for one in spans) == 2
    )
    tree.spans = [one for one in collector.spans if one.trace_id == context.trace_id]
    append = tree.one("log append")
    way = ["INSERT herdpy", "durability wait", "log append"]
    adds = tree.all("bookie add")
    assert {one.attributes["herdpy.bookie"] for one in adds} == {
        member.bookie_id for member in cluster.status().bookies
    }
    for one in [*adds, *tree.all("apply")]:
        assert tree.path(one) == [*way, one.name]
        assert one.began_ns >= append.began_ns
    root = tree.one("INSERT herdpy")
    assert root.parent_id == context.span_id
    assert root.resource["service.instance.id"] == leader
    # The entry's own trace: the leader's link to the commit, and the follower's work.
    (entry_link,) = append.links
    own = entry_link[0]
    collector.wait_for(lambda _spans: is_there("apply", follower, own) and is_there("log entry", leader, own))
    entry = [one for one in collector.spans if one.trace_id == own]
    wait = tree.one("durability wait")
    (marked,) = [one for one in entry if one.name == "log entry"]
    assert marked.links == [(context.trace_id, wait.span_id)]
    position = {name: append.attributes[name] for name in ("herdpy.ledger_id", "herdpy.entry_id")}
    for one in entry:
        assert {name: one.attributes[name] for name in position} == position


def test_replicas_record_the_same_entries() -> None:
    kept = [is_recorded(trace_of_entry("log", LSN(7, entry)), 0.25) for entry in range(4000)]
    assert 800 < sum(kept) < 1200
    assert not any(is_recorded(trace_of_entry("log", LSN(7, entry)), 0.0) for entry in range(100))
    assert all(is_recorded(trace_of_entry("log", LSN(7, entry)), 1.0) for entry in range(100))
    assert trace_of_entry("a", LSN(1, 2)) != trace_of_entry("b", LSN(1, 2)) != trace_of_entry("b", LSN(12, 2))
