"""What each bookie did: counters, and latency histograms for each operation.

The connection and the handle of a bookie count here; a client reads `Metrics.snapshot()` (plain dicts, for
programs) or `Metrics.to_prometheus_text()` (for scraping). Counting an add costs about 0.1 us: its latency
is recorded for runs of replies at once (`connection.py`), never by a call for each.

The buckets of a latency histogram are those of HdrHistogram in small: each power of two of microseconds is
cut into four equal parts, so that a value read back is at most a quarter above the one recorded.

The text is written by Prometheus's client, which is imported at the first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from herdpy.bookkeeper.errors import TIMED_OUT, UNAVAILABLE
from herdpy.bookkeeper.wire.protocol import Operation, ReplyStatus

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

_PARTS_BITS = 2
_PARTS = 1 << _PARTS_BITS
_OCTAVES = 27
"""The last bucket ends at 2**28 us, 268 s; what is slower is counted there as well."""
BUCKETS = _OCTAVES * _PARTS


def bucket_of(latency_s: float) -> int:
    """The bucket of a latency in seconds (negative counts as zero)."""
    us = int(latency_s * 1e6)
    if us < _PARTS:
        return us if us > 0 else 0
    shift = us.bit_length() - _PARTS_BITS - 1
    bucket = (shift << _PARTS_BITS) + (us >> shift)
    return bucket if bucket < BUCKETS else BUCKETS - 1


def upper_bound_s(bucket: int) -> float:
    """The latency in seconds that every value of the bucket is below (the last bucket has none, in truth)."""
    if bucket < _PARTS:
        return (bucket + 1) / 1e6
    shift = (bucket >> _PARTS_BITS) - 1
    return ((_PARTS + (bucket & (_PARTS - 1)) + 1) << shift) / 1e6


class LatencyHistogram:
    """Counts of latencies by bucket. `counts[bucket_of(latency_s)] += 1` and `sum_s` are the whole of it."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.sum_s = 0.0

    def record(self, latency_s: float, times: int = 1) -> None:
        """Count a latency in seconds, `times` times."""
        if not times:
            return
        self.counts[bucket_of(latency_s)] += times
        if latency_s > 0:
            self.sum_s += latency_s * times

    @property
    def count(self) -> int:
        """How many latencies were recorded."""
        return sum(self.counts)

    def quantile_s(self, share: float) -> float | None:
        """The latency in seconds that `share` (0..1) of the recorded ones do not exceed; None when empty."""
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"a share lies between 0 and 1, not at {share!r}")
        total = self.count
        if not total:
            return None
        needed = max(1.0, share * total)
        seen = 0
        for bucket, count in enumerate(self.counts):
            seen += count
            if seen >= needed:
                return upper_bound_s(bucket)
        raise AssertionError("the buckets hold fewer values than their sum")

    def octaves(self) -> list[tuple[float, int]]:
        """(upper bound in seconds, how many are below it) for each power of two that has values."""
        seen = 0
        result = []
        for first in range(0, BUCKETS, _PARTS):
            here = sum(self.counts[first : first + _PARTS])
            seen += here
            if here:
                result.append((upper_bound_s(first + _PARTS - 1), seen))
        return result

    def snapshot(self) -> dict[str, float | int | None]:
        """Count, mean and quantiles, in seconds."""
        count = self.count
        return {
            "count": count,
            "mean_s": self.sum_s / count if count else None,
            "p50_s": self.quantile_s(0.5),
            "p99_s": self.quantile_s(0.99),
            "p999_s": self.quantile_s(0.999),
            "max_s": self.quantile_s(1.0),
        }


COUNTERS = {
    "connections": "Connections established, TLS and authentication included.",
    "connection_failures": "Attempts to connect that failed.",
    "disconnections": "Established connections that were lost or closed.",
    "refused": "Requests refused before anything was sent: backing off, closed, or too much waiting.",
    "cancelled": "Requests whose caller stopped waiting.",
    "late_replies": "Replies that came after their request had timed out or was cancelled.",
    "unknown_replies": "Replies to requests that were never made.",
    "malformed_frames": "Frames that could not be understood; each ended its connection.",
    "frames_sent": "Requests sent.",
    "bytes_sent": "Bytes of those requests.",
    "writes": "Writes to the connection; each carries the requests of one turn of the loop.",
    "bytes_received": "Bytes received.",
}
"""Name and meaning of each plain counter of a bookie."""

_PSEUDO_STATUSES = {TIMED_OUT: "timed_out", UNAVAILABLE: "unavailable"}


