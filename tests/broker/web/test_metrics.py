"""What Prometheus reads, what rates are made of, and that the history costs nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from herdpy_broker import claim, finish, reading, workers
from herdpy_broker.metrics import BUCKETS_S, MOST_GROUPS, OTHER, BrokerMetrics, Histogram
from herdpy_broker.overview import Overview, QueueCount, overview
from herdpy_broker.rates import KEPT_S, Rates
from herdpy_broker.sample import Finish, Finishes
from herdpy_broker.submission import Submission, submit, submit_all
from prometheus_client.parser import text_string_to_metric_families

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


def samples(text):
    """The samples of a page of metrics, by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def empty(queues=(), highest_id=0, at=NOW):
    return Overview(at, queues, (), (), (), highest_id, ())


def ended(seconds_ago, outcome="done", group="g", wait_s=1.0, run_s=2.0):
    at = NOW - timedelta(seconds=seconds_ago)
    started = at - timedelta(seconds=run_s)
    return Finish(at, group, outcome, started, started - timedelta(seconds=wait_s))


def test_the_page_of_metrics_is_read_by_prometheus(client, connection):
    ids = submit_all(connection, [Submission("mail", group="news")] * 3)
    submit(connection, Submission("mail", group="news", slot="s"))
    worker = workers.register(connection, "w", 5, 60.0)
    claim.claim(connection, worker, "news", 2)
    finish.fail(connection, worker, ids[0], "no", may_retry=False)
    client.get("/")  # waits for a read
    found = samples(client.get("/metrics").text)
    news = ("group", "news")
    assert found["herdpy_broker_up",] == 1
    assert found["herdpy_broker_tasks", news, ("state", "ready")] == 2
    assert found["herdpy_broker_tasks", news, ("state", "running")] == 1
    assert found["herdpy_broker_tasks", news, ("state", "blocked")] == 0
    assert found["herdpy_broker_dead_letters", news, ("reason", "failed")] == 1
    assert found["herdpy_broker_slots", ("state", "held")] == 1
    assert found["herdpy_broker_workers",] == 1
    assert found["herdpy_broker_capacity",] == 5
    assert found["herdpy_broker_oldest_ready_seconds", news] >= 0
    assert found["herdpy_broker_wait_seconds_bucket", ("le", "+Inf")] >= 0


def test_finishes_are_counted_once_each():
    metrics = BrokerMetrics()
    metrics.add(empty(highest_id=10), [ended(3), ended(3, "cancelled")], 0.1)
    metrics.add(empty(highest_id=17), [ended(2, run_s=0.005)], 0.1)
    found = samples(metrics.text().decode())
    assert found["herdpy_broker_submitted_total",] == 7
    assert found["herdpy_broker_finished_total", ("group", "g"), ("outcome", "done")] == 2
    assert found["herdpy_broker_finished_total", ("group", "g"), ("outcome", "cancelled")] == 1
    assert found["herdpy_broker_run_seconds_bucket", ("le", "0.005")] == 1
    assert found["herdpy_broker_run_seconds_count",] == 3
    assert found["herdpy_broker_run_seconds_sum",] == pytest.approx(4.005)


def test_a_histogram_counts_a_bound_within_its_bucket():
    histogram = Histogram()
    for value in (0.0, BUCKETS_S[0], BUCKETS_S[0] + 1e-9, 1e9):
        histogram.observe(value)
    buckets = {
        sample.labels["le"]: sample.value
        for sample in histogram.family("h", "").samples
        if "le" in sample.labels
    }
    assert buckets["0.005"] == 2
    assert buckets["0.01"] == 3
    assert (buckets["1800"], buckets["+Inf"]) == (3, 4)


def test_labels_are_bounded():
    metrics = BrokerMetrics()
    queues = [QueueCount(f"g{n}", "t", "ready", 1, NOW, 0, 0, 0) for n in range(MOST_GROUPS + 50)]
    metrics.add(empty(queues), [], 0.1)
    found = samples(metrics.text().decode())
    ready = [key for key in found if key[0] == "herdpy_broker_tasks" and ("state", "ready") in key]
    assert len(ready) == MOST_GROUPS + 1
    assert found["herdpy_broker_tasks", ("group", OTHER), ("state", "ready")] == 50


def test_labels_are_escaped():
    metrics = BrokerMetrics()
    name = 'a"b\\c'
    metrics.add(empty([QueueCount(name, "t", "ready", 4, NOW, 0, 0, 0)]), [], 0.1)
    found = samples(metrics.text().decode())
    assert found["herdpy_broker_tasks", ("group", name), ("state", "ready")] == 4


def test_gauges_are_absent_while_the_database_is_away():
    metrics = BrokerMetrics()
    metrics.add(empty([QueueCount("g", "t", "ready", 4, NOW, 0, 0, 0)]), [ended(3)], 0.1)
    metrics.lost()
    found = samples(metrics.text().decode())
    assert found["herdpy_broker_up",] == 0
    assert not any(key[0] == "herdpy_broker_tasks" for key in found)
    assert found["herdpy_broker_finished_total", ("group", "g"), ("outcome", "done")] == 1


