"""Every metric of a server, as families of Prometheus's client; ``status`` says of what.

What is not there yet (the database while it recovers) has no metrics yet. Metrics of a node's replicas are
labelled with the name of their tablespace.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar as PrometheusExemplar

from herdpy.log.log_counts import GROUP_SIZES, SYNC_S
from herdpy_server.http.status import Phase
from herdpy_server.process.statements import BUCKETS_S
from herdpy_server.workers.scheduler import WAIT_S
from herdpy_sql.system.state import DATABASE

if TYPE_CHECKING:
    from herdpy_server.backup.archiver import ArchiveStatus
    from herdpy_server.http.status import ServerMetrics
    from herdpy_server.process.tracing import Exemplar, ServerTracing
    from herdpy_server.replica.open_replica import OpenReplica
    from herdpy_server.replica.replica import Replica
    from herdpy_server.serving import ServedDatabase
    from herdpy_server.serving.backup_schedule import BackupsStatus
    from herdpy_server.serving.node import TablespaceStatus
    from herdpy_server.sessions.registry import SessionRegistry
    from herdpy_server.store.limits import Limit
    from herdpy_server.tablespace.notifications import Notifications
    from herdpy_server.tracing import SpanQueue
    from herdpy_server.workers.pool import WorkerPool


_NO_TRACES: Mapping[int, Exemplar] = {}
Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
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
_GAUGES: Sequence[tuple[str, str, Callable[[TablespaceStatus], float]]] = (
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
        "1 while the replica should not lead: no way to the log, no room on its disk, or its server ends.",
        lambda one: one.unfit is not None,
    ),
    (
        "herdpy_replica_bookies_missing",
        "Bookies that the open ledger of this node lacks.",
        lambda one: one.bookies_missing,
    ),
    (
        "herdpy_replica_ledger_list_share",
        "How full the ledger list of this node is; at 1 ZooKeeper takes no more.",
        lambda one: one.list_share,
    ),
    (
        "herdpy_replica_clients_without_leader",
        "How many clients that reach this node have reported that they do not reach the leader.",
        lambda one: one.clients_without_leader,
    ),
    (
        "herdpy_replica_seeding_received_bytes",
        "Bytes of the snapshot that the replica has received; 0: it is not being seeded.",
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
_COUNTERS: Sequence[tuple[str, str, Callable[[TablespaceStatus], float]]] = (
    ("herdpy_replica_takeovers", "How often the replica became leader.", lambda one: one.takeovers),
    (
        "herdpy_replica_read_index_questions",
        "Questions of the replica, as a follower, to the leader: how far the log is.",
        lambda one: one.read_index_questions,
    ),
    (
        "herdpy_replica_reads_in_place",
        "Reads at bounded that the replica, as a follower, has let begin at once.",
        lambda one: one.reads_in_place,
    ),
    (
        "herdpy_replica_reads_waited",
        "Reads that have waited for the leader's answer, or for the log.",
        lambda one: one.reads_waited,
    ),
    (
        "herdpy_replica_log_confirmed_reads",
        "Reads as leader that an entry of the log confirmed, because no lease was valid.",
        lambda one: one.log_confirmed_reads,
    ),
    (
        "herdpy_replica_seedings",
        "How often the replica was seeded with another one's snapshot.",
        lambda one: one.seedings,
    ),
)
_OF_BODIES: Sequence[tuple[str, str, Callable[[OpenReplica], float]]] = (
    (
        "herdpy_replica_memtable_bytes",
        "Bytes of changes in memory that a checkpoint has to write.",
        lambda opened: opened.store.memtable_bytes,
    ),
    (
        "herdpy_replica_column_segment_bytes",
        "Bytes of the files of columns that queries read.",
        lambda opened: opened.store.segment_bytes,
    ),
    (
        "herdpy_replica_checkpoint_lag_seconds",
        "Time since the store had all applied changes.",
        lambda opened: time.monotonic() - opened.checkpointer.caught_up_at,
    ),
    (
        "herdpy_replica_lock_waiters",
        "Transactions that wait for a lock.",
        lambda opened: opened.tablespace.locks.waiting,
    ),
)
_NOTIFICATION_COUNTERS: Sequence[tuple[str, str, Callable[[Notifications], float]]] = (
    (
        "herdpy_notifications_published",
        "Notifications of the transactions that this node has applied.",
        lambda one: one.published,
    ),
    (
        "herdpy_notifications_delivered",
        "Notifications that were given to a session, counted once for each.",
        lambda one: one.delivered,
    ),
    (
        "herdpy_notifications_dropped",
        "Notifications for which the queue of a session was too full, counted once for each.",
        lambda one: one.dropped,
    ),
)
_NOTIFICATION_GAUGES: Sequence[tuple[str, str, Callable[[Notifications], float]]] = (
    ("herdpy_notification_listeners", "Sessions that listen.", lambda one: one.listeners),
    (
        "herdpy_notification_queue_usage",
        "How full the fullest queue of a session is, from 0 to 1; at 1 the session ends.",
        lambda one: one.queue_usage,
    ),
)
_STATES = ("active", "idle", "idle in transaction", "idle in transaction (aborted)")


def counter(name: str, text: str, value: float) -> CounterMetricFamily:
    """A counter without labels."""
    return CounterMetricFamily(name, text, value=value)


def gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    """A gauge without labels."""
    return GaugeMetricFamily(name, text, value=value)


def histogram(
    name: str,
    text: str,
    bounds: Sequence[float],
    counts: Sequence[int],
    total: float,
    traces: Mapping[int, Exemplar] = _NO_TRACES,
) -> HistogramMetricFamily:
    """A histogram without labels; see :func:`add`."""
    family = HistogramMetricFamily(name, text, labels=[])
    add(family, [], bounds, counts, total, traces)
    return family


def add(
    family: HistogramMetricFamily,
    labels: Sequence[str],
    bounds: Sequence[float],
    counts: Sequence[int],
    total: float,
    traces: Mapping[int, Exemplar] = _NO_TRACES,
) -> None:
    """Add one series to a histogram.

    Args:
        bounds: the buckets' upper bounds.
        counts: how many fell into each bucket, and one more number for those above the last bound.
        total: the sum of what was observed.
        traces: by buckets, a trace that was observed there. OpenMetrics shows it as an exemplar; Prometheus's
            older text format has none.
    """
    running = 0
    buckets: list[tuple[str, float, PrometheusExemplar | None]] = []
    for place, (bound, count) in enumerate(zip([*bounds, float("inf")], counts, strict=True)):
        running += count
        trace = traces.get(place)
        shown = None if trace is None else PrometheusExemplar({"trace_id": f"{trace[0]:032x}"}, *trace[1:])
        buckets.append((f"{bound:.10g}" if bound != float("inf") else "+Inf", running, shown))
    family.add_metric(list(labels), buckets, sum_value=total)  # type: ignore[arg-type]


def replica_families(replicas: Sequence[Replica], tracing: ServerTracing | None) -> Iterator[Family]:
    """Every family, with the values of this moment."""
    statuses = [replica.served.status() for replica in replicas]
    role = GaugeMetricFamily(
        "herdpy_replica_role", "1 for the role that the replica has.", labels=[*_LABELS, "role"]
    )
    for one in statuses:
        for name in _ROLES:
            role.add_metric([one.name, name], one.role == name)
    yield role
    for name, text, value in _GAUGES:
        family = GaugeMetricFamily(name, text, labels=_LABELS)
        for one in statuses:
            family.add_metric([one.name], value(one))
        yield family
    for name, text, value in _COUNTERS:
        counter = CounterMetricFamily(name, text, labels=_LABELS)
        for one in statuses:
            counter.add_metric([one.name], value(one))
        yield counter
    for name, text, read in _OF_BODIES:
        family = GaugeMetricFamily(name, text, labels=_LABELS)
        for replica in replicas:
            if replica.opened is not None:
                family.add_metric([replica.info.name], read(replica.opened))
        yield family

    yield from _notifications(
        {one.info.name: one.opened.tablespace.notifications for one in replicas if one.opened is not None}
    )
    yield from _replica_logs(replicas, tracing)


def _replica_logs(replicas: Sequence[Replica], tracing: ServerTracing | None) -> Iterator[Family]:
    """What the replicas have written to their logs while they led, and what is in the logs."""
    transactions = CounterMetricFamily(
        "herdpy_replica_log_commits", "Transactions that this node has made durable.", labels=_LABELS
    )
    size = CounterMetricFamily(
        "herdpy_replica_log_bytes", "Bytes that this node has written to the log.", labels=_LABELS
    )
    sizes = HistogramMetricFamily(
        "herdpy_replica_log_entry_transactions",
        "Transactions that took effect with one entry, of the entries that this node has written.",
        labels=_LABELS,
    )
    seconds = HistogramMetricFamily(
        "herdpy_replica_log_entry_seconds",
        "From the sending of an entry to its acknowledgement by the bookies.",
        labels=_LABELS,
    )
    ledgers = GaugeMetricFamily(
        "herdpy_replica_log_ledgers", "Ledgers in the log, as this node knows it.", labels=_LABELS
    )
    retained = GaugeMetricFamily(
        "herdpy_replica_log_retained_bytes", "Bytes of the log's closed ledgers.", labels=_LABELS
    )
    for replica in replicas:
        labels, counts, there = [replica.info.name], replica.log_counts, replica.ledgers()
        transactions.add_metric(labels, counts.transactions)
        size.add_metric(labels, counts.bytes)
        add(sizes, labels, GROUP_SIZES, counts.sizes, counts.transactions)
        traces = _NO_TRACES if tracing is None else tracing.of_syncs.of(replica.info.name)
        add(seconds, labels, SYNC_S, counts.syncs, counts.sync_s, traces)
        ledgers.add_metric(labels, len(there))
        retained.add_metric(labels, sum(ledger.length for ledger in there if ledger.closed))
    yield from (transactions, sizes, size, seconds, ledgers, retained)


def limit_families(by_tablespace: Sequence[tuple[str, Sequence[Limit]]]) -> Iterator[Family]:
    """What stores may use up, by the names of their tablespaces."""
    labels = [*_LABELS, "limit"]
    used = GaugeMetricFamily("herdpy_limit_used", "How much of the limit is used.", labels=labels)
    most = GaugeMetricFamily("herdpy_limit_most", "The limit.", labels=labels)
    for name, limits in by_tablespace:
        for one in limits:
            used.add_metric([name, one.name], one.used)
            most.add_metric([name, one.name], one.most)
    yield used
    yield most


_OF_ARCHIVES: Sequence[tuple[str, str, Callable[[ArchiveStatus], float]]] = (
    (
        "herdpy_archive_lag_seconds",
        "For how long the oldest entry of the log that is not archived has waited.",
        lambda one: one.lag_s,
    ),
    ("herdpy_archive_lag_bytes", "How much of the log is not archived, about.", lambda one: one.lag_bytes),
    (
        "herdpy_archive_failing",
        "1 while the repository or the log refuses what archiving needs.",
        lambda one: one.failure is not None,
    ),
)
_COUNTS_OF_ARCHIVES: Sequence[tuple[str, str, Callable[[ArchiveStatus], float]]] = (
    (
        "herdpy_archive_gaps",
        "How often entries were trimmed from the log that are not archived.",
        lambda one: one.gaps,
    ),
    ("herdpy_archive_segments", "Files of entries that were written.", lambda one: one.segments),
    (
        "herdpy_archive_raw_bytes",
        "Bytes of the log, and of rows of loads, that were archived.",
        lambda one: one.raw_bytes,
    ),
    ("herdpy_archive_stored_bytes", "Bytes of the files that have them.", lambda one: one.stored_bytes),
)


def archive_families(archives: Sequence[tuple[str, ArchiveStatus]]) -> Iterator[Family]:
    """Of the logs that are archived here, by the names of their tablespaces."""
    for name, text, value in _OF_ARCHIVES:
        family = GaugeMetricFamily(name, text, labels=_LABELS)
        for tablespace, status in archives:
            family.add_metric([tablespace], value(status))
        yield family
    for name, text, value in _COUNTS_OF_ARCHIVES:
        counted = CounterMetricFamily(name, text, labels=_LABELS)
        for tablespace, status in archives:
            counted.add_metric([tablespace], value(status))
        yield counted


_OF_BACKUPS: Sequence[tuple[str, str, Callable[[BackupsStatus], float | None]]] = (
    ("herdpy_backups", "Backups in the repository, as far as is known.", lambda one: one.backups),
    (
        "herdpy_backup_age_seconds",
        "For how long the newest backup has been there; absent where there is none.",
        lambda one: _age_s(one.newest_us),
    ),
    (
        "herdpy_backup_full_age_seconds",
        "For how long the newest full backup has been there; absent where there is none.",
        lambda one: _age_s(one.newest_full_us),
    ),
    (
        "herdpy_backup_failing",
        "1 while the last try to make, list or expire backups has failed.",
        lambda one: one.failure is not None,
    ),
    (
        "herdpy_backup_late",
        "1 while the newest backup, or the newest full one, is older than twice its interval.",
        lambda one: one.is_late,
    ),
)


def _age_s(begun_us: int) -> float | None:
    return max(time.time() - begun_us / 1e6, 0.0) if begun_us else None


def backup_families(backups: Sequence[tuple[str, BackupsStatus]]) -> Iterator[Family]:
    """Of the backups of tablespaces here, by the names of these."""
    for name, text, value in _OF_BACKUPS:
        family = GaugeMetricFamily(name, text, labels=_LABELS)
        for tablespace, status in backups:
            if (found := value(status)) is not None:
                family.add_metric([tablespace], found)
        yield family
    failures = CounterMetricFamily(
        "herdpy_backup_failures", "How often making, listing or expiring backups has failed.", labels=_LABELS
    )
    for tablespace, status in backups:
        failures.add_metric([tablespace], status.failures)
    yield failures


class ServerCollector(Collector):
    """The metrics of one server, for a registry."""

    def __init__(self, measured: ServerMetrics) -> None:
        self._measured = measured

    def collect(self) -> Iterator[Family]:
        """Every family, with the values of this moment."""
        measured = self._measured
        yield from self._server()
        yield from self._statement_families()
        if measured.registry is not None:
            yield from _sessions(measured.registry, measured.max_sessions)
        database = measured.database
        if database is not None:
            yield from _waiting(database)
            yield from _log(database, measured.tracing)
            yield from _store(database)
            yield from _locks(database)
            yield from _notifications({DATABASE: database.tablespace.notifications})
            if database.workers is not None:
                yield from _workers(database.workers)

        yield from limit_families(list(self._limits()))
        yield from archive_families(list(self._archives()))
        yield from backup_families(list(self._backups()))
        if measured.replicas is not None:
            yield from replica_families(list(measured.replicas.values()), measured.tracing)
        yield from _spans(None if measured.tracing is None else measured.tracing.queue)

    def _limits(self) -> Iterator[tuple[str, Sequence[Limit]]]:
        measured = self._measured
        if measured.database is not None:
            yield DATABASE, measured.database.store.limits()
        for replica in (measured.replicas or {}).values():
            if replica.opened is not None:
                yield replica.info.name, replica.opened.store.limits()

    def _backups(self) -> Iterator[tuple[str, BackupsStatus]]:
        measured = self._measured
        if measured.backups is not None and measured.backups.is_on:
            yield DATABASE, measured.backups.status()
        for replica in (measured.replicas or {}).values():
            if replica.backups.is_on:
                yield replica.info.name, replica.backups.status()

    def _archives(self) -> Iterator[tuple[str, ArchiveStatus]]:
        measured = self._measured
        if measured.archiver is not None and measured.archiver.is_running:
            yield DATABASE, measured.archiver.status()
        for replica in (measured.replicas or {}).values():
            if replica.archiver.is_running:
                yield replica.info.name, replica.archiver.status()

    def _server(self) -> Iterator[Family]:
        measured = self._measured
        info = GaugeMetricFamily("herdpy_info", "The version that runs; always 1.", labels=["version"])
        info.add_metric([measured.version], 1)
        yield info
        phase = GaugeMetricFamily("herdpy_phase", "1 for the phase that the server is in.", labels=["phase"])
        for one in Phase:
            phase.add_metric([one.value], one is measured.status.phase)
        yield phase
        yield gauge("herdpy_ready", "1 when clients may use this server.", measured.status.is_ready)
        if measured.loop_delay is not None:
            yield gauge(
                "herdpy_loop_delay_seconds",
                "The longest delay of the event loop since the last scrape.",
                measured.loop_delay.take(),
            )
        if measured.supervisor is not None:
            yield gauge(
                "herdpy_supervisor_alive",
                "1 while a supervisor waits for this server's end.",
                measured.supervisor() is not None,
            )
        if measured.logs is not None:
            yield counter(
                "herdpy_log_lines_dropped",
                "Lines of the server's log that were dropped because the log's reader was too slow.",
                measured.logs.dropped,
            )

    def _statement_families(self) -> Iterator[Family]:
        measured = self._measured
        count = CounterMetricFamily(
            "herdpy_statements",
            "Statements that have ended, by kind and outcome.",
            labels=["kind", "outcome"],
        )
        rows = CounterMetricFamily(
            "herdpy_statement_rows", "Rows that statements returned or changed.", labels=["kind"]
        )
        seconds = HistogramMetricFamily(
            "herdpy_statement_seconds",
            "From a statement's beginning to its answer, waiting for locks and the log included.",
            labels=["kind"],
        )
        for kind, one in list(measured.statements.kinds.items()):
            for outcome in ("ok", "failed", "cancelled"):
                count.add_metric([kind, outcome], getattr(one, outcome))
            rows.add_metric([kind], one.rows)
            traces = _NO_TRACES if measured.tracing is None else measured.tracing.of_statements.of(kind)
            add(seconds, [kind], BUCKETS_S, one.buckets, one.seconds, traces)
        yield count
        yield rows
        yield seconds
        errors = CounterMetricFamily("herdpy_errors", "Failed statements by SQLSTATE.", labels=["sqlstate"])
        for state, number in list(measured.statements.errors.items()):
            errors.add_metric([state], number)
        yield errors
        yield counter("herdpy_slow_statements", "Statements logged as slow.", measured.statements.slow)


def _spans(queue: SpanQueue | None) -> Iterator[Family]:
    spans = CounterMetricFamily(
        "herdpy_trace_spans",
        "Spans by what became of them: exported, failed (the collector did not take them), dropped (too many"
        " waited).",
        labels=["outcome"],
    )
    for outcome in ("exported", "failed", "dropped"):
        spans.add_metric([outcome], 0 if queue is None else getattr(queue, outcome))
    yield spans
    yield gauge("herdpy_trace_queue", "Spans that wait for the collector.", len(queue or ()))


class MetricsText:
    """The metrics of one server as text, in formats that Prometheus reads."""

    def __init__(self, measured: ServerMetrics) -> None:
        # A registry of its own, so that two servers in one process, and other libraries, do not mix.
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(ServerCollector(measured))
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def of(self, accept: str) -> tuple[bytes, str]:
        """The metrics in the format that an Accept header asks for, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


