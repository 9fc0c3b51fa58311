"""The summary of a soak: every drill in a row, and what was violated with the command that runs it again."""

from __future__ import annotations

import json

from herdpy.drill.judging import Anomaly, Verdict
from herdpy.drill.report import DrillReport
from herdpy.drill.timeline import timeline_of
from tests.drill.soak_summary import Run, Summary
from tests.drill.synthetic import KILL, outage_history


def run_of(drill: str, seed: int, *, valid: bool = True, outage: bool = True) -> Run:
    history = outage_history(*([KILL] if outage else []), seed=seed)
    anomalies = [] if valid else [Anomaly("lost insert", "17 is not there")]
    return Run.of(
        DrillReport(
            drill=drill,
            about="",
            seed=seed,
            history=history,
            verdicts=[Verdict.of("inserts", anomalies, "")],
            timeline=timeline_of(history),
            replay=("herdpy", "drill", drill, "--seed", str(seed)),
        )
    )


def test_a_row_of_each_drill() -> None:
    summary = Summary()
    summary.runs += [run_of("kill-leader", seed) for seed in range(1, 7)]
    summary.runs += [run_of("storm", 8, outage=False), run_of("storm", 9, valid=False)]
    head, killed, storm, violated = summary.lines()
    assert head.split()[:3] == ["drill", "runs", "verdicts"]
    assert killed.split()[:4] == ["kill-leader", "6", "6", "valid"]
    assert killed.endswith("1 2 3 4 and 2 more")
    assert "1 valid, 1 violated" in storm
    longest = max(run.no_write_s for run in summary.runs if run.drill == "storm" and run.no_write_s)
    assert longest > 1
    assert f"{longest:.1f} s" in storm
    assert violated == "violated: inserts: herdpy drill storm --seed 9"


def test_as_json_it_has_every_run() -> None:
    summary = Summary()
    summary.runs += [run_of("storm", 8), run_of("storm", 9, valid=False)]
    found = json.loads(json.dumps(summary.to_json()))
    assert found["states"] == {"valid": 1, "violated": 1}
    assert [one["seed"] for one in found["runs"]] == [8, 9]
    assert found["runs"][1]["broken"] == ["inserts"]
    assert found["runs"][0]["faults"] == 1
    assert found["runs"][0]["counts"]["done"] > 100
