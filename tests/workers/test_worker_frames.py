"""Frames cut anywhere come out whole; the journal knows what it knows."""

from __future__ import annotations

import weakref

from hypothesis import given
from hypothesis import strategies as st

from herdpy_server.store.layers import Delta
from herdpy_server.workers.messages import ResultBatch, Splitter, WorkerLogRecord, frame, read_by_server
from herdpy_server.workers.shipping import FlushJournal, Queries
from herdpy_sql.columnar import ColumnarQuery


@given(st.lists(st.tuples(st.integers(0, 1 << 40), st.binary(max_size=300)), max_size=10), st.data())
def test_frames_cut_anywhere(sent: list[tuple[int, bytes]], data: st.DataObject) -> None:
    whole = b"".join(piece for rows, body in sent for piece in frame(ResultBatch(1, rows), body))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    splitter = Splitter()
    found = []
    for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        if start < stop:
            found += [(read_by_server(head), body) for head, body in splitter.feed(whole[start:stop])]
    assert found == [(ResultBatch(1, rows), body) for rows, body in sent]


def test_messages_are_told_apart() -> None:
    ((head, body),) = Splitter().feed(b"".join(frame(WorkerLogRecord(20, "herdpy.x", "said"))))
    assert read_by_server(head) == WorkerLogRecord(20, "herdpy.x", "said")
    assert body == b""


def delta(size: int) -> Delta:
    made = Delta()
    made.rows = {b"%d" % i: b"" for i in range(size)}
    made.nbytes = size
    return made


def test_the_journal_knows_of_tables_that_are_watched() -> None:
    journal = FlushJournal(lambda: {7: "", 8: "", 9: ""}, limit_bytes=100)
    journal.flushed(1, {7: (delta(1),)})
    journal.watch([7])
    two, three = delta(10), delta(20)
    journal.flushed(2, {7: (two,), 8: (delta(1),)})
    journal.flushed(3, {7: (three,)})
    assert journal.between(7, 0, 3) is None
    assert journal.between(7, 1, 3) == [two, three]
    assert journal.between(7, 1, 2) == [two]
    assert journal.between(7, 3, 3) == []
    assert journal.between(8, 1, 3) is None
    assert journal.between(9, 0, 3) == []
    journal.flushed(4, {7: (delta(90),)})
    assert journal.between(7, 1, 4) is None
    assert journal.between(7, 2, 3) is None  # it had to go as well, to make room
    journal.forget()
    assert journal.between(7, 3, 4) is None
    assert journal.between(7, 4, 4) == []


class Rows(dict[bytes, bytes | None]):
    """Those of a delta, which a weak reference may be to."""


def test_the_journal_has_nothing_of_tables_that_were_dropped() -> None:
    tables = {7: "", 8: ""}
    journal = FlushJournal(lambda: tables)
    journal.watch([7, 8])
    kept, gone = delta(10), delta(20)
    gone.rows = Rows(gone.rows)
    journal.flushed(1, {7: (kept,), 8: (gone,), 9: (delta(1),)})
    dropped = weakref.ref(gone.rows)
    del gone, tables[8]
    journal.flushed(2, {8: (delta(1),), 9: (delta(1),)})
    assert dropped() is None
    assert journal.between(7, 0, 2) == [kept]
    assert journal.between(8, 0, 2) is None  # a snapshot from before may still read it
    assert journal.between(8, 2, 2) == []


def test_a_query_is_pickled_once_and_goes_with_its_plan() -> None:
    queries = Queries()
    first, other = (ColumnarQuery(sql, (), (), ()) for sql in ("SELECT 1", "SELECT 2"))
    number, made = queries.pickled(first)
    assert queries.pickled(other)[0] != number
    assert queries.pickled(first) == (number, made)
    assert queries.pickled(first)[1] is made
    del first
    assert len(queries) == 1
