"""Faults in which clients must be answered all the while, and the check that they were.

Layer: above timeline, beside `judged`. The event that begins such a fault says in its details how long the
longest time without an acknowledged write may be, so that a history from a file can be judged again.
"""

from __future__ import annotations

from herdpy.drill.history import DrillHistory
from herdpy.drill.judging import Anomaly, Verdict
from herdpy.drill.timeline import FaultSpan, timeline_of

SILENCE = "silence"
STOPPED = "writes stopped"


def check_silence(history: DrillHistory) -> Verdict | None:
    """Judge the gaps between acknowledged writes. Kind: writes stopped. None: no fault has such a limit."""
    limited = [one for one in timeline_of(history).faults if one.most_silent_s is not None]
    if not limited:
        return None
    anomalies = [Anomaly(STOPPED, text) for one in limited if (text := _broken(one))]
    longest_s = max((one.write_gap.seconds for one in limited if one.write_gap is not None), default=0.0)
    summary = f"writes go on in {len(limited)} faults, longest without one {longest_s:.2f} s"
    return Verdict.of(SILENCE, anomalies, summary)


def _broken(fault: FaultSpan) -> str:
    """How the limit was broken; empty when it was not."""
    gap, limit_s = fault.write_gap, fault.most_silent_s or 0.0
    if gap is None:
        return f"no client wrote while {fault.name} lasted"
    if gap.seconds <= limit_s:
        return ""
    return (
        f"{fault.name}: no write was acknowledged from {gap.begin_s:.2f} to {gap.end_s:.2f} s,"
        f" longer than {limit_s:g} s"
    )