def _sessions(registry: SessionRegistry, limit: int) -> Iterator[Family]:
    states = GaugeMetricFamily(
        "herdpy_sessions", "Sessions by state, as in pg_stat_activity.", labels=["state"]
    )
    found = dict.fromkeys(_STATES, 0)
    for entry in registry:
        found[entry.state] += 1
    for name, number in found.items():
        states.add_metric([name], number)
    yield states
    yield gauge("herdpy_sessions_max", "The limit of sessions.", limit)


def _waiting(database: ServedDatabase) -> Iterator[Family]:
    yield gauge(
        "herdpy_statements_waiting",
        "Statements that wait: for locks, the log, DuckDB or their client.",
        len(database.driver.waiting),
    )


def _log(database: ServedDatabase, tracing: ServerTracing | None) -> Iterator[Family]:
    counts = database.log.counts
    traces = _NO_TRACES if tracing is None else tracing.of_syncs.of(DATABASE)
    yield counter("herdpy_commits", "Transactions made durable by the log.", counts.transactions)
    yield gauge(
        "herdpy_commits_pending",
        "Transactions that have their place in the log and are not durable yet.",
        database.tablespace.pending,
    )
    yield histogram(
        "herdpy_log_group_transactions",
        "Transactions that were written and synced together.",
        GROUP_SIZES,
        counts.sizes,
        counts.transactions,
    )
    yield counter("herdpy_log_bytes", "Bytes written to the log.", counts.bytes)
    yield histogram(
        "herdpy_log_sync_seconds",
        "How long a sync (fdatasync) took.",
        SYNC_S,
        counts.syncs,
        counts.sync_s,
        traces,
    )
    ledgers = database.log.ledgers()
    yield gauge("herdpy_log_ledgers", "Ledgers in the log.", len(ledgers))
    yield gauge(
        "herdpy_log_retained_bytes",
        "Bytes of the log's closed ledgers.",
        sum(ledger.length for ledger in ledgers if ledger.closed),
    )


