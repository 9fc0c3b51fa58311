"""A drill's result as a failed test tells it."""

from __future__ import annotations

from herdpy.drill import DrillResult


def shown(result: DrillResult) -> str:
    """Verdicts, the first anomalies with their operations, and what happened."""
    lines = [f"{result.drill.name}, seed {result.seed}"]
    for verdict in result.verdicts:
        lines.append(f"{verdict.name}: {verdict.summary}")
        for anomaly in verdict.anomalies[:3]:
            lines += [f"  {anomaly.kind}: {anomaly.text}", *(f"    {one}" for one in anomaly.operations[:8])]
    lines += [f"{event.at_s:.2f} {event.kind}: {event.text}" for event in result.history.events]
    return "\n".join(lines)
