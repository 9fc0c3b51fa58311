"""Cursors that are kept with a query's columns: what is made once, what lets go of them, and the answers."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
import sqlglot

from herdpy_sql.catalog import Catalog, Column, KeyPart, Table
from herdpy_sql.clock import Clock
from herdpy_sql.columnar import ColumnarQuery, Interrupt, Limits, query, translate
from herdpy_sql.columnar.ready_cursors import SMALL_ANSWER_BYTES, ReadyCursor, ReadyCursors
from herdpy_sql.errors import SqlError
from herdpy_sql.types import INTEGER, SqlType

CLOCK = Clock(1_700_000_000_123_456, 1_700_000_001_000_000)
TABLE = Table(1, "t", (Column("id", INTEGER, not_null=True), Column("a", INTEGER)), (KeyPart(0),), "t_pkey")
CATALOG = Catalog(1, 2, {1: TABLE})
SUM = "SELECT count(*), sum(a) FROM t"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[ReadyCursors]:
    """The cursors of the queries of one test."""
    mine = ReadyCursors()
    monkeypatch.setattr(query, "READY", mine)
    yield mine
    mine.clear()


def _query(sql: str, types: tuple[SqlType, ...] = ()) -> ColumnarQuery:
    return translate(sqlglot.parse_one(sql, dialect="postgres"), CATALOG, types)


def _numbers(rows: int, factor: int = 1) -> pa.Table:
    ids = list(range(rows))
    return pa.table(
        {"id": pa.array(ids, pa.int32()), "a": pa.array([one * factor for one in ids], pa.int32())}
    )


def _sources(asked: ColumnarQuery, table: pa.Table) -> dict[str, pa.Table]:
    """What a query reads of the table; the same objects while it is kept."""
    return {scan.name: table.select(list(scan.positions)) for scan in asked.scans}


def _run(asked: ColumnarQuery, sources: dict[str, pa.Table], *params: Any, **options: Any) -> list[Any]:
    table = asked.run(sources, params, CLOCK, **options)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _only(kept: ReadyCursors) -> ReadyCursor:
    (one,) = kept._kept.values()
    return one


def test_a_query_is_prepared_when_it_comes_again_over_the_same_columns(kept: ReadyCursors) -> None:
    asked = _query(SUM)
    sources = _sources(asked, _numbers(1000))
    first = _run(asked, sources)
    cursor = _only(kept)
    assert cursor.is_prepared is None
    for _ in range(3):
        assert _run(asked, sources) == first == [(1000, 499500)]
    assert _only(kept) is cursor
    assert cursor.is_prepared


def test_other_columns_are_another_answer(kept: ReadyCursors) -> None:
    asked = _query(SUM)
    tables = [_sources(asked, _numbers(100, factor)) for factor in range(3)]
    for _ in range(3):
        assert [_run(asked, one)[0][1] for one in tables] == [0, 4950, 9900]
    assert len(kept) == 3


def test_a_table_that_dies_takes_its_cursors_along(kept: ReadyCursors) -> None:
    asked = _query(SUM)
    table = _numbers(1000)
    buffer = weakref.ref(table)
    sources = _sources(asked, table)
    for _ in range(3):
        _run(asked, sources)
    assert len(kept) == 1
    del table, sources
    gc.collect()
    assert (len(kept), buffer()) == (0, None)


def test_columns_are_let_go_of_with_the_table(kept: ReadyCursors) -> None:
    """What DuckDB's cursor holds of them does not outlive it."""
    asked = _query(SUM)
    before = pa.total_allocated_bytes()
    sources = _sources(asked, _numbers(200_000))
    for _ in range(3):
        _run(asked, sources)
    del sources
    gc.collect()
    assert pa.total_allocated_bytes() - before < 200_000


def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = ReadyCursors(most=2)
    monkeypatch.setattr(query, "READY", mine)
    queries = [_query(f"SELECT sum(a) + {i} FROM t") for i in range(4)]
    sources = _sources(queries[0], _numbers(10))
    assert [_run(one, sources)[0][0] for one in queries] == [45, 46, 47, 48]
    assert len(mine) == 2
    assert _run(queries[0], sources) == [(45,)]
    mine.clear()


def test_a_large_answer_is_never_prepared(kept: ReadyCursors) -> None:
    """DuckDB would have all of it in memory before the first row."""
    asked = _query("SELECT id, a FROM t WHERE a >= 0")
    rows = SMALL_ANSWER_BYTES // 8 + 1
    sources = _sources(asked, _numbers(rows))
    for _ in range(3):
        assert sum(batch.num_rows for batch in asked.stream(sources, (), CLOCK)) == rows
        assert asked.run(sources, (), CLOCK).num_rows == rows
    assert _only(kept).is_prepared is None


