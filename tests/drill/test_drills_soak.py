"""Every drill for minutes, on clusters of their own, with seeds that nobody has chosen: for `make soak`.

HERDPY_SOAK_SECONDS is for how long clients run in all drills together (each drill has its part of it, and
runs at least once); HERDPY_DRILL_SECONDS, in each run (300). At the end a table is printed, and the same is
in a file, as JSON: that of HERDPY_SOAK_SUMMARY, or one where pytest keeps what tests leave (`--basetemp`).
There are the histories of violations, too.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy.drill import DRILLS, run
from herdpy.drill.report import DrillReport
from tests.drill.shown import shown
from tests.drill.soak_summary import Run, Summary

SECONDS = float(os.environ.get("HERDPY_DRILL_SECONDS", "300"))
TOTAL_S = float(os.environ.get("HERDPY_SOAK_SECONDS", "0"))
RUNS = max(1, math.floor(TOTAL_S / len(DRILLS) / SECONDS))

pytestmark = [pytest.mark.soak, pytest.mark.timeout((int(SECONDS) * 3 + 900) * RUNS)]


@pytest.fixture(scope="module")
def summary(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Summary, Path]]:
    """Printed and written when all have been run; written after each, too, for a soak that is cut short."""
    named = os.environ.get("HERDPY_SOAK_SUMMARY")
    path = Path(named) if named else tmp_path_factory.mktemp("soak") / "drills.json"
    made = Summary()
    yield made, path
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("", *made.lines(), f"{len(made.runs)} runs of drills: {path}", sep="\n")


@pytest.mark.parametrize("name", DRILLS)
def test_every_drill_for_long(name: str, tmp_path: Path, summary: tuple[Summary, Path]) -> None:
    runs, path = summary
    skipped, violated = "", []
    for _number in range(RUNS):
        result = run(DRILLS[name], seconds=SECONDS)
        runs.runs.append(Run.of(DrillReport.of(result)))
        path.write_text(json.dumps(runs.to_json(), indent=1))
        if result.was_skipped:
            skipped = "; ".join(reason for _fault, reason in result.skipped)
            break
        if not result.valid:
            result.history.save(tmp_path / f"{name}-{result.seed}.jsonl")
            violated.append(shown(result))
    assert not violated, "\n\n".join(violated)
    if skipped:
        pytest.skip(skipped)