# Rates.


def test_rates_are_by_second_and_kind():
    rates = Rates()
    rates.add_finishes([ended(3.5)] * 20 + [ended(3.5, "cancelled")] * 10)
    assert rates.rate("done", NOW, 2.0) == 2.0
    assert rates.rate("cancelled", NOW, 2.0) == 1.0
    assert rates.rate("done", NOW + timedelta(seconds=60), 2.0) == 0
    series = rates.series("done", NOW, 0.0)
    assert (len(series), series[-1], sum(series)) == (60, 4.0, 4.0)


def test_a_total_is_spread_over_the_time_in_which_it_rose():
    rates = Rates()
    rates.add_total("submitted", NOW - timedelta(seconds=10), 1_000)
    rates.add_total("submitted", NOW, 1_100)
    assert rates.rate("submitted", NOW, 0.0) == pytest.approx(9.0)  # the second of NOW has begun only
    rates.add_total("submitted", NOW + timedelta(seconds=1), 900)
    assert min(rates.series("submitted", NOW + timedelta(seconds=5), 0.0)) >= 0


def test_rates_forget():
    rates = Rates()
    for second in range(5 * KEPT_S):
        rates.add_finishes([ended(-second)])
    assert sum(rates.series("done", NOW + timedelta(seconds=5 * KEPT_S), 0.0)) == KEPT_S / 5
    assert len(rates._counts["done"]) <= 2 * KEPT_S


# Reading.


def history(connection, count, step="1 millisecond"):
    columns = "id, type, group_name, outcome, attempts, submitted_at, started_at, finished_at"
    time = f"now() - interval '30 seconds' + g * interval '{step}'"
    times = f"SELECT g, {time} FROM generate_series(1, {count}) g(g)"
    rows = f"SELECT g, 'mail', 'g', 'done', 1, t, t, t FROM ({times}) times(g, t)"
    connection.execute(f"INSERT INTO broker.finished ({columns}) {rows}")


@pytest.mark.parametrize("step", ["1 millisecond", "0 seconds"])
def test_each_finish_is_read_once(connection, step):
    history(connection, 25, step)
    reader = Finishes(most=10 if step != "0 seconds" else 100)
    now = overview(connection).at
    found = [reader.read(connection, now) for _ in range(5)]
    assert sum(map(len, found)) == 25
    assert found[-1] == []
    assert len({(one.finished_at, index) for index, part in enumerate(found) for one in part}) <= 25


def test_a_finish_of_the_last_moments_is_left_to_a_later_read(connection):
    worker = workers.register(connection, "w", 1, 60.0)
    ident = submit(connection, Submission("mail"))
    claim.claim(connection, worker, "default", 1)
    finish.finish(connection, worker, [(ident, None)])
    reader, at = Finishes(), overview(connection).at
    assert reader.read(connection, at) == []
    (one,) = reader.read(connection, at + timedelta(seconds=2.1))
    assert (one.outcome, reader.read(connection, at + timedelta(seconds=9))) == ("done", [])


def test_old_history_is_not_read(connection):
    connection.execute(
        "INSERT INTO broker.finished (id, type, group_name, outcome, attempts, submitted_at, finished_at)"
        " VALUES (1, 'mail', 'g', 'done', 1, now(), now() - interval '2 minutes')"
    )
    assert Finishes().read(connection, overview(connection).at) == []


def test_no_read_walks_over_the_history(connection, monkeypatch):
    """Whatever statement names broker.finished reads along an index, a few rows."""
    history(connection, 100)
    seen = []
    execute = type(connection).execute

    def spy(self, query, *rest, **more):
        seen.append((query, rest))
        return execute(self, query, *rest, **more)

    monkeypatch.setattr(type(connection), "execute", spy)
    at = overview(connection).at
    Finishes().read(connection, at)
    ident = submit(connection, Submission("mail"))
    reading.task(connection, ident)
    monkeypatch.undo()
    plans = [
        "\n".join(row[0] for row in connection.execute(f"EXPLAIN {query}", *rest))
        for query, rest in seen
        if "broker.finished" in query and query.lstrip().startswith("SELECT")
    ]
    assert len(plans) >= 2
    for plan in plans:
        assert "Engine: own" in plan, plan
        assert "Limit" in plan or "Key" in plan or "using" in plan, plan


def test_a_finish_has_the_time_at_which_it_was_written(connection):
    worker = workers.register(connection, "w", 1, 60.0)
    ident = submit(connection, Submission("mail"))
    claim.claim(connection, worker, "default", 1)
    with connection.transaction():
        ((began,),) = connection.execute("SELECT now()").fetchall()
        connection.execute("SELECT count(*) FROM broker.task").fetchall()
        finish.finish(connection, worker, [(ident, None)])
    ended_at = reading.task(connection, ident).ended_at
    assert ended_at is not None
    assert ended_at > began