def _store(database: ServedDatabase) -> Iterator[Family]:
    store, checkpointer = database.store, database.checkpointer
    yield gauge(
        "herdpy_memtable_bytes",
        "Bytes of changes in memory that a checkpoint has to write.",
        store.memtable_bytes,
    )
    yield gauge(
        "herdpy_column_segment_bytes",
        "Bytes of the files of columns that queries read.",
        store.segment_bytes,
    )
    yield gauge("herdpy_memtable_rows", "Rows in memory that a checkpoint has to write.", store.memtable_rows)
    yield gauge(
        "herdpy_memtable_limit_bytes",
        "The limit above which writers wait for a checkpoint.",
        database.settings.memtable_limit_bytes,
    )
    count = CounterMetricFamily("herdpy_checkpoints", "Checkpoints by outcome.", labels=["outcome"])
    count.add_metric(["ok"], checkpointer.checkpoints)
    count.add_metric(["failed"], checkpointer.failures)
    yield count
    yield counter("herdpy_checkpoint_seconds", "Time that checkpoints took, in all.", checkpointer.seconds)
    yield gauge(
        "herdpy_checkpoint_lag_seconds",
        "Time since the store had all of the log; a recovery would replay the rest.",
        time.monotonic() - checkpointer.caught_up_at,
    )


