"""What fetched rows are: row factories of connections and cursors, by every way to fetch."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import herdpy
from herdpy.rows import args_row, class_row, dict_row, kwargs_row, namedtuple_row, scalar_row, tuple_row

TWO = "SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, 'y' ORDER BY 1"


@dataclass
class Pair:
    a: int
    b: str


FACTORIES = [
    (tuple_row, [(1, "x"), (2, "y")]),
    (dict_row, [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
    (class_row(Pair), [Pair(1, "x"), Pair(2, "y")]),
    (kwargs_row(Pair), [Pair(1, "x"), Pair(2, "y")]),
    (args_row(lambda a, b: f"{a}{b}"), ["1x", "2y"]),
    (scalar_row, [1, 2]),
]


@pytest.mark.parametrize(("factory", "wanted"), FACTORIES)
def test_every_way_to_fetch(auto, factory, wanted):
    cursor = auto.cursor(row_factory=factory)
    assert cursor.execute(TWO).fetchall() == wanted
    assert list(cursor.execute(TWO)) == wanted
    assert cursor.execute(TWO).fetchmany(1) == wanted[:1]
    assert [cursor.fetchone(), cursor.fetchone()] == [wanted[1], None]
    cursor.scroll(0, "absolute")
    assert cursor.fetchone() == wanted[0]


def test_named_tuples(auto):
    row = (
        auto.cursor(row_factory=namedtuple_row)
        .execute("SELECT 1 AS a, 2, 3 AS a, 4 AS _b, 5 AS class")
        .fetchone()
    )
    assert row == (1, 2, 3, 4, 5)
    assert row._fields == ("a", "f_column_", "_2", "f_b", "_4")
    assert row.a == 1


def test_the_connection_says_it_for_its_cursors(url):
    with herdpy.connect(url, row_factory=dict_row) as conn:
        assert conn.execute(TWO).fetchone() == {"a": 1, "b": "x"}
        assert conn.cursor(row_factory=scalar_row).execute(TWO).fetchall() == [1, 2]
        conn.row_factory = tuple_row
        assert conn.execute(TWO).fetchone() == (1, "x")


def test_none_is_a_row_when_it_is_a_value(auto):
    cursor = auto.cursor(row_factory=scalar_row)
    assert list(cursor.execute("VALUES (1), (NULL), (3)")) == [1, None, 3]


def test_a_class_that_does_not_take_the_columns(auto):
    cursor = auto.cursor(row_factory=class_row(Pair)).execute("SELECT 1 AS a, 2 AS c")
    with pytest.raises(TypeError, match="'c'"):
        cursor.fetchone()
    cursor.row_factory = dict_row
    assert cursor.fetchone() == {"a": 1, "c": 2}


def test_each_of_several_results_has_its_own_columns(auto):
    cursor = auto.cursor(row_factory=dict_row).execute("SELECT 1 AS a; SELECT 2 AS b")
    assert cursor.fetchall() == [{"a": 1}]
    assert cursor.nextset()
    assert cursor.fetchall() == [{"b": 2}]
