"""Latency histogram: how long requests took, in logarithmic buckets, cheap enough for every add.

Leaf of the bookie layer: `metrics` holds one for each operation, the connection's reply loop records into it.
The buckets are those of HdrHistogram in small: each power of two of microseconds is cut into four equal
parts, so that a value read back is at most a quarter above the one recorded.
"""

from __future__ import annotations

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
