"""Reports: the document that scripts read, and the text that people read."""

from __future__ import annotations

import json

import pytest

from herdpy.drill.history import ClientOperation, DrillHistory, Event, OperationOutcome
from herdpy.drill.judging import UNDECIDED, Anomaly, Verdict
from herdpy.drill.report import DrillReport, DrillState, report_text
from herdpy.drill.timeline import timeline_of
from tests.drill.synthetic import KILL, STORM, outage_history, stale_read, write_skew


def report(history: DrillHistory, *verdicts: Verdict, **more) -> DrillReport:
    return DrillReport(
        "kill-leader",
        "The leader is killed.",
        17,
        history,
        verdicts,
        timeline_of(history),
        **{"setting": ["8 clients"], "replay": ("herdpy", "drill", "kill-leader", "--seed", "17"), **more},
    )


GOOD = Verdict("registers", True, "linearizable")
BAD = Verdict.of("list-append", [write_skew()], "31 transactions")
OPEN = Verdict.of("registers", [Anomaly(UNDECIDED, "too many at once")], "31 operations")


@pytest.mark.parametrize(
    ("verdicts", "more", "state"),
    [
        ([GOOD], {}, DrillState.VALID),
        ([GOOD, BAD, OPEN], {}, DrillState.VIOLATED),
        ([GOOD, OPEN], {}, DrillState.UNDECIDED),
        ([], {}, DrillState.SKIPPED),
        ([GOOD], {"was_skipped": True}, DrillState.SKIPPED),
        ([BAD], {"was_skipped": True}, DrillState.VIOLATED),
        ([Verdict("odd", False, "no anomaly reported")], {}, DrillState.VIOLATED),
    ],
)
def test_states(verdicts, more, state):
    assert report(DrillHistory(), *verdicts, **more).state is state


def test_the_document():
    history = outage_history(KILL)
    history.events.append(Event(12.0, "note", "a bookie is slow"))
    found = json.loads(json.dumps(report(history, GOOD, BAD, smallest=write_skew().operations).to_json()))
    assert found["state"] == "violated"
    assert sum(found["operations"].values()) == len(history)
    assert [one["name"] for one in found["phases"]] == ["before", "during", "after"]
    assert found["phases"][0]["write"]["p50_s"] < found["phases"][0]["write"]["p99_s"]
    assert found["leaders"][1] == {"server": None, "begin_s": 10.1, "end_s": 13.2}
    gap = found["longest_gap"]["write"]
    assert found["faults"] == [
        {
            "name": "kill-leader",
            "text": "server-1 is killed",
            "begin_s": 10.0,
            "end_s": 18.0,
            "write_gap": gap,
            "felt": found["felt"],
        }
    ]
    assert found["felt"]["waits"] == sum(one["count"] for one in found["felt"]["histogram"])
    assert found["felt"]["p50_s"] <= found["felt"]["p99_s"] <= found["felt"]["max_s"]
    assert 3.2 < found["longest_gap"]["write"]["seconds"] < 3.7
    assert len(found["unknown"]) == found["operations"]["unknown"]
    assert found["notes"] == [{"at_s": 12.0, "text": "a bookie is slow"}]
    assert found["verdicts"][1]["anomalies"][0]["kind"] == "G2"
    assert found["smallest_history"][0]["arguments"] == [["append", "x", 7], ["read", "y", None]]
    assert found["replay"] == "herdpy drill kill-leader --seed 17"


VIOLATED = """\
kill-leader, seed 17: VIOLATED
  The leader is killed.
  16.1 s, 8 clients
  4 operations: 3 done, 1 unknown

nothing happened to the cluster

longest without an acknowledged write      463 ms  (15.04 s to 15.50 s)
longest without an answered read           4.0 ms  (16.10 s to 16.10 s)
outcomes that stayed unknown at first      1, of which found later: 0 done, 0 not done; never resolved: 1

                a second     p50     p99  slowest
writes  before         2  4.9 ms  5.4 ms   5.4 ms
reads   before         1  4.0 ms  4.0 ms   4.0 ms

ok        registers    linearizable
VIOLATED  list-append  31 transactions: 1 G2
                       G2: 1 read y before 2 appended 9 to it, and 2 read x before 1 appended 7 to it

the smallest history that shows it: G2 in list-append
  1   client 3  15.031 to 15.036 s  append x 7; read y → [1]              done
  2   client 5  15.032 to 15.037 s  append y 9; read x → [2]              done
  3  client 14  15.033 to 15.500 s  append y 11                           unknown, never resolved
  4   client 2  16.100 to 16.104 s  read x → [2, 7]; read y → [1, 9, 11]  done

history: drill.jsonl
replay:  herdpy drill kill-leader --seed 17
"""


def test_the_text_of_a_violation():
    operations = write_skew().operations
    given = report(
        DrillHistory(operations),
        GOOD,
        BAD,
        smallest=operations,
        about_smallest="G2 in list-append",
        history_file="drill.jsonl",
    )
    assert report_text(given) == VIOLATED


def test_the_text_when_all_is_well():
    text = report_text(report(outage_history(KILL), GOOD, skipped=[("slow-disk", "needs root")]))
    lines = text.splitlines()
    assert lines[0] == "kill-leader, seed 17: VALID"
    assert "   10.10 s  nobody leads" in lines
    assert "   skipped  slow-disk: needs root" in lines
    assert "replay" not in text
    assert any(line.startswith("longest wait of a client for a write") for line in lines)
    assert len(lines) < 35
    assert max(map(len, lines)) <= 110


def test_of_many_events_the_middle_is_left_out():
    history = outage_history(*STORM, seconds=60, clients=2, pause_s=0.5)
    history.events += [Event(30.0 + number / 10, "note", f"note {number}") for number in range(40)]
    lines = report_text(report(history, GOOD)).splitlines()
    shown = [line for line in lines if line[:10].endswith(" s") or "…" in line]
    assert len(shown) == 16
    left_out = next(line for line in shown if "…" in line)
    assert int(left_out.split()[1]) + 15 == 17 + 40


def test_long_answers_and_odd_texts_stay_on_their_line():
    long = ClientOperation(1, "members", [], list(range(500)), OperationOutcome.DONE, 0.0, 1.0)
    odd = ClientOperation(
        2, "write", ["a b", "x\ny"], None, OperationOutcome.NOT_DONE, 0.0, 1.0, error="40001: no"
    )
    verdict = Verdict.of("sets", [Anomaly("lost add", "7 is gone", [long, odd])], "500 elements")
    text = report_text(report(DrillHistory([long, odd]), verdict, smallest=[long, odd]))
    assert "members → [0, 1, 2, 3" in text
    assert 'write "a b" "x\\ny"' in text
    assert max(map(len, text.splitlines())) < 140


def test_many_anomalies_are_counted():
    anomalies = [Anomaly("stale read", f"number {number}", stale_read().operations) for number in range(9)]
    text = report_text(report(DrillHistory(), Verdict.of("registers", anomalies, "9 reads")))
    assert "number 2" in text
    assert "number 3" not in text
    assert "6 more (--report has all)" in text
