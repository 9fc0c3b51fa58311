"""Counters and histograms: what they count, how near they come, and what Prometheus gets to read."""

from __future__ import annotations

import random
import re

import pytest

from herdpy.bookkeeper.bookie import TIMED_OUT, Bookie, BookieMetrics, BookiePool, Metrics, address_of
from herdpy.bookkeeper.bookie.connection import BookieContext
from herdpy.bookkeeper.bookie.metrics import (
    BUCKETS,
    COUNTERS,
    LatencyHistogram,
    bucket_of,
    status_name,
    upper_bound_s,
)
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire.protocol import Operation, ReplyStatus
from tests.bookkeeper.scripted_bookie import Op, run, scripted, send_add


def test_buckets_follow_one_another_and_hold_what_is_put_in_them() -> None:
    bounds = [upper_bound_s(bucket) for bucket in range(BUCKETS)]
    assert bounds == sorted(set(bounds))
    for us in [*range(5000), *(random.Random(3).randrange(2**28) for _ in range(5000))]:
        bucket = bucket_of((us + 0.5) / 1e6)
        lower_s = bounds[bucket - 1] if bucket else 0.0
        assert lower_s <= (us + 0.5) / 1e6 < bounds[bucket]
        assert bounds[bucket] <= max(lower_s * 1.26, 4.1e-6)


@pytest.mark.parametrize(("latency_s", "bucket"), [(-1.0, 0), (0.0, 0), (1e9, BUCKETS - 1)])
def test_latencies_beyond_the_buckets_are_counted_in_the_outermost(latency_s: float, bucket: int) -> None:
    assert bucket_of(latency_s) == bucket


def test_quantiles_are_at_most_a_quarter_too_high() -> None:
    histogram = LatencyHistogram()
    assert histogram.quantile_s(0.5) is None
    rng = random.Random(4)
    values = sorted(rng.expovariate(1000.0) for _ in range(10_000))
    for value in values:
        histogram.record(value)
    assert histogram.count == 10_000
    assert histogram.snapshot()["mean_s"] == pytest.approx(sum(values) / 10_000)
    for share in (0.01, 0.5, 0.9, 0.99, 1.0):
        exact = values[max(0, int(share * 10_000) - 1)]
        assert exact <= histogram.quantile_s(share) <= exact * 1.26 + 1e-6
    with pytest.raises(ValueError, match="share"):
        histogram.quantile_s(1.1)


def test_a_snapshot_and_the_text_of_what_was_counted() -> None:
    metrics = Metrics()
    one = metrics.of('odd"id\\')
    assert metrics.of('odd"id\\') is one
    one.answered(Operation.ADD_ENTRY, ReplyStatus.EOK, 0.001, times=3)
    one.answered(Operation.READ_ENTRY, ReplyStatus.ENOENTRY, 0.5)
    one.count(Operation.ADD_ENTRY, TIMED_OUT)
    one.count(Operation.ADD_ENTRY, ReplyStatus.EFENCED, times=0)
    one.writes += 2
    metrics.of("quiet")

    shown = metrics.snapshot()['odd"id\\']
    assert shown["requests"] == {"add_entry": {"eok": 3, "timed_out": 1}, "read_entry": {"enoentry": 1}}
    assert set(shown["latency"]) == {"add_entry", "read_entry"}
    assert shown["latency"]["add_entry"]["count"] == 3
    assert 0.001 <= shown["latency"]["add_entry"]["p50_s"] <= 0.00126
    assert shown["writes"] == 2
    assert set(COUNTERS) < set(shown)

    text = metrics.to_prometheus_text()
    lines = text.splitlines()
    label = r'bookie="odd\"id\\"'
    assert f"herdpy_bookie_writes_total{{{label}}} 2.0" in lines
    assert 'herdpy_bookie_writes_total{bookie="quiet"} 0.0' in lines
    assert f'herdpy_bookie_requests_total{{{label},operation="add_entry",status="timed_out"}} 1.0' in lines
    name = "herdpy_bookie_latency_seconds"
    adds = f'{label},le="{{}}",operation="add_entry"'
    assert f"{name}_bucket{{{adds.format(0.001024)}}} 3.0" in lines
    assert f"{name}_bucket{{{adds.format('+Inf')}}} 3.0" in lines
    assert f'{name}_count{{{label},operation="add_entry"}} 3.0' in lines
    sample = re.compile(r'[a-z_]+\{([a-z]+="([^"\\\n]|\\["\\n])*",?)+\} [0-9.e+-]+|# (HELP|TYPE) [a-z_]+ .+')
    assert [line for line in lines if not sample.fullmatch(line)] == []
    types = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types)) == len(COUNTERS) + 2


def test_buckets_in_the_text_are_cumulative() -> None:
    histogram = LatencyHistogram()
    for latency_s in (0.0000005, 0.0001, 0.0001, 0.02, 3.0):
        histogram.record(latency_s)
    octaves = histogram.octaves()
    assert [count for _, count in octaves] == [1, 3, 4, 5]
    for bound_s, count in octaves:
        assert count == sum(latency < bound_s for latency in (0.0000005, 0.0001, 0.0001, 0.02, 3.0))


@pytest.mark.parametrize(
    ("status", "name"), [(0, "eok"), (504, "efenced"), (TIMED_OUT, "timed_out"), (777, "777")]
)
def test_names_of_statuses(status: int, name: str) -> None:
    assert status_name(status) == name


def test_latency_of_adds_is_from_send_to_reply_by_the_clock() -> None:
    async def test() -> None:
        async with scripted() as (server, _, pool):
            now_s = [100.0]
            counted, rng = BookieMetrics(server.id), random.Random(5)
            bookie = Bookie(
                BookieContext(
                    server.id, ClientSettings(), address_of, pool.next_txn, counted, rng, lambda: now_s[0]
                )
            )
            first, second, third = Op(), Op(), Op()
            send_add(pool, bookie, first)
            now_s[0] = 100.010
            send_add(pool, bookie, second)  # not yet connected: each has its own time
            peer = await server.accept()
            requests = await peer.requests(2)
            now_s[0] = 100.100
            for request in requests:
                peer.reply(request)
            await first.status()
            await second.status()
            send_add(pool, bookie, third)
            now_s[0] = 100.400
            peer.reply(await peer.request())
            await third.status()
            counts = bookie.metrics.latency[Operation.ADD_ENTRY].counts
            assert {bucket for bucket, count in enumerate(counts) if count} == {
                bucket_of(0.090),
                bucket_of(0.100),
                bucket_of(0.300),
            }
            assert sum(counts) == 3
            assert counted.outcomes == {(Operation.ADD_ENTRY, ReplyStatus.EOK): 3}
            assert bookie.metrics.latency[Operation.ADD_ENTRY].sum_s == pytest.approx(0.49)
            bookie.close()

    run(test)


def test_metrics_belong_to_the_client_and_survive_its_pool() -> None:
    async def test() -> None:
        metrics = Metrics()
        pool = BookiePool(ClientSettings(), None, metrics)
        bookie = pool.get("127.0.0.1:1")
        assert bookie.metrics is metrics.of("127.0.0.1:1")
        pool.close()
        send_add(pool, bookie, Op())
        assert metrics.snapshot()["127.0.0.1:1"]["refused"] == 1
        assert [one.bookie for one in metrics] == ["127.0.0.1:1"]

    run(test)
