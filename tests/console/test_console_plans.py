"""EXPLAIN's documents as trees, the places of errors, and sessions that wait as lists in lists: all pure."""

import json

import pytest

from herdpy.wait_tree import wait_tree
from herdpy_server.console.answers import place_of
from herdpy_server.console.pages.sessions import nested
from herdpy_server.console.plan_tree import plan_tree
from herdpy_server.console.table_facts import literal


def document(plan, **whole):
    return json.dumps([{"Plan": plan, **whole}])


def test_times_are_a_nodes_own_and_bars_shares_of_the_largest():
    inner = {
        "Node Type": "Scan",
        "Actual Total Time": 6.0,
        "Actual Rows": 100,
        "Actual Loops": 2,
        "Cond": "a = 1",
    }
    outer = {
        "Node Type": "Sort",
        "Actual Total Time": 8.0,
        "Actual Rows": 50,
        "Actual Loops": 1,
        "Plans": [inner],
    }
    tree = plan_tree(document(outer, Engine="own"))
    (child,) = tree.root.children
    assert (tree.root.own_ms, child.own_ms) == (2.0, 6.0)
    assert (tree.root.time_share, child.time_share) == (2 / 6, 1.0)
    assert (tree.root.row_share, child.row_share) == (0.5, 1.0)
    assert (child.facts, tree.facts, tree.is_measured) == ({"Cond": "a = 1"}, {"Engine": "own"}, True)


def test_without_analyze_nothing_is_measured():
    tree = plan_tree(document({"Node Type": "Scan"}))
    assert (tree.root.own_ms, tree.root.time_share, tree.is_measured) == (None, None, False)


@pytest.mark.parametrize("text", ["", "Scan on t", "{}", "[]", '[{"Plan": 1}]', "[1]", "[" * 100_000])
def test_what_is_no_plan_has_no_tree(text):
    assert plan_tree(text) is None


def test_a_plan_of_any_depth_and_width_is_bounded():
    deep = {"Node Type": "leaf"}
    for _ in range(400):
        deep = {"Node Type": "step", "Plans": [deep]}
    assert plan_tree(document(deep)) is not None
    wide = {"Node Type": "top", "Plans": [{"Node Type": "leaf"}] * 5000}
    assert len(plan_tree(document(wide)).root.children) < 2000


@pytest.mark.parametrize(
    ("sql", "position", "found"),
    [
        ("SELECT nam", 8, (7, 1, "SELECT ", "nam", "")),
        ("SELECT 1;\nSELECT x.y z", 18, (17, 2, "SELECT ", "x", ".y z")),
        ("SELECT", 7, (6, 1, "SELECT", "", "")),
        ("é\n+ 1", 3, (2, 2, "", "+", " 1")),
    ],
)
def test_the_place_of_an_error(sql, position, found):
    place = place_of(sql, position)
    assert (place.offset, place.line, place.before, place.at, place.after) == found


@pytest.mark.parametrize("position", [None, 0, -1, 99])
def test_an_error_without_a_place(position):
    assert place_of("SELECT 1", position) is None


def test_a_place_in_a_long_line_shows_its_neighbourhood():
    place = place_of("x" * 500 + " bad " + "y" * 500, 502)
    assert place.at == "bad"
    assert place.before.startswith("…")
    assert place.after.endswith("…")
    assert len(place.before + place.after) < 200


def test_waits_as_lists_in_lists():
    (top,) = nested(wait_tree({1: (), 2: (1,), 3: (2,), 4: (1,)}))
    assert top["line"].pid == 1
    assert [one["line"].pid for one in top["children"]] == [2, 4]
    assert [one["line"].pid for one in top["children"][0]["children"]] == [3]


@pytest.mark.parametrize(("text", "sql"), [("it's", "'it''s'"), ("a\\b", r"E'a\\b'"), ("", "''")])
def test_texts_as_literals(text, sql):
    assert literal(text) == sql
