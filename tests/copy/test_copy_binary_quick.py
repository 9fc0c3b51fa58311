"""Rows of the binary format read by columns: as they are read field by field, errors and their places too."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdpy.codec.arrow import array_to_datums
from herdpy_server.copy import CopyTarget, binary
from herdpy_server.copy.binary import BinaryReader
from herdpy_server.wire import decoder, encoder
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType
from tests.copy.conftest import target_of
from tests.copy.quick_values import PLAIN, cut
from tests.wire_formats.wire_values import TYPES, binaries

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"
Row = Sequence[bytes | None]
NAMES = [str(sql_type) for sql_type, _ in PLAIN]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are enough for the quick way, and pieces are not gathered first."""
    monkeypatch.setattr(binary, "_LEAST_ROWS", 1)
    monkeypatch.setattr(binary, "_SLOW_ROWS", 1)
    monkeypatch.setattr(binary, "GATHERED_BYTES", 1)


class Counted(BinaryReader):
    """Counts the rows that were read by columns."""

    rows = 0

    def _many(self) -> pa.RecordBatch | None:
        batch = super()._many()
        self.rows += 0 if batch is None else batch.num_rows
        return batch


class Slow(BinaryReader):
    """Reads field by field."""

    def _many(self) -> pa.RecordBatch | None:
        return None


def field(value: bytes | None) -> bytes:
    return struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value


def record(row: Row) -> bytes:
    return struct.pack("!h", len(row)) + b"".join(map(field, row))


def target(types: Sequence[SqlType]) -> CopyTarget:
    return target_of("q", [(f"c{at}", one) for at, one in enumerate(types)], "FROM STDIN", "(FORMAT binary)")


def outcome(source: BinaryReader, pieces: Sequence[bytes]) -> object:
    """The rows' columns, or the error with its place."""
    found: list[pa.RecordBatch] = []
    try:
        for piece in pieces:
            found += source.feed(piece)
        found += source.finish()
    except SqlError as error:
        return error.sqlstate, error.message, error.fields.get("where")
    table = pa.Table.from_batches(found, schema=source._target.schema)
    table.validate()
    types = source._target.types
    # As text NaN equals NaN, and 0 is not -0.
    return [
        repr(array_to_datums(one.field, column.combine_chunks()))
        for one, column in zip(types, table.columns, strict=True)
    ]


@st.composite
def bodies(draw: st.DrawFn) -> tuple[list[SqlType], bytes]:
    """Types, and rows of their values: good and bad ones, and now and then a wrong count or length."""
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=5))
    rows = draw(st.lists(st.tuples(*(st.none() | binaries(one) for one in types)), max_size=6))
    data = bytearray(HEADER + b"".join(map(record, rows)) + draw(st.sampled_from([END, END, b"", b"\xff"])))
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(data) - 1))
        data[at] = draw(st.integers(0, 255))
    return types, bytes(data) + draw(st.sampled_from([b"", b"", b"", b"x", record(rows[0] if rows else [])]))


@given(bodies(), st.lists(st.integers(0, 400), max_size=6))
@settings(max_examples=300)
def test_both_ways_say_the_same(body, places):
    types, data = body
    pieces = cut(data, places)
    assert outcome(BinaryReader(target(types)), pieces) == outcome(Slow(target(types)), pieces)


@pytest.mark.parametrize(("sql_type", "values"), PLAIN, ids=NAMES)
def test_every_type_is_read_by_columns(sql_type, values):
    @given(st.lists(st.none() | values, min_size=1, max_size=20), st.lists(st.text(max_size=3), min_size=20))
    @settings(max_examples=30, deadline=None)
    def check(texts, words):
        write, read = encoder(sql_type, True), decoder(sql_type, False)
        values = [None if text is None else write(read(text.encode())) for text in texts]
        rows = [
            (value, None if word == "" else word.replace("\0", "").encode(), struct.pack("!q", at))
            for at, (value, word) in enumerate(zip(values, words, strict=False))
        ]
        types = [sql_type, t.TEXT, t.BIGINT]
        data = HEADER + b"".join(map(record, rows)) + END
        quick = Counted(target(types))
        assert outcome(quick, [data]) == outcome(Slow(target(types)), [data])
        assert quick.rows >= len(rows) - 2  # a NULL where none was expected is read by itself, in two columns

    check()


def test_a_column_of_nulls_is_learnt_once():
    rows = [(struct.pack("!i", at) if at % 3 else None, b"x" * at) for at in range(300)]
    quick = Counted(target([t.INTEGER, t.TEXT]))
    data = HEADER + b"".join(map(record, rows)) + END
    assert outcome(quick, [data]) == outcome(Slow(target([t.INTEGER, t.TEXT])), [data])
    assert quick.rows == 299  # the first has the first NULL


def test_pieces_are_gathered(monkeypatch):
    monkeypatch.setattr(binary, "GATHERED_BYTES", 4096)
    source = BinaryReader(target([t.INTEGER]))
    assert source.feed(HEADER) == []
    counts = [sum(b.num_rows for b in source.feed(record((struct.pack("!i", at),)))) for at in range(1000)]
    assert max(counts) > 400
    assert counts.count(0) > 990
    assert sum(counts) + sum(batch.num_rows for batch in source.finish()) == 1000


def test_a_record_without_end_is_refused_before_it_is_held():
    short = CopyTarget("q", (("a", t.TEXT),), max_record_bytes=1000)
    head = HEADER + struct.pack("!hi", 1, 5000)
    assert outcome(BinaryReader(short), [head, b"x" * 600, b"x" * 600]) == (
        "54000",
        "COPY record is longer than 1000 bytes",
        "COPY q, line 1, column a",
    )
