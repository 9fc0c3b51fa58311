"""`herdpy drill`: what it prints and writes, and how it ends. Real drills are run by tests/drill."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from herdpy.drill import runner
from herdpy.drill.drills import DRILLS, Drill, DrillResult
from herdpy.drill.history import ClientOperation, DrillHistory, Event, OperationOutcome
from herdpy.drill.judged import HistoryOrigin, judge_again
from herdpy.drill.judging import Anomaly, Verdict
from herdpy.drill.runner import ClientLoad, DrillError, DrillProgress
from tests.drill.synthetic import KILL, outage_history

Outcomes = Callable[[Drill], tuple[list[Verdict], DrillHistory] | DrillError | None]


def good(_drill: Drill) -> tuple[list[Verdict], DrillHistory]:
    return [Verdict("registers", True, "linearizable")], outage_history(KILL, clients=2)


def stale_read_history() -> DrillHistory:
    """One register that goes back."""
    details = {"workload": "registers", "read_level": "linearizable"}
    return DrillHistory(
        [
            ClientOperation(1, "write", ["k", 1], None, OperationOutcome.DONE, 0.0, 0.1, details=details),
            ClientOperation(1, "write", ["k", 2], None, OperationOutcome.DONE, 1.0, 1.1, details=details),
            ClientOperation(2, "read", ["k"], 1, OperationOutcome.DONE, 2.0, 2.1, details=details),
            ClientOperation(2, "read", ["other"], None, OperationOutcome.DONE, 3.0, 3.1, details=details),
        ],
        [Event(0.5, "fault-begin", "server-1 is killed", {"fault": "kill-leader"})],
    )


def bad(_drill: Drill) -> tuple[list[Verdict], DrillHistory]:
    history = stale_read_history()
    return judge_again(history), history


@pytest.fixture
def set_outcome(monkeypatch, tmp_path):
    """`set_outcome(outcome)`: drills come out so; it returns the arguments that each was given."""

    def install(outcome: Outcomes) -> list[dict[str, object]]:
        calls: list[dict[str, object]] = []

        def run(drill: Drill, **given) -> DrillResult:
            calls.append({"drill": drill.name, **given})
            given["on_progress"](DrillProgress("before", 0.2))
            found = outcome(drill)
            if isinstance(found, DrillError):
                raise found
            seed = 17 if given["seed"] is None else given["seed"]
            result = DrillResult(
                drill,
                seed,
                given["seconds"] or drill.seconds,
                "herdpy://a:1/herdpy",
                True,
                DrillHistory(),
                setting=["3 servers"],
            )
            if found is None:
                result.skipped.append((drill.faults[0], "needs root"))
            else:
                result.verdicts, result.history = found
            return result

        monkeypatch.setattr(runner, "run", run)
        monkeypatch.chdir(tmp_path)
        return calls

    return install


def test_list(run):
    text = run("drill", "list").stdout
    assert all(f" {name} " in text for name in DRILLS)
    shown = json.loads(run("drill", "list", "--json").stdout)
    assert [one["name"] for one in shown] == list(DRILLS)
    assert shown[0].keys() == {"name", "explanation", "faults", "workloads", "seconds"}


def test_a_valid_drill(run, set_outcome, tmp_path):
    calls = set_outcome(good)
    found = run("drill", "kill-leader", "--report", "a.json", "--picture", "a.svg", "--seconds", 9)
    assert found.stdout.startswith("kill-leader, seed 17: VALID\n")
    assert json.loads((tmp_path / "a.json").read_text())["state"] == "valid"
    assert ET.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.svg"]
    (call,) = calls
    assert (call["drill"], call["seconds"], call["seed"]) == ("kill-leader", 9.0, None)
    assert call["load"] == ClientLoad()
    assert call["control"] is None


def test_clients_rate_and_seed_are_passed_on(run, set_outcome):
    calls = set_outcome(good)
    run("drill", "storm", "--clients", 9, "--rate", 12.5, "--seed", 5)
    assert calls[0]["load"] == ClientLoad(per_job=9, rate_per_s=12.5)
    assert calls[0]["seed"] == 5


def test_other_workloads_are_passed_on_and_stand_in_the_replay(run, set_outcome):
    drills = []

    def keep(drill: Drill) -> tuple[list[Verdict], DrillHistory]:
        drills.append(drill)
        return bad(drill)

    set_outcome(keep)
    chosen = ("--workload", "queue", "--workload", "herdpy.drill.workloads.bank:Bank")
    text = run("drill", "storm", *chosen, code=1).stdout
    assert drills[0].workloads == ("queue", "bank")
    assert f"replay:  herdpy drill storm --seed 17 {' '.join(chosen)}" in text


def test_json_is_the_report(run, set_outcome, tmp_path):
    set_outcome(good)
    shown = json.loads(run("drill", "kill-leader", "--json", "--report", "r.json").stdout)
    assert shown == json.loads((tmp_path / "r.json").read_text())


def test_a_violation_ends_with_1_keeps_the_history_and_says_how_to_see_it_again(run, set_outcome, tmp_path):
    set_outcome(bad)
    text = run("drill", "pause-leader", "--seconds", 20, "--picture", "bad.svg", code=1).stdout
    assert text.startswith("pause-leader, seed 17: VIOLATED\n")
    assert "the smallest history that shows it: not linearizable in registers" in text
    assert "read k → 1" in text
    assert "read other" not in text
    assert text.endswith(
        "history: pause-leader-17.jsonl\nreplay:  herdpy drill pause-leader --seed 17 --seconds 20\n"
    )
    assert "VIOLATED" in (tmp_path / "bad.svg").read_text()
    kept = DrillHistory.load(tmp_path / "pause-leader-17.jsonl")
    assert kept.operations == stale_read_history().operations
    assert HistoryOrigin.read(kept).drill == "pause-leader"
    again = run("drill", "judge", "pause-leader-17.jsonl", "--picture", "again.svg", code=1).stdout
    assert again.startswith("pause-leader, seed 17: VIOLATED\n  " + DRILLS["pause-leader"].explanation)
    assert "herdpy drill judge pause-leader-17.jsonl" in (tmp_path / "again.svg").read_text()


def test_a_kept_history_of_a_valid_drill_is_judged_again(run, set_outcome, tmp_path):
    history = stale_read_history()
    del history.operations[2]
    set_outcome(lambda _drill: (judge_again(history), history))
    run("drill", "kill-leader", "--history", "kept.jsonl")
    text = run("drill", "judge", "kept.jsonl").stdout
    assert text.startswith("kill-leader, seed 17: VALID\n")
    assert "3 servers" in text


def test_what_cannot_be_decided_does_not_pass(run, set_outcome):
    verdict = Verdict.of("registers", [Anomaly("undecided", "too many at once")], "31 operations")
    set_outcome(lambda _drill: ([verdict], DrillHistory()))
    assert "UNDECIDED" in run("drill", "kill-leader", code=1).stdout


def test_a_skipped_drill_ends_with_3_and_the_reason(run, set_outcome):
    set_outcome(lambda _drill: None)
    text = run("drill", "partition-leader", code=3).stdout
    assert text.startswith("partition-leader, seed 17: SKIPPED\n")
    assert "partition-leader: needs root" in text


def test_a_drill_that_could_not_be_carried_out_ends_with_3(run, set_outcome):
    set_outcome(lambda _drill: DrillError("no server came to lead"))
    shown = run("drill", "kill-leader", code=3)
    assert shown.stderr.startswith("error: the drill could not be carried out: no server came to lead\nHINT:")
    assert shown.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kil-leader"], "Did you mean kill-leader?"),
        (["zzz"], "herdpy drill list"),
        (["herdpy.drill.drills:DRILLS"], "herdpy.drill.drills:DRILLS is no drill"),
        (["herdpy.drill.drills:NONE"], "cannot be imported"),
        (["kill-leader", "--workload", "zzz"], "there is no workload zzz"),
        (["kill-leader", "--report", "nowhere/a.json"], "there is no directory nowhere"),
        (["all", "--report", "nowhere/a.json"], "there is no directory nowhere"),
        (["kill-leader", "--url", "herdpy://a:1/herdpy"], "--commands"),
        (["kill-leader", "--commands", __file__], "give its --url"),
        (["kill-leader", "--seconds", "0"], "greater than or equal to 1"),
        (["judge", "nothing.jsonl"], "does not exist"),
        (["--sed"], "--sed"),
    ],
)
def test_wrong_usage_ends_with_2_and_runs_nothing(run, set_outcome, arguments, message):
    calls = set_outcome(good)
    assert message in " ".join(run("drill", *arguments, code=2).stderr.split())
    assert calls == []


def test_a_file_that_is_no_history(run, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"some": "thing"}\n')
    assert "x.jsonl, line 1" in run("drill", "judge", path, code=2).stderr


def test_all(run, set_outcome, tmp_path):
    outcomes = {"pause-leader": bad, "partition-leader": lambda _drill: None}
    calls = set_outcome(lambda drill: outcomes.get(drill.name, good)(drill))
    text = run(
        "drill", "all", "--report", "all.json", "--pictures", "pictures", "--seconds", 5, code=1
    ).stdout
    assert [call["drill"] for call in calls] == list(DRILLS)
    lines = text.splitlines()
    assert lines[0].startswith("VALID      kill-leader: ")
    assert lines[1].startswith("VIOLATED   pause-leader: ")
    assert lines[2] == "SKIPPED    partition-leader: needs root"
    assert f"{len(DRILLS) - 2} valid, 1 violated, 1 skipped" in text
    assert lines[-1].startswith("pause-leader: herdpy drill pause-leader --seed 17 --seconds 5 (history: ")
    document = json.loads((tmp_path / "all.json").read_text())
    assert [one["drill"] for one in document["drills"]] == list(DRILLS)
    assert document["not_carried_out"] == []
    assert len(list((tmp_path / "pictures").glob("*.svg"))) == len(DRILLS)


def test_all_with_nothing_worse_than_a_skipped_one_is_well(run, set_outcome):
    set_outcome(lambda drill: None if drill.name == "storm" else good(drill))
    assert "1 skipped" in run("drill", "all").stdout


def test_all_goes_on_behind_one_that_could_not_be_carried_out(run, set_outcome):
    set_outcome(lambda drill: DrillError("no Java") if drill.name == "kill-leader" else good(drill))
    shown = run("drill", "all", "--json", code=3)
    assert "kill-leader: could not be carried out: no Java" in shown.stderr
    document = json.loads(shown.stdout)
    assert document["not_carried_out"] == [{"drill": "kill-leader", "error": "no Java"}]
    assert len(document["drills"]) == len(DRILLS) - 1


@pytest.mark.parametrize("command", [["kill-leader"], ["list"], ["all"], ["judge"]])
def test_help_has_examples(run, command):
    assert f"herdpy drill {command[0]}" in run("drill", *command, "--help").stdout