def _locks(database: ServedDatabase) -> Iterator[Family]:
    locks = database.tablespace.locks
    yield gauge("herdpy_locks", "Locks that are held.", len(locks))
    yield gauge("herdpy_lock_waiters", "Transactions that wait for a lock.", locks.waiting)
    yield counter(
        "herdpy_lock_waits", "How often a statement found a lock taken, and had to try again.", locks.waits
    )
    yield counter("herdpy_deadlocks", "Deadlocks found.", locks.deadlocks)


def _notifications(of: Mapping[str, Notifications]) -> Iterator[Family]:
    """Of tablespaces by their names."""
    for name, text, value in _NOTIFICATION_COUNTERS:
        count = CounterMetricFamily(name, text, labels=_LABELS)
        for tablespace, one in of.items():
            count.add_metric([tablespace], value(one))
        yield count
    for name, text, read in _NOTIFICATION_GAUGES:
        family = GaugeMetricFamily(name, text, labels=_LABELS)
        for tablespace, one in of.items():
            family.add_metric([tablespace], read(one))
        yield family


def _workers(pool: WorkerPool) -> Iterator[Family]:
    counts = pool.counts
    yield gauge("herdpy_workers", "Worker processes.", len(pool.workers))
    yield gauge("herdpy_workers_busy", "Worker processes that answer a query.", pool.busy)
    yield gauge("herdpy_workers_max", "The limit of worker processes.", pool.settings.maximum)
    yield gauge("herdpy_worker_queue", "Queries that wait for a worker.", pool.waiting)
    yield counter("herdpy_worker_starts", "Workers that were started.", counts.started)
    yield counter("herdpy_worker_deaths", "Workers that died unexpectedly.", counts.died)
    yield counter("herdpy_worker_repeats", "Queries repeated because their worker died.", counts.repeated)
    yield counter(
        "herdpy_worker_refusals", "Queries that got no worker: too many waited, or too long.", counts.refused
    )
    yield histogram(
        "herdpy_worker_wait_seconds",
        "How long queries waited for a worker; its start is part of it.",
        WAIT_S,
        counts.waits,
        counts.wait_s,
    )
