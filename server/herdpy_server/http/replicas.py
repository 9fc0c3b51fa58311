"""Metrics of a node's replicas, each labelled with the name of its tablespace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from herdpy_server.http.families import Family

if TYPE_CHECKING:
    from herdpy_server.replica.open_replica import OpenReplica
    from herdpy_server.replica.replica import Replica
    from herdpy_server.serving.tablespaces import Standing
    from herdpy_server.store.limits import Limit

_ROLES = (
    "leader",
    "follower",
    "opening",
    "seeding",
    "taking over",
    "handing over",
    "quarantined",
    "ahead of the log",
)
_LABELS = ["tablespace"]


def replica_families(replicas: Sequence[Replica]) -> Iterator[Family]:
    """Every family, with the values of this moment."""
    told = [replica.served.standing() for replica in replicas]
    role = GaugeMetricFamily(
        "herdpy_replica_role", "1 for the role that the replica has.", labels=[*_LABELS, "role"]
    )
    for one in told:
        for name in _ROLES:
            role.add_metric([one.name, name], one.role == name)
    yield role
    for name, text, value in _GAUGES:
        family = GaugeMetricFamily(name, text, labels=_LABELS)
        for one in told:
            family.add_metric([one.name], value(one))
        yield family
    for name, text, value in _COUNTERS:
        counter = CounterMetricFamily(name, text, labels=_LABELS)
        for one in told:
            counter.add_metric([one.name], value(one))
        yield counter
    for name, text, read in _OF_BODIES:
        family = GaugeMetricFamily(name, text, labels=_LABELS)
        for replica in replicas:
            if replica.opened is not None:
                family.add_metric([replica.info.name], read(replica.opened))
        yield family


def limit_families(told: Sequence[tuple[str, Sequence[Limit]]]) -> Iterator[Family]:
    """What stores may use up, by the names of their tablespaces."""
    labels = [*_LABELS, "limit"]
    used = GaugeMetricFamily("herdpy_limit_used", "How much is used of what is limited.", labels=labels)
    most = GaugeMetricFamily("herdpy_limit_most", "How much of it there may be.", labels=labels)
    for name, limits in told:
        for one in limits:
            used.add_metric([name, one.name], one.used)
            most.add_metric([name, one.name], one.most)
    yield used
    yield most


_GAUGES: Sequence[tuple[str, str, Callable[[Standing], float]]] = (
    (
        "herdpy_replica_applied_ledger",
        "The ledger of the newest entry that is applied.",
        lambda one: one.applied.ledger_id,
    ),
    (
        "herdpy_replica_applied_entry",
        "The newest entry of that ledger that is applied.",
        lambda one: one.applied.entry_id,
    ),
    (
        "herdpy_replica_lag_entries",
        "Entries of the log that are known to be confirmed and are not applied.",
        lambda one: one.lag_entries,
    ),
    ("herdpy_replica_epoch", "The newest term that this node has led; 0: none.", lambda one: one.epoch),
    (
        "herdpy_replica_unfit",
        "1 while the replica should not lead: it cannot reach the log, or its disk has no room.",
        lambda one: one.unfit is not None,
    ),
    (
        "herdpy_replica_bookies_missing",
        "How many bookies fewer than it should have a ledger that this node writes to.",
        lambda one: one.bookies_missing,
    ),
    (
        "herdpy_replica_ledger_list_share",
        "How full the list of ledgers is that this node writes; 1 is what ZooKeeper takes.",
        lambda one: one.list_share,
    ),
    (
        "herdpy_replica_clients_without_leader",
        "How many clients that reach this node have said that they do not reach the one that leads.",
        lambda one: one.clients_without_leader,
    ),
    (
        "herdpy_replica_seeding_received_bytes",
        "What has arrived of the snapshot that the replica is made of; 0: it is not being seeded.",
        lambda one: 0 if one.seeding is None else one.seeding.received_bytes,
    ),
    (
        "herdpy_replica_seeding_total_bytes",
        "The size of that snapshot.",
        lambda one: 0 if one.seeding is None else one.seeding.total_bytes,
    ),
    (
        "herdpy_replica_commits_pending",
        "Transactions that have their place in the log and are not durable yet.",
        lambda one: one.pending,
    ),
)

_COUNTERS: Sequence[tuple[str, str, Callable[[Standing], float]]] = (
    ("herdpy_replica_takeovers", "How often the replica came to lead.", lambda one: one.takeovers),
    (
        "herdpy_replica_seedings",
        "How often the replica got another one's state in the place of its own.",
        lambda one: one.seedings,
    ),
)

_OF_BODIES: Sequence[tuple[str, str, Callable[[OpenReplica], float]]] = (
    (
        "herdpy_replica_memtable_bytes",
        "Changes in memory that a checkpoint has to write.",
        lambda opened: opened.store.memtable_bytes,
    ),
    (
        "herdpy_replica_checkpoint_lag_seconds",
        "How long ago the store had all that was applied.",
        lambda opened: time.monotonic() - opened.checkpointer.caught_up_at,
    ),
    (
        "herdpy_replica_lock_waiters",
        "Transactions that wait for a lock.",
        lambda opened: opened.tablespace.locks.waiting,
    ),
)
