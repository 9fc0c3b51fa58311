"""What the runner of ibis' suite compares: the list of what passes, and the page's counts."""

from __future__ import annotations

from tests.ibis import run


def test_the_page_counts_what_is_listed():
    (line,) = [one for one in run.PAGE.read_text().splitlines() if one.startswith("| herdpy |")]
    assert line.split("|")[2].strip() == f"{run.listed().total():,}"


def test_fewer_and_more_cases_are_problems(tmp_path, monkeypatch):
    listed, page = tmp_path / "passed.txt", tmp_path / "ibis.md"
    monkeypatch.setattr(run, "PASSED", listed)
    monkeypatch.setattr(run, "PAGE", page)
    found = {"herdpy": {"t.py::a[1]": "passed", "t.py::a[2]": "error", "t.py::b": "xfailed"}}
    page.write_text("| herdpy | 1 | 1 | 1 | 0 |\n")
    listed.write_text("1 t.py::a\n")
    assert run.problems(found) == []
    listed.write_text("2 t.py::a\n")
    assert run.problems(found) == ["t.py::a: 1 cases pass, 2 did"]
    listed.write_text("")
    assert run.problems(found) == ["t.py::a: 1 cases pass, set passed.txt to that"]
    listed.write_text("1 t.py::a\n")
    page.write_text("| herdpy | 2 | 1 | 0 | 0 |\n")
    assert run.problems(found) == ["docs/ibis.md does not have: | herdpy | 1 | 1 | 1 | 0 |"]
