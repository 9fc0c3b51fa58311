"""Counted are the tests that pass on PostgreSQL, and failures are grouped by cause."""

from __future__ import annotations

from tests.suites import cases
from tests.suites.counts import Count

_ERROR = 'Traceback:\n  File "x"\n{} is not supported\nLINE 1: SELECT\n        ^\n'


def test_counted_is_what_passes_on_postgresql(tmp_path):
    theirs = {"a": ("passed", ""), "b": ("passed", ""), "c": ("skipped", "why"), "d": ("passed", "")}
    ours = {"a": ("passed", ""), "b": ("failed", "no"), "c": ("passed", ""), "e": ("failed", "set up")}
    cases.write(tmp_path, "app", theirs, ours)
    assert cases.found(tmp_path) == {"app": Count(3, 1)}
    assert [one.test for one in cases.failures(tmp_path)] == ["b", "d"]
    assert cases.found(tmp_path, ["other"]) == {}
    assert "3 pass on PostgreSQL" in cases.total(cases.found(tmp_path)).splitlines()[-1]


def test_failures_are_shown_by_cause(tmp_path):
    theirs = dict.fromkeys("abc", ("passed", ""))
    ours = {
        "a": ("failed", _ERROR.format('Error: "x"')),
        "b": ("failed", _ERROR.format('Error: "y"')),
        "c": ("failed", "AssertionError: 1 != 2\n"),
    }
    cases.write(tmp_path, "app", theirs, ours)
    assert cases.show(tmp_path, 5).splitlines() == [
        "    2 Error: … is not supported",
        "      app: a",
        "      app: b",
        "    1 AssertionError: … != …",
        "      app: c",
    ]
    assert "1 != 2" in cases.show_texts(tmp_path, 5)