def status_name(status: int) -> str:
    """A label for a status of the protocol, TIMED_OUT or UNAVAILABLE: ``eok``, ``timed_out``, ``777``."""
    pseudo = _PSEUDO_STATUSES.get(status)
    if pseudo is not None:
        return pseudo
    try:
        return ReplyStatus(status).name.lower()
    except ValueError:
        return str(status)


class BookieMetrics:
    """Counters and histograms of one bookie, through all its connections. All numbers only grow.

    `outcomes` counts requests by (operation, status); `latency` has, for each operation, how long the
    answered ones took from being handed over to being answered, waiting for a connection included.
    """

    __slots__ = ("bookie", "latency", "outcomes", *COUNTERS)

    connections: int
    connection_failures: int
    disconnections: int
    refused: int
    cancelled: int
    late_replies: int
    unknown_replies: int
    malformed_frames: int
    frames_sent: int
    bytes_sent: int
    writes: int
    bytes_received: int

    def __init__(self, bookie: str) -> None:
        self.bookie = bookie
        self.outcomes: dict[tuple[Operation, int], int] = {}
        self.latency = {operation: LatencyHistogram() for operation in Operation}
        for name in COUNTERS:
            setattr(self, name, 0)

    def count(self, operation: Operation, status: int, times: int = 1) -> None:
        """Count requests that ended with a status (0: well)."""
        if times:
            key = (operation, status)
            self.outcomes[key] = self.outcomes.get(key, 0) + times

    def answered(self, operation: Operation, status: int, latency_s: float, times: int = 1) -> None:
        """Count answered requests and how long they took, in seconds."""
        self.count(operation, status, times)
        self.latency[operation].record(latency_s, times)

    def snapshot(self) -> dict[str, Any]:
        """Everything counted: requests by operation and status, latency by operation, each plain counter.

        ``{"requests": {"add_entry": {"eok": 7}}, "latency": {"add_entry": {"p50_s": …}}, "writes": 3, …}``;
        operations never used are left out.
        """
        requests: dict[str, dict[str, int]] = {}
        for (operation, status), times in self.outcomes.items():
            requests.setdefault(operation.name.lower(), {})[status_name(status)] = times
        latency = {
            operation.name.lower(): histogram.snapshot()
            for operation, histogram in self.latency.items()
            if histogram.count
        }
        return {
            "requests": requests,
            "latency": latency,
            **{name: getattr(self, name) for name in COUNTERS},
        }


class Metrics:
    """The metrics of all bookies a client has spoken to, kept when a bookie goes."""

    def __init__(self) -> None:
        self._bookies: dict[str, BookieMetrics] = {}

    def of(self, bookie: str) -> BookieMetrics:
        """The metrics of one bookie, made at its first use."""
        found = self._bookies.get(bookie)
        if found is None:
            found = self._bookies[bookie] = BookieMetrics(bookie)
        return found

    def __iter__(self) -> Iterator[BookieMetrics]:
        return iter(list(self._bookies.values()))

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """`BookieMetrics.snapshot()` of each bookie, by its id."""
        return {bookie: metrics.snapshot() for bookie, metrics in sorted(self._bookies.items())}

    def families(self, prefix: str = "herdpy_bookie") -> Iterator[Family]:
        """Everything counted, as families of Prometheus's client; latencies in seconds."""
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        bookies = [metrics for _, metrics in sorted(self._bookies.items())]
        for name, meaning in COUNTERS.items():
            counter = CounterMetricFamily(f"{prefix}_{name}", meaning, labels=["bookie"])
            for one in bookies:
                counter.add_metric([one.bookie], getattr(one, name))
            yield counter
        requests = CounterMetricFamily(
            f"{prefix}_requests",
            "Requests by operation and by how they ended.",
            labels=["bookie", "operation", "status"],
        )
        latency = HistogramMetricFamily(
            f"{prefix}_latency_seconds",
            "Time from handing over a request to its answer.",
            labels=["bookie", "operation"],
        )
        for one in bookies:
            for (operation, status), times in sorted(one.outcomes.items()):
                requests.add_metric([one.bookie, operation.name.lower(), status_name(status)], times)
            for operation, histogram in one.latency.items():
                if histogram.count:
                    buckets = [(f"{bound_s:g}", count) for bound_s, count in histogram.octaves()]
                    buckets.append(("+Inf", histogram.count))
                    latency.add_metric([one.bookie, operation.name.lower()], buckets, histogram.sum_s)
        yield requests
        yield latency

    def to_prometheus_text(self, prefix: str = "herdpy_bookie") -> str:
        """Everything counted, as Prometheus reads it; latencies in seconds, buckets at powers of two."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Families(list(self.families(prefix))))
        return generate_latest(registry).decode()


class _Families:
    """A collector (of Prometheus's client) of families that are there already."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Sequence[Family]:
        """See ``Collector``."""
        return self._families
