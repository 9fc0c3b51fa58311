"""What Prometheus reads: gauges of the broker as it is, counters and histograms of what it has finished.

Layer 4: the poller hands it each overview and the finishes that it has read; a scrape costs no query.
Counters begin at zero with the process. Labels are bounded: groups beyond ``MOST_GROUPS`` are ``(other)``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from herdpy_broker.overview import STATES, Overview
from herdpy_broker.sample import Finish

MOST_GROUPS = 200
OTHER = "(other)"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """Counts of lengths of time, by ``BUCKETS_S``."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS_S) + 1)
        self._sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(BUCKETS_S, seconds)] += 1
        self._sum_s += seconds

    def family(self, name: str, text: str) -> HistogramMetricFamily:
        """The metric."""
        bounds = [*(f"{bound:g}" for bound in BUCKETS_S), "+Inf"]
        buckets = list(zip(bounds, map(float, accumulate(self._counts)), strict=True))
        return HistogramMetricFamily(name, text, buckets=buckets, sum_value=self._sum_s)


class BrokerMetrics(Collector):
    """The metrics of a broker; it is a collector of prometheus-client's."""

    def __init__(self) -> None:
        self._overview: Overview | None = None
        self._is_up = False
        self._read_s = 0.0
        self._groups: set[str] = set()
        self._finished: Counter[tuple[str, str]] = Counter()
        self._submitted = 0
        self._wait = Histogram()
        self._run = Histogram()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def add(self, overview: Overview, finishes: Sequence[Finish], read_s: float) -> None:
        """Take what was read: the broker as it is, what it has finished since, and how long reading took."""
        if self._overview is not None:
            self._submitted += max(0, overview.highest_id - self._overview.highest_id)
        self._overview, self._is_up, self._read_s = overview, True, read_s
        for one in finishes:
            self._finished[self._label(one.group), one.outcome] += 1
            if one.wait_s is not None and one.run_s is not None:
                self._wait.observe(one.wait_s)
                self._run.observe(one.run_s)

    def lost(self) -> None:
        """The database was not read: ``herdpy_broker_up`` is 0, and gauges are absent."""
        self._is_up = False

    def text(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """The metrics, as prometheus-client asks for them."""
        yield GaugeMetricFamily(
            "herdpy_broker_up", "Whether the database was read last time.", int(self._is_up)
        )
        yield GaugeMetricFamily("herdpy_broker_read_seconds", "How long reading it took.", self._read_s)
        if self._is_up and self._overview is not None:
            yield from self._tasks(self._overview)
            yield from self._workers(self._overview)
        submitted = CounterMetricFamily(
            "herdpy_broker_submitted", "Tasks that were submitted, by their ids: with those rolled back."
        )
        submitted.add_metric([], self._submitted)
        yield submitted
        finished = CounterMetricFamily(
            "herdpy_broker_finished", "Tasks that are over.", labels=["group", "outcome"]
        )
        for (group, outcome), count in sorted(self._finished.items()):
            finished.add_metric([group, outcome], count)
        yield finished
        yield self._wait.family(
            "herdpy_broker_wait_seconds", "From submission to the start of the last attempt."
        )
        yield self._run.family("herdpy_broker_run_seconds", "From the start of the last attempt to its end.")

    def _label(self, group: str) -> str:
        if group not in self._groups and len(self._groups) >= MOST_GROUPS:
            return OTHER
        self._groups.add(group)
        return group

    def _tasks(self, overview: Overview) -> Iterator[Metric]:
        counts: Counter[tuple[str, str]] = Counter()
        ages: dict[tuple[str, str], float] = {}
        for one in overview.queues:
            key = self._label(one.group), one.state
            counts[key] += one.count
            age_s = max(0.0, (overview.at - one.oldest).total_seconds())
            ages[key] = max(age_s, ages.get(key, 0.0))
        tasks = GaugeMetricFamily("herdpy_broker_tasks", "Living tasks.", labels=["group", "state"])
        for group in sorted({group for group, _state in counts}):
            for state in STATES:
                tasks.add_metric([group, state], counts[group, state])
        yield tasks
        for state, text in (
            ("ready", "Longest since a task could start."),
            ("running", "Longest run so far."),
        ):
            oldest = GaugeMetricFamily(f"herdpy_broker_oldest_{state}_seconds", text, labels=["group"])
            for (group, of_state), age_s in sorted(ages.items()):
                if of_state == state:
                    oldest.add_metric([group], age_s)
            yield oldest
        slots = GaugeMetricFamily(
            "herdpy_broker_slots", "Tasks that have, or wait for, a slot.", labels=["state"]
        )
        slots.add_metric(["held"], sum(one.slots_held for one in overview.queues))
        slots.add_metric(["awaited"], sum(one.slots_awaited for one in overview.queues))
        yield slots
        retrying = sum(one.retrying for one in overview.queues)
        yield GaugeMetricFamily("herdpy_broker_retrying", "Living tasks whose last attempt failed.", retrying)
        dead: Counter[tuple[str, str]] = Counter()
        for letters in overview.dead:
            dead[self._label(letters.group), letters.reason] += letters.count
        family = GaugeMetricFamily("herdpy_broker_dead_letters", "Dead letters.", labels=["group", "reason"])
        for (group, reason), count in sorted(dead.items()):
            family.add_metric([group, reason], count)
        yield family

    @staticmethod
    def _workers(overview: Overview) -> Iterator[Metric]:
        late = [one for one in overview.workers if (overview.at - one.seen_at).total_seconds() > one.lease_s]
        yield GaugeMetricFamily(
            "herdpy_broker_workers", "Workers that are registered.", len(overview.workers)
        )
        yield GaugeMetricFamily("herdpy_broker_workers_late", "Of these: past their lease.", len(late))
        yield GaugeMetricFamily(
            "herdpy_broker_capacity",
            "Tasks that they may run at a time.",
            sum(one.capacity for one in overview.workers),
        )
        yield GaugeMetricFamily(
            "herdpy_broker_schedules_paused",
            "Schedules that are paused.",
            sum(one.paused for one in overview.schedules),
        )
