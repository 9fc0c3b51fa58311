"""The cluster's benchmark: what its processes take while nobody asks anything of them."""

from __future__ import annotations

import time
from collections.abc import Mapping

from cluster_bed import Bed
from measure import Line
from processor_time import seconds_of, switches_of

_SETTLE_S = 10.0
"""After so long without work the last checkpoint is written, and probes are rare."""


def measure_idle(bed: Bed) -> list[Line]:
    """CPU and context switches of every process in some seconds without a client."""
    ours, peers = bed.processes, bed.peer_processes
    time.sleep(1.0 if bed.quick else _SETTLE_S)
    seconds = 2.0 if bed.quick else 20.0
    found = _used({**ours, **{f"peer's {name}": pid for name, pid in peers.items()}}, seconds)
    lines = []
    for name, (cpu_s, switches) in sorted(found.items()):
        lines.append(Line(f"CPU of an idle cluster: {name}", cpu_s / seconds * 100, "% of a core"))
        lines.append(Line(f"context switches of an idle cluster: {name}", switches / seconds, "1/s"))
    whole_s = sum(cpu_s for name, (cpu_s, _) in found.items() if name in ours)
    peer_s = sum(cpu_s for name, (cpu_s, _) in found.items() if name not in ours)
    share, peer_share = whole_s / seconds * 100, peer_s / seconds * 100
    return [Line("CPU of an idle cluster, all processes", share, "% of a core", peer_share), *lines]


def _used(processes: Mapping[str, int], seconds: float) -> dict[str, tuple[float, int]]:
    """CPU seconds and context switches of each process and its descendants, in so many seconds."""
    before_s, before = seconds_of(processes), switches_of(processes)
    time.sleep(seconds)
    after_s, after = seconds_of(processes), switches_of(processes)
    return {name: (after_s[name] - before_s[name], after[name] - before[name]) for name in processes}
