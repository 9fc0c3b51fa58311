"""Cursors over answers that come bit by bit move and give as cursors do whose answer is all there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from herdpy.log.wait import run_blocking
from herdpy_server.embedded import opened
from herdpy_server.sessions import Result, Session, portals
from herdpy_server.sessions.portals import Portal
from herdpy_server.sessions.result import Delivery
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import OutputColumn
from herdpy_sql.types import INTEGER

COLUMNS = (OutputColumn("n", INTEGER),)
SETTLE = ("SETTLE", None)
"""Read all that is left, unasked."""
MOVES = st.tuples(
    st.one_of(
        st.just(SETTLE),
        st.tuples(st.sampled_from(["FORWARD", "BACKWARD"]), st.one_of(st.none(), st.integers(-9, 9))),
        st.tuples(st.sampled_from(["ABSOLUTE", "RELATIVE"]), st.integers(-30, 30)),
    ),
    st.booleans(),
)


class Numbers:
    """Rows from 0, in pieces of these lengths."""

    def __init__(self, lengths: list[int]) -> None:
        self._lengths = list(lengths)
        self._at = 0
        self.is_closed = False

    async def next(self) -> Result | None:
        if not self._lengths:
            return None
        rows = range(self._at, self._at + self._lengths.pop(0))
        self._at = rows.stop
        table = pa.table({"n": pa.array(rows, pa.int32())})
        return Result("SELECT", len(rows), COLUMNS, None, table)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    with opened(tmp_path_factory.mktemp("cursors") / "db") as database:
        yield database.session()


def portal(scroll: str, *, by_sql: bool = True) -> Portal:
    made = Portal("c", None, ())
    made.columns = COLUMNS
    made.by_sql, made.scroll = by_sql, scroll
    return made


def in_parts(session: Session, lengths: list[int], scroll: str, directory: Path | None = None) -> Portal:
    made = portal(scroll)
    answer = Result("SELECT", -1, COLUMNS)
    answer.stream = Delivery(session, answer, Numbers(lengths))
    made.holds(answer, None if directory is None else str(directory))
    return made


def fetched(session: Session, cursor: Portal, direction: str, count: int | None, *, move: bool) -> Any:
    """What FETCH gives: its tag and rows, or its SQLSTATE."""

    async def steps() -> Any:
        answer = await cursor.fetch(session, direction, count, move=move)
        if answer.stream is not None:
            answer = await answer.stream.whole()
        return answer.tag, answer.rows

    try:
        return run_blocking(steps())
    except SqlError as error:
        return error.sqlstate


@pytest.mark.parametrize("memory_bytes", [0, 40, 1 << 20])
@pytest.mark.parametrize("scroll", ["SCROLL", "", "NO SCROLL"])
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(1, 8), max_size=6), moves=st.lists(MOVES, max_size=12))
def test_moves_are_those_of_a_whole_answer(
    session: Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scroll: str,
    memory_bytes: int,
    lengths: list[int],
    moves: list[tuple[tuple[str, int | None], bool]],
) -> None:
    monkeypatch.setattr(portals, "MEMORY_BYTES", memory_bytes)
    whole = portal(scroll)
    whole.result = Result("SELECT", sum(lengths), COLUMNS, [(n,) for n in range(sum(lengths))])
    parts = in_parts(session, lengths, scroll, tmp_path)
    try:
        for (direction, count), move in moves:
            if (direction, count) == SETTLE:
                assert parts.buffer is not None
                run_blocking(parts.buffer.settle())
                continue
            expected = fetched(session, whole, direction, count, move=move)
            found = fetched(session, parts, direction, count, move=move)
            if found == "55000" != expected:  # it does not remember so much
                assert scroll != "SCROLL"
                return
            assert found == expected
    finally:
        parts.close()


def test_what_a_scroll_cursor_has_passed_is_in_a_file(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portals, "MEMORY_BYTES", 1000)
    cursor = in_parts(session, [100] * 50, "SCROLL", tmp_path / "spill")
    assert fetched(session, cursor, "FORWARD", None, move=False) == (
        "FETCH 5000",
        [(n,) for n in range(5000)],
    )
    kept = cursor.buffer
    assert kept is not None
    assert kept._in_memory_bytes <= 1000
    assert fetched(session, cursor, "ABSOLUTE", 7, move=False) == ("FETCH 1", [(6,)])
    assert fetched(session, cursor, "FORWARD", 200, move=False)[1] == [(n,) for n in range(7, 207)]
    monkeypatch.setattr(portals, "FILE_BYTES", 1000)
    cursor.close()
    assert list((tmp_path / "spill").iterdir()) == []
    full = in_parts(session, [100] * 50, "SCROLL", tmp_path / "spill")
    assert fetched(session, full, "FORWARD", None, move=True) == "53400"
    assert fetched(session, full, "FORWARD", 1, move=False) == "55000"


def test_a_cursor_that_does_not_scroll_keeps_nothing(session: Session) -> None:
    cursor = in_parts(session, [1000] * 50, "NO SCROLL")
    assert fetched(session, cursor, "FORWARD", 40_500, move=True) == ("MOVE 40500", [])
    assert cursor.buffer is not None
    assert cursor.buffer.first == 40_000
    assert fetched(session, cursor, "FORWARD", 1, move=False) == ("FETCH 1", [(40_500,)])
