"""Prometheus metric families out of plain numbers that something else counts."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


def counter(name: str, text: str, value: float) -> CounterMetricFamily:
    """A counter without labels."""
    return CounterMetricFamily(name, text, value=value)


def gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    """A gauge without labels."""
    return GaugeMetricFamily(name, text, value=value)


def histogram(
    name: str, text: str, bounds: Sequence[float], counts: Sequence[int], total: float
) -> HistogramMetricFamily:
    """A histogram without labels; see :func:`add`."""
    family = HistogramMetricFamily(name, text, labels=[])
    add(family, [], bounds, counts, total)
    return family


def add(
    family: HistogramMetricFamily,
    labels: Sequence[str],
    bounds: Sequence[float],
    counts: Sequence[int],
    total: float,
) -> None:
    """Add one series to a histogram.

    Args:
        bounds: the buckets' upper bounds.
        counts: how many fell into each bucket, and one more number for those above the last bound.
        total: the sum of what was observed.
    """
    running = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip([*bounds, float("inf")], counts, strict=True):
        running += count
        buckets.append((f"{bound:.10g}" if bound != float("inf") else "+Inf", running))
    family.add_metric(list(labels), buckets, sum_value=total)
