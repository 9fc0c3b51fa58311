"""ANALYZE: what it finds in a table, and what the planner makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import herdpy
from herdpy_sql.catalog import Catalog
from herdpy_sql.plan.statistics import TableStatistics, position_bytes, statistics_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = 20_000


def catalog_of(connection: Any) -> Catalog:
    catalog = connection.shared_link.link.session.catalog
    assert isinstance(catalog, Catalog)
    return catalog


def found_in(connection: Any, name: str) -> TableStatistics:
    catalog = catalog_of(connection)
    found = statistics_of(catalog, catalog.by_name[name])
    assert found is not None
    return found


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with herdpy.connect(f"herdpy://{tmp_path_factory.mktemp('analyze')}") as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(
            "CREATE TABLE event (id INT PRIMARY KEY, kind TEXT, place INT, at TIMESTAMP, note JSON,"
            " price NUMERIC(9, 2))"
        )
        # One kind is nine tenths of all; places are many; a tenth has no price.
        cursor.execute(
            "INSERT INTO event SELECT g, CASE WHEN g % 10 = 0 THEN 'rare' || g % 500 ELSE 'usual' END,"
            " g % 4000, timestamp '2024-01-01' + g * interval '1 minute', '{}',"
            f" CASE WHEN g % 10 = 3 THEN NULL ELSE g % 100 END FROM generate_series(1, {ROWS}) g"
        )
        cursor.execute("CREATE INDEX event_kind ON event (kind)")
        cursor.execute("CREATE INDEX event_place ON event (place)")
        cursor.execute("CREATE INDEX event_at ON event (at)")
        yield connection


@pytest.fixture(scope="module")
def analyzed(connection: Any) -> Any:
    connection.cursor().execute("ANALYZE event")
    return connection


def explained(connection: Any, sql: str) -> str:
    cursor = connection.cursor()
    cursor.execute(f"EXPLAIN {sql}")
    return "\n".join(row[0] for row in cursor.fetchall())


def test_rows_values_and_nulls_are_counted(analyzed: Any) -> None:
    found = found_in(analyzed, "event")
    table = catalog_of(analyzed).by_name["event"]
    assert found.rows == ROWS
    kind, place, price = (found.columns[table.positions[name]] for name in ("kind", "place", "price"))
    assert (kind.distinct, place.distinct, price.distinct) == (51, 4000, 90)
    assert price.nulls == pytest.approx(0.1)
    usual = position_bytes(table.fields[table.positions["kind"]], "usual")
    assert kind.equal(usual) == pytest.approx(0.9, abs=0.01)
    assert table.positions["note"] not in found.columns  # JSON has no order


@pytest.mark.parametrize(("value", "share"), [(0, 0.0), (1000, 0.25), (2000, 0.5), (3999, 1.0), (9999, 1.0)])
def test_the_histogram_says_how_much_is_below(analyzed: Any, value: int, share: float) -> None:
    table = catalog_of(analyzed).by_name["event"]
    position = table.positions["place"]
    column = found_in(analyzed, "event").columns[position]
    assert column.below(position_bytes(table.fields[position], value)) == pytest.approx(share, abs=0.02)


def test_of_two_indexes_the_one_that_reads_less_is_taken(analyzed: Any) -> None:
    assert "using event_place" in explained(
        analyzed, "SELECT * FROM event WHERE kind = 'usual' AND place = 7"
    )
    assert "using event_place" in explained(
        analyzed, "SELECT * FROM event WHERE place = 7 AND kind = 'usual'"
    )


def test_what_reads_most_of_a_table_goes_to_the_columnar_engine(analyzed: Any) -> None:
    assert "Engine: columnar" in explained(analyzed, "SELECT * FROM event WHERE kind = 'usual'")
    assert "Engine: own" in explained(analyzed, "SELECT * FROM event WHERE kind = 'rare10'")


def test_a_short_range_with_one_end_is_own(analyzed: Any) -> None:
    assert "Engine: own" in explained(analyzed, f"SELECT * FROM event WHERE id > {ROWS - 50}")
    assert "Engine: columnar" in explained(analyzed, "SELECT * FROM event WHERE id > 50")
    near_the_end = "SELECT * FROM event WHERE at >= timestamp '2024-01-14 21:00:00'"
    assert "Engine: own" in explained(analyzed, near_the_end)


def test_the_answers_are_the_same(analyzed: Any) -> None:
    cursor = analyzed.cursor()
    for where in ("kind = 'usual' AND place = 7", "kind = 'rare10'", f"id > {ROWS - 50}", "id > 19000"):
        answers = []
        for engine in ("auto", "own", "columnar"):
            cursor.execute(f"SET herdpy.engine = '{engine}'")
            cursor.execute(f"SELECT id FROM event WHERE {where}")
            answers.append(sorted(cursor.fetchall()))
        assert answers[0] == answers[1] == answers[2] != []
    cursor.execute("RESET herdpy.engine")


def test_statistics_outlive_a_restart_and_go_with_their_table(tmp_path: Path) -> None:
    with herdpy.connect(f"herdpy://{tmp_path}") as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE a (k INT PRIMARY KEY)")
        cursor.execute("CREATE TABLE b (k INT PRIMARY KEY)")
        cursor.execute("INSERT INTO a SELECT g FROM generate_series(1, 10) g")
        cursor.execute("VACUUM ANALYZE")
    with herdpy.connect(f"herdpy://{tmp_path}") as connection:
        connection.autocommit = True
        assert (found_in(connection, "a").rows, found_in(connection, "b").rows) == (10, 0)
        cursor = connection.cursor()
        cursor.execute("INSERT INTO a SELECT g FROM generate_series(11, 30) g")
        cursor.execute("ANALYZE a")
        assert found_in(connection, "a").rows == 30
        cursor.execute("DROP TABLE a")
        assert [one.name for one in catalog_of(connection).objects.values()] == ["statistics 2"]


def test_analyze_of_a_table_that_is_not_there(connection: Any) -> None:
    with pytest.raises(herdpy.ProgrammingError) as caught:
        connection.cursor().execute("ANALYZE nowhere")
    assert caught.value.sqlstate == "42P01"


def test_a_table_that_was_empty_then_is_not_scanned_when_it_has_rows(connection: Any) -> None:
    """A queue is often empty when it is analyzed, and has a backlog later."""
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE queue (id INT PRIMARY KEY, state TEXT)")
    try:
        cursor.execute("CREATE INDEX queue_ready ON queue (id) WHERE state = 'ready'")
        cursor.execute("ANALYZE queue")
        plan = explained(
            connection,
            "SELECT id FROM queue WHERE state = 'ready' ORDER BY id LIMIT 5 FOR UPDATE SKIP LOCKED",
        )
    finally:
        cursor.execute("DROP TABLE queue")
    assert "Index Range on queue using queue_ready" in plan
    assert "Sort" not in plan
