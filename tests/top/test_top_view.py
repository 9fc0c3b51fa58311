"""The panes of a sample: order, filters, harmless text; and the rates between two samples."""

from datetime import UTC, datetime, timedelta

import pytest

from herdpy.top import view
from herdpy.top.sample import Rates, ServerSample, rates

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def session(pid, **more):
    row = dict.fromkeys(
        ("tablespace", "role", "application", "address", "state", "wait_event_type", "wait_event", "query")
    )
    times = {"transaction_s": None, "statement_s": None, "blocked_by": ()}
    return {"pid": pid, **row, **times, **more}


def sample(at_s=10.0, server="one:5432", started=BEGAN, sessions=(), **counts):
    head = {"now": BEGAN + timedelta(seconds=at_s), "started": started, "version": "x", "follows": False}
    parts = {pane.part: [] for pane in view.PANES} | {"sessions": list(sessions)}
    parts["counted"] = [{"statements": counts.get("statements")}]
    parts["commits"] = [{"commits": counts.get("commits"), "rollbacks": counts.get("rollbacks")}]
    parts["log"] = [{"log_bytes": counts["log_bytes"]}] if "log_bytes" in counts else []
    return ServerSample(server, {**head, "tablespace": "t", "role": "ann"}, parts)


def test_rates_are_per_second_of_the_servers_clock():
    before = sample(10, statements=100, commits=5, rollbacks=0, log_bytes=1000)
    after = sample(14, statements=108, commits=5, rollbacks=2, log_bytes=9000)
    assert rates(before, after) == Rates(2.0, 0.0, 0.5, 2000.0)


@pytest.mark.parametrize(
    "after",
    [
        sample(14, server="two:5432", statements=108),
        sample(14, started=BEGAN + timedelta(seconds=1), statements=108),
        sample(14, statements=7),  # reset
        sample(14),  # not kept
        sample(9, statements=108),  # the clock was set back
    ],
)
def test_a_count_that_began_anew_has_no_rate(after):
    assert rates(sample(10, statements=100), after).statements is None


def test_the_first_sample_has_no_rates():
    assert rates(None, sample()) == Rates()


def test_control_characters_and_escapes_are_not_obeyed():
    assert view.printable("a\x1b[31mb\x07\u202ec\n\td") == "a\ufffd[31mb\ufffd\ufffdc d"
    assert view.printable("x" * 300) == "x" * 199 + "…"


def test_order_and_filter():
    rows = [
        session(1, role="ann", statement_s=2.0),
        session(2, role="Bea", statement_s=30.0, query="SELECT 1"),
        session(3, role="ann", statement_s=None),
    ]
    assert [line.key for line in view.lines(view.SESSIONS, rows)] == ["2", "1", "3"]
    assert [line.key for line in view.lines(view.SESSIONS, rows, sorted_by=(0, False))] == ["1", "2", "3"]
    assert [line.key for line in view.lines(view.SESSIONS, rows, sorted_by=(2, False))] == ["2", "1", "3"]
    assert [line.key for line in view.lines(view.SESSIONS, rows, having="select")] == ["2"]
    assert [line.key for line in view.lines(view.SESSIONS, rows, having="BEA")] == ["2"]
    assert view.lines(view.SESSIONS, rows, having="nothing") == []


def test_who_waits_in_words():
    rows = [
        session(1, role="ann", state="idle in transaction", transaction_s=65.0),
        session(2, blocked_by=(1,)),
    ]
    (_, holder), (_, waiter) = view.waits(sample(sessions=rows))
    assert holder == "1 ann idle in transaction, 1 wait for it, in its transaction for 00:01:05: "
    assert waiter.startswith("2 None")
    (line,) = [one for one in view.lines(view.SESSIONS, rows) if one.key == "2"]
    assert "waits for 1" in line.cells


def test_a_holder_that_has_gone():
    assert view.waits(sample(sessions=[session(2, blocked_by=(1,))]))[0][1] == "1: has gone, or is not shown"


@pytest.mark.parametrize(
    ("value", "text"), [(-0.01, "0.0 s"), (59.94, "59.9 s"), (61, "00:01:01"), (90061, "1 d 01:01:01")]
)
def test_times(value, text):
    assert view.seconds(value) == text


def test_the_head_says_which_server_and_how_it_is():
    rows = [session(1, state="active"), session(2, state="active", blocked_by=(1,))]
    head = view.head_line(sample(70, sessions=rows), Rates(1234.5, None, 0.0, 2048.0))
    assert head == (
        "one:5432/t as ann · leads · up 00:01:10 · 2 sessions, 2 active, 1 blocked\n"
        "statements 1,234.5/s · commits - · rollbacks 0.0/s · log 2.0 kB/s"
    )
