"""EXPLAIN ANALYZE: what every step of a plan did is counted where it happens."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

import herdpy

if TYPE_CHECKING:
    from collections.abc import Iterator

_TIME = re.compile(r"time=\d+\.\d{3}")


@pytest.fixture(scope="module")
def cursor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with herdpy.connect(f"herdpy://{tmp_path_factory.mktemp('explain')}") as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE item (shelf INT, place INT, what TEXT, PRIMARY KEY (shelf, place))")
        cursor.execute("CREATE TABLE shelf (id INT PRIMARY KEY, room TEXT)")
        cursor.execute("INSERT INTO shelf VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        cursor.execute(
            "INSERT INTO item SELECT g / 10 + 1, g % 10, CASE WHEN g % 2 = 0 THEN 'even' ELSE 'odd' END"
            " FROM generate_series(0, 29) g"
        )
        connection.commit()
        yield cursor


def explained(cursor: Any, sql: str) -> str:
    """The answer without the times, and without the last line, which is one."""
    cursor.execute(f"EXPLAIN ANALYZE {sql}")
    lines = [_TIME.sub("time=", row[0]) for row in cursor.fetchall()]
    assert re.fullmatch(r"Execution Time: \d+\.\d{3} ms", lines.pop())
    return "\n".join(lines)


def test_a_range_says_what_it_read_and_what_the_filter_took(cursor: Any) -> None:
    found = explained(
        cursor, "SELECT place FROM item WHERE shelf = 2 AND what = 'odd' ORDER BY place LIMIT 3"
    )
    assert found == (
        "Limit (actual time= rows=3 loops=1)\n"
        "  -> Key Range on item using item_pkey (actual time= rows=6 loops=1)\n"
        "       Cond: shelf = 2\n"
        "       Filter: (what = 'odd')\n"
        "       Rows Removed by Filter: 3\n"
        "Engine: own\n"
        "Rows: 3"
    )


def test_a_join_says_how_often_its_inner_side_was_looked_up(cursor: Any) -> None:
    found = explained(
        cursor, "SELECT room, place FROM item i JOIN shelf s ON s.id = i.shelf WHERE i.shelf = 3"
    )
    assert "Key Join (actual time= rows=10 loops=1)" in found
    assert re.search(r"on item using item_pkey \(actual time= rows=10 loops=1\)", found)
    assert re.search(r"on shelf using shelf_pkey \(actual time= rows=\d+ loops=\d+\)", found)


def test_a_step_that_was_never_needed(cursor: Any) -> None:
    found = explained(
        cursor, "SELECT room FROM item i JOIN shelf s ON s.id = i.shelf WHERE i.shelf = 9 AND i.place = 1"
    )
    assert "(never executed)" in found


def test_a_sort_is_a_step(cursor: Any) -> None:
    found = explained(cursor, "SELECT place FROM item WHERE shelf = 1 ORDER BY what")
    assert found.startswith("Sort by what (actual time= rows=10 loops=1)\n  -> Key Range")


@pytest.mark.parametrize(
    ("sql", "title", "rows"),
    [
        ("UPDATE item SET what = 'new' WHERE shelf = 1 AND what = 'odd'", "Update on item", 5),
        ("DELETE FROM item WHERE shelf = 1", "Delete on item", 10),
        ("INSERT INTO shelf VALUES (7, 'x'), (8, 'y')", "Insert on shelf", 2),
        ("SELECT room FROM shelf WHERE id = 2", "Key Get on shelf using shelf_pkey", 1),
    ],
)
def test_changes_are_made_and_counted(cursor: Any, sql: str, title: str, rows: int) -> None:
    connection = cursor.connection
    connection.rollback()
    found = explained(cursor, sql)
    assert re.match(rf"{title}.* \(actual time= rows={rows} loops=1\)", found)
    if "shelf = 1" in sql:
        assert "rows=10 loops=1" in found
    connection.rollback()


def test_the_columnar_engine_says_what_its_operators_did(cursor: Any) -> None:
    found = explained(cursor, "SELECT what, count(*) FROM item GROUP BY what")
    assert re.search(r"-> .*Group By \(actual time= rows=2 loops=1\)", found)
    assert found.endswith("Engine: columnar\nRows: 2")


def test_the_json_document_is_a_tree(cursor: Any) -> None:
    cursor.execute(
        "EXPLAIN (ANALYZE, FORMAT JSON) SELECT place FROM item WHERE shelf = 2 AND what = 'odd' LIMIT 2"
    )
    ((text,),) = cursor.fetchall()
    (document,) = json.loads(text) if isinstance(text, str) else text
    plan = document["Plan"]
    assert (plan["Node Type"], plan["Actual Rows"]) == ("Limit", 2)
    (scan,) = plan["Plans"]
    assert (scan["Actual Rows"], scan["Rows Removed by Filter"], scan["Cond"]) == (4, 2, "shelf = 2")
    assert document["Rows"] == 2
    assert document["Execution Time"] >= plan["Actual Total Time"] >= scan["Actual Total Time"] > 0