def test_streams_are_prepared_too(kept: ReadyCursors) -> None:
    asked = _query("SELECT id, a FROM t WHERE a >= 90")
    sources = _sources(asked, _numbers(100))
    for _ in range(3):
        batches = list(asked.stream(sources, (), CLOCK, batch_rows=4))
        assert sorted(n for batch in batches for n in batch.column(0).to_pylist()) == list(range(90, 100))
    assert _only(kept).is_prepared


def test_a_stream_that_is_not_read_to_its_end_leaves_no_cursor(kept: ReadyCursors) -> None:
    asked = _query("SELECT id, a FROM t WHERE a >= 0")
    sources = _sources(asked, _numbers(100_000))
    stream = asked.stream(sources, (), CLOCK, batch_rows=100)
    next(stream)
    stream.close()
    assert len(kept) == 0
    assert _run(_query(SUM), _sources(_query(SUM), _numbers(3))) == [(3, 3)]


def test_parameters_are_those_of_each_run(kept: ReadyCursors) -> None:
    asked = _query("SELECT count(*) FROM t WHERE a < $1")
    sources = _sources(asked, _numbers(100))
    assert [_run(asked, sources, n) for n in (5, 50, 7, 500)] == [[(5,)], [(50,)], [(7,)], [(100,)]]
    assert not _only(kept).is_prepared


def test_an_error_leaves_no_cursor_and_the_next_run_answers(kept: ReadyCursors) -> None:
    asked = _query("SELECT sum(a / (id - $1)) FROM t")
    sources = _sources(asked, _numbers(100))
    assert _run(asked, sources, -1)
    with pytest.raises(SqlError, match="division by zero"):
        _run(asked, sources, 5)
    assert len(kept) == 0
    assert _run(asked, sources, -1)


def test_a_query_that_is_prepared_can_be_cancelled(kept: ReadyCursors) -> None:
    asked = _query("SELECT count(*) FROM t x, t y WHERE x.a + y.a > 0")
    sources = _sources(asked, _numbers(30))
    for _ in range(2):
        _run(asked, sources)
    assert _only(kept).is_prepared
    cancelled = Interrupt()
    cancelled.cancel()
    with pytest.raises(SqlError) as caught:
        _run(asked, sources, interrupt=cancelled)
    assert caught.value.sqlstate == "57014"
    assert _run(asked, sources) == [(899,)]


def test_threads_that_ask_the_same_have_cursors_of_their_own(kept: ReadyCursors) -> None:
    asked = _query(SUM)
    sources = _sources(asked, _numbers(50_000))
    expected = _run(asked, sources)
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: _run(asked, sources), range(60)))
    assert answers == [expected] * 60
    assert len(kept) == 1


def test_an_explanation_of_a_query_is_not_prepared(kept: ReadyCursors) -> None:
    from herdpy_sql.columnar.profile import _profiled

    asked = _profiled(_query(SUM))
    sources = _sources(asked, _numbers(10))
    for _ in range(3):
        assert _run(asked, sources)
    assert not _only(kept).is_prepared


def test_settings_have_cursors_of_their_own(kept: ReadyCursors) -> None:
    asked = _query(SUM)
    sources = _sources(asked, _numbers(10))
    for threads in (1, 2, 1, 2):
        assert _run(asked, sources, limits=Limits(threads=threads)) == [(10, 45)]
    assert len(kept) == 2


def test_what_is_drawn_is_drawn_in_each_run(kept: ReadyCursors) -> None:
    asked = _query("SELECT random(), gen_random_uuid() FROM t WHERE id = 1")
    sources = _sources(asked, _numbers(10))
    drawn = [_run(asked, sources)[0] for _ in range(4)]
    assert _only(kept).is_prepared
    assert len({number for number, _ in drawn}) == len({uuid for _, uuid in drawn}) == 4


def test_a_plan_that_keeps_much_memory_is_dropped(kept: ReadyCursors) -> None:
    asked = _query("SELECT count(*) FROM t x FULL JOIN t y ON x.a = y.id + 7")
    sources = _sources(asked, _numbers(150_000))
    for most, is_kept in ((None, True), (48 << 20, None), (None, True)):
        for _ in range(3):
            assert _run(asked, sources, limits=Limits(memory_bytes=most)) == [(150_007,)]
        assert list(kept._kept.values())[-1].is_prepared is is_kept
