"""/metrics of a cluster's server says what it wrote to the log: entries, their sizes, how long they took."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from prometheus_client.parser import text_string_to_metric_families

from herdpy.dev import LocalCluster
from tests.replica.replicas import await_leader, connect, followers, run, server

CLIENTS, COMMITS = 8, 20
FAMILY = "herdpy_replica_log"


def log_metrics(cluster: LocalCluster, node: str) -> dict[str, float]:
    """The families of the default tablespace's log, with the histograms' counts and sums."""
    port = server(cluster, node).http_port
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith(FAMILY) and sample.labels["tablespace"] == "herdpy":
                bound = f" <= {sample.labels['le']}" if "le" in sample.labels else ""
                found[sample.name.removeprefix(f"{FAMILY}_") + bound] = sample.value
    return found


def commit_all(cluster: LocalCluster, node: str, table: str) -> None:
    """Several clients, each with transactions of two statements."""

    def client(number: int) -> None:
        with connect(cluster, node) as connection:
            for one in range(COMMITS):
                with connection.transaction():
                    connection.execute(f"INSERT INTO {table} VALUES (%s, 0)", (number * COMMITS + one,))
                    connection.execute(f"UPDATE {table} SET b = 1 WHERE a = %s", (number * COMMITS + one,))

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))


def growth(before: dict[str, float], after: dict[str, float]) -> Callable[[str], float]:
    return lambda name: after[name] - before[name]


def test_a_server_tells_what_it_wrote_to_the_log_in_all_its_terms(cluster: LocalCluster) -> None:
    first = await_leader(cluster)
    second = followers(cluster, first)[0]
    for table in ("paced", "again"):
        run(cluster, first, f"CREATE TABLE {table} (a INT PRIMARY KEY, b INT)")
    before = {node: log_metrics(cluster, node) for node in (first, second)}
    commit_all(cluster, first, "paced")
    after = {node: log_metrics(cluster, node) for node in (first, second)}
    grown = growth(before[first], after[first])
    commits = CLIENTS * COMMITS
    assert grown("commits_total") == grown("entry_transactions_sum") == commits
    entries = grown("entry_transactions_count")
    assert commits / CLIENTS <= entries  # each client has one commit under way
    assert grown("entry_transactions_bucket <= +Inf") == grown("entry_seconds_count") == entries
    assert 0 < grown("entry_transactions_bucket <= 8") <= entries
    assert grown("entry_seconds_sum") > 0
    assert grown("bytes_total") > commits * 20
    assert after[first]["ledgers"] >= 1
    assert growth(before[second], after[second])("entry_seconds_count") == 0

    run(cluster, first, f"ALTER TABLESPACE herdpy LEADER '{second}'")
    assert await_leader(cluster, other_than=first) == second
    commit_all(cluster, second, "again")
    assert growth(after[second], log_metrics(cluster, second))("commits_total") == commits
    assert log_metrics(cluster, first)["commits_total"] == after[first]["commits_total"]
