"""The counts may only grow, and reasons take rows out of them."""

from __future__ import annotations

import pytest

from tests.suites import counts, reports
from tests.suites.counts import Count


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A file of counts of its own."""
    file = tmp_path / "counts.txt"
    file.write_text("other x 1 1 0 0 0\nregress a 10 5 1 1 0\n")
    monkeypatch.setattr(counts, "COUNTS", file)
    return file


def test_fewer_of_the_same_and_more_of_the_wrong_are_problems(kept):
    assert counts.problems("regress", {"a": Count(10, 5, rows=1, missing=1)}) == []
    assert counts.problems("regress", {"a": Count(10, 6)}) == []
    worse = counts.problems("regress", {"a": Count(10, 4, rows=2, missing=2, endless=1)})
    assert worse == [
        "a: 4 statements are the same, 5 were",
        "a: rows 2, at most 1 before",
        "a: missing 2, at most 1 before",
        "a: endless 1, at most 0 before",
    ]


def test_recording_takes_what_is_better_and_refuses_what_is_worse(kept):
    assert counts.record("regress", {"a": Count(10, 7), "b": Count(3, 1)}) == []
    assert kept.read_text() == "other x 1 1 0 0 0\nregress a 10 7 0 0 0\nregress b 3 1 0 0 0\n"
    assert counts.record("regress", {"a": Count(10, 6), "b": Count(3, 2)}) == [
        "a: 6 statements are the same, 7 were"
    ]
    assert kept.read_text() == "other x 1 1 0 0 0\nregress a 10 7 0 0 0\nregress b 3 2 0 0 0\n"


def test_listed_differences_have_reasons():
    found = counts.differences()
    assert found
    assert all(reason for _, reason in found)


def answer(sqlstate: str = "", message: str = "", rows: list[list[str]] | None = None) -> dict[str, object]:
    """A kept answer."""
    result = {
        "tag": "",
        "sqlstate": sqlstate,
        "message": message,
        "names": ["a"],
        "rows": rows or [],
        "count": 0,
    }
    return {"results": [result], "copied": [], "seconds": 0.0}


def test_reports_group_refusals_and_show_both_rows(tmp_path):
    refused = [
        {
            "line": line,
            "category": "refused",
            "text": "X",
            "theirs": answer(),
            "ours": answer("0A000", f'no "{line}"'),
        }
        for line in (1, 2)
    ]
    other = {
        "line": 3,
        "category": "rows",
        "text": "SELECT a",
        "theirs": answer(rows=[["1"]]),
        "ours": answer(rows=[["2"]]),
    }
    (tmp_path / "s.json").write_text(counts.json.dumps([*refused, other]))
    assert reports.show(tmp_path, "refused", 5).split("\n") == ['    2 0A000 no "1"', "      s:1 X"]
    assert reports.show(tmp_path, "rows", 5).split("\n")[0] == "s:3  SELECT a"
    assert counts.found(tmp_path) == {"s": Count(3, rows=1, refused=2)}
