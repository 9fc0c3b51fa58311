"""The quick readers of text and CSV: what they must take, read as the slow way reads it, and what not."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from herdpy_server.copy import CopyTarget, textual
from herdpy_server.copy.textual import ColumnarReader, LineCutter, TextualReader
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType
from herdpy_sql.values.styles import in_zone
from tests.copy.conftest import target_of
from tests.copy.quick_values import (
    CHAR_5,
    NUMERIC_12_3,
    NUMERIC_38_10,
    PLAIN,
    VARCHAR_4,
    csv_fields,
    cut,
    escaped,
    lines,
    quoted,
    text_fields,
)
from tests.wire_formats.wire_values import TYPES, texts

STRINGS = [("a", t.TEXT), ("b", t.TEXT), ("c", t.TEXT)]
NAMES = [str(sql_type) for sql_type, _ in PLAIN]

# Options of the text format, and its delimiter and NULL.
TEXTS = [
    ("", "\t", "\\N"), ("(DELIMITER '|')", "|", "\\N"), ("(NULL 'nil')", "\t", "nil"),
    ("(DELIMITER ',', NULL '')", ",", ""),
]  # fmt: skip
# Options of CSV, and its delimiter, quote, NULL and an escape that is not the quote.
CSVS = [
    ("(FORMAT csv)", ",", '"', "", ""), ("(FORMAT csv, DELIMITER ';')", ";", '"', "", ""),
    ("(FORMAT csv, NULL 'NULL')", ",", '"', "NULL", ""), ("(FORMAT csv, QUOTE '''')", ",", "'", "", ""),
    ("(FORMAT csv, DELIMITER '|', QUOTE '!', NULL 'a')", "|", "!", "a", ""),
    ("(FORMAT csv, ESCAPE '\\')", ",", '"', "", "\\"),
]  # fmt: skip

_places = st.lists(st.integers(0, 400), max_size=6)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few bytes are enough for the quick way, and pieces are not gathered first."""
    monkeypatch.setattr("herdpy_server.copy.textual._LEAST_BYTES", 1)
    monkeypatch.setattr(textual, "GATHERED_BYTES", 1)


class Counted(ColumnarReader):
    """Counts the rows that were read quickly."""

    rows = 0

    def read(self, data: bytes, start: int, cutter: LineCutter) -> tuple[int, pa.RecordBatch | None]:
        stop, batch = super().read(data, start, cutter)
        self.rows += 0 if batch is None else batch.num_rows
        return stop, batch


class Declining(ColumnarReader):
    """Leaves all to the slow way."""

    def read(self, data: bytes, start: int, cutter: LineCutter) -> tuple[int, pa.RecordBatch | None]:
        return start, None


def whole(target: CopyTarget, quick: ColumnarReader, pieces: Sequence[bytes]) -> pa.Table:
    """The rows of these pieces."""
    source = TextualReader(target)
    source._by_columns = quick
    found = [batch for piece in pieces for batch in source.feed(piece)]
    found += source.finish()
    return pa.Table.from_batches(found, target.schema)


def at_once(target: CopyTarget, data: bytes, start: int = 0) -> tuple[int, pa.RecordBatch | None]:
    """What one call of the quick reader makes of the data."""
    cutter = LineCutter(target.options)
    cutter.ending = b"\r\n" if data[start:].endswith(b"\r\n") else b"\n"
    return ColumnarReader(target).read(data, start, cutter)


def taken(target: CopyTarget, data: bytes, places: list[int]) -> None:
    """It takes the data at once and in pieces, and reads what the slow way reads."""
    slow = whole(target, Declining(target), [data])
    stop, batch = at_once(target, data)
    assert batch is not None, data
    batch.validate(full=True)
    assert stop == len(data)
    assert pa.Table.from_batches([batch]).equals(slow), data
    quick = Counted(target)
    assert whole(target, quick, cut(data, places)).equals(slow), data
    assert quick.rows == slow.num_rows - 1  # the first line is read slowly: it tells how lines end


@pytest.mark.parametrize(("options", "delimiter", "null"), TEXTS)
@settings(max_examples=40)
@given(data=st.data(), places=_places)
def test_text_with_escapes_is_taken(
    options: str, delimiter: str, null: str, data: st.DataObject, places: list[int]
) -> None:
    taken(target_of("tq", STRINGS, "FROM STDIN", options), data.draw(_text(delimiter, null)), places)


def _text(delimiter: str, null: str) -> st.SearchStrategy[bytes]:
    return lines(text_fields(null), len(STRINGS), delimiter)


@pytest.mark.parametrize(("options", "delimiter", "quote", "null", "odd_escape"), CSVS)
@settings(max_examples=40)
@given(data=st.data(), places=_places)
def test_csv_with_quotes_is_taken(
    options: str,
    delimiter: str,
    quote: str,
    null: str,
    odd_escape: str,
    data: st.DataObject,
    places: list[int],
) -> None:
    made = data.draw(lines(csv_fields(delimiter, quote, null, odd_escape), len(STRINGS), delimiter))
    taken(target_of("tq", STRINGS, "FROM STDIN", options), made, places)


@pytest.mark.parametrize("form", ["text", "csv"])
@pytest.mark.parametrize(("sql_type", "values"), PLAIN, ids=NAMES)
@settings(max_examples=15)
@given(data=st.data(), places=_places)
def test_values_of_every_type_are_taken(
    form: str, sql_type: SqlType, values: st.SearchStrategy[str], data: st.DataObject, places: list[int]
) -> None:
    drawn = data.draw(st.lists(values, min_size=2, max_size=5))
    null = "\\N" if form == "text" else ""
    fields = [escaped(v) if form == "text" else quoted(v, '"') for v in drawn]
    if sql_type != t.UUID:  # of which NULLs are left to the slow way
        fields.insert(data.draw(st.integers(0, len(fields))), null)
    delimiter = "\t" if form == "text" else ","
    made = "".join(f"{number}{delimiter}{field}\n" for number, field in enumerate(fields))
    columns = [("k", t.INTEGER), ("v", sql_type)]
    taken(target_of("tq", columns, "FROM STDIN", f"(FORMAT {form})"), made.encode(), places)


@pytest.mark.parametrize("form", ["text", "csv"])
@pytest.mark.parametrize("sql_type", TYPES, ids=str)
@settings(max_examples=50)
@given(data=st.data())
def test_what_is_taken_is_what_the_slow_way_reads(form: str, sql_type: SqlType, data: st.DataObject) -> None:
    values = data.draw(st.lists(texts(sql_type), min_size=1, max_size=2))
    fields = [v.decode("latin-1") for v in values]
    delimiter = "\t" if form == "text" else ","
    fields = [escaped(v) if form == "text" else quoted(v, '"') for v in fields]
    made = "".join(f"{number}{delimiter}{field}\n" for number, field in enumerate(fields)).encode("latin-1")
    agreed(target_of("tq", [("k", t.INTEGER), ("v", sql_type)], "FROM STDIN", f"(FORMAT {form})"), made)


_raw = st.lists(
    st.sampled_from(["a", "\ufeff", " ", ",", "\t", '"', '""', "\\", "\\\\", "\\N", "\\.", "\\0", "\\377",
                     "\n", "\n", "\r\n", "\r", ",,", "\t\t", "\0"]),
    max_size=24,
).map(lambda pieces: "".join(pieces).encode())  # fmt: skip


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("options", ["", "(DELIMITER ',')", "(FORMAT csv)", "(FORMAT csv, ESCAPE '\\')"])
@settings(max_examples=100)
@given(data=_raw)
@example(data=b'a,"b\n",c\n"\n",,\n')
@example(data=b"\xef\xbb\xbfa,b,c\n")
def test_any_lines_taken_are_what_the_slow_way_reads(options: str, width: int, data: bytes) -> None:
    agreed(target_of("tq", STRINGS[:width], "FROM STDIN", options), data)


def agreed(target: CopyTarget, data: bytes) -> None:
    """It declines, or reads what the slow way reads of the lines that it took."""
    stop, batch = at_once(target, data)
    if batch is None:
        assert stop == 0
        return
    batch.validate(full=True)
    try:
        slow = whole(target, Declining(target), [data[:stop]])
    except SqlError as error:
        raise AssertionError(f"taken, but in error: {error} {data!r}") from error
    assert pa.Table.from_batches([batch]).equals(slow), data


GOOD = {"text": b"a\tb\tc\n", "csv": b"a,b,c\n"}


@pytest.mark.parametrize(
    ("options", "bad"),
    [
        ("", b"a\\\tb\tc\td\n"), ("", b"a\tb\\\n\tc\n"), ("", b"a\tb\tc\\\\\n"), ("", b"a\tb\r\tc\n"),
        ("", b"a\tb\tc\r\na\tb\tc\n"), ("", b"a\tb\t\0\n"), ("", b"a\t\\.\tc\n"), ("", b"\\.\n"), ("", b"\n"),
        ("", b"a\tb\n"), ("", b"a\tb\tc\td\n"), ("", b"a\tb\t\xff\n"), ("", b"a\tb\t\\377\n"),
        ("", b"a\tb\t\\0\n"), ("", b"\xef\xbb\xbfa\tb\tc\n"),
        ("(FORMAT csv)", b'a,b"c,d\n"e,f\n'), ("(FORMAT csv)", b'a,"b"x,c\n'),
        ("(FORMAT csv)", b'a,x"b",c\n'), ("(FORMAT csv)", b'a, "b",c\n'),
        ("(FORMAT csv)", b'a,"b" ,c\n'), ("(FORMAT csv)", b'a,b""c,d\n'),
        ("(FORMAT csv)", b'"a\n'), ("(FORMAT csv)", b"\\.\n"), ("(FORMAT csv)", b"\n"),
        ("(FORMAT csv)", b"a,b\n"), ("(FORMAT csv)", b"a,b\r,c\n"), ("(FORMAT csv)", b"a,b,\xff\n"),
        ("(FORMAT csv)", b'a,"b\n\nc",d\n'), ("(FORMAT csv)", b"\xef\xbb\xbfa,b,c\n"),
        ("(FORMAT csv, ESCAPE '\\')", b'a,"b\\"c",d\n'),
        ("(FORMAT csv, ESCAPE '\\')", b'a,"b""c",d\n'), ("(FORMAT csv, ESCAPE '\\')", b'a,"b\\a",d\n'),
        ("(FORMAT csv, FORCE_NULL (a))", b'"",b,c\n'),
        ("(FORMAT csv, FORCE_NOT_NULL (b))", b"a,,c\n"),
    ],
)  # fmt: skip
def test_lines_are_declined(options: str, bad: bytes) -> None:
    target = target_of("tq", STRINGS, "FROM STDIN", options)
    if "FORCE" not in options:  # with which all is declined
        assert at_once(target, GOOD[target.options.format])[1] is not None
    assert at_once(target, bad) == (0, None)


def test_only_whole_lines_are_taken() -> None:
    csv = target_of("tq", STRINGS, "FROM STDIN", "(FORMAT csv)")
    for data, stop in [(b'1,"2",3\n4,"5\n', 8), (b"1,2,3\n4,5", 6), (b'1,2,"3"\n4,5,""', 8)]:
        assert at_once(csv, data)[0] == stop
        assert at_once(csv, b"," + data, 1)[0] == stop + 1
    assert at_once(csv, b'"a\n') == (0, None)
    assert at_once(csv, b"a,b") == (0, None)


@pytest.mark.parametrize(
    ("sql_type", "value"),
    [
        (t.INTEGER, "0x10"), (t.INTEGER, ""), (t.SMALLINT, "40000"), (t.BIGINT, "9223372036854775808"),
        (t.REAL, "1e39"), (t.REAL, "1e-60"), (t.DOUBLE, "NaN"), (t.DOUBLE, "infinity"), (t.DOUBLE, "0.0"),
        (t.NUMERIC, "NaN"), (t.NUMERIC, "1e5"), (t.NUMERIC, "007"), (t.NUMERIC, "-0.0"),
        (NUMERIC_12_3, "1.2345"), (NUMERIC_12_3, "1e3"), (NUMERIC_12_3, "9999999999"),
        (NUMERIC_38_10, "1" * 29), (VARCHAR_4, "abcde"), (VARCHAR_4, "abcd "), (CHAR_5, "abcdef"),
        (t.BYTEA, "abc"), (t.BYTEA, "\\x6 1"), (t.BYTEA, "\\x6"), (t.BOOLEAN, "TRUE"), (t.BOOLEAN, "of"),
        (t.DATE, "0000-01-01"), (t.DATE, "2020-1-1"), (t.DATE, "2020-01-01 BC"), (t.DATE, "infinity"),
        (t.DATE, "2021-02-29"), (t.TIME, "24:00:00"), (t.TIME, "10:20"), (t.TIME, "10:20:60"),
        (t.TIMESTAMP, "0000-01-01 00:00:00"), (t.TIMESTAMP, "2020-01-01"), (t.TIMESTAMP, "infinity"),
        (t.TIMESTAMP, "2020-01-01 24:00:00"), (t.TIMESTAMPTZ, "2020-01-01 00:00:00+16"),
        (t.TIMESTAMPTZ, "2020-01-01 00:00:00Z"), (t.TIMESTAMPTZ, "2020-01-01 00:00:00 UTC"),
        (t.UUID, "{00000000-0000-0000-0000-000000000000}"), (t.UUID, "00000000000000000000000000000000"),
        (t.UUID, "\t\t000000-0000-0000-0000-000000000000"), (t.UUID, "g0000000-0000-0000-0000-000000000000"),
        (t.JSON, "{"), (t.JSON, ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["text", "csv"])
def test_values_are_declined(form: str, sql_type: SqlType, value: str) -> None:
    field = escaped(value) + "\n" if form == "text" else quoted(value, '"') + "\n"
    target = target_of("tq", [("v", sql_type)], "FROM STDIN", f"(FORMAT {form})")
    assert at_once(target, field.encode()) == (0, None)


def test_moments_without_offset_are_declined_outside_utc() -> None:
    columns = (("v", t.TIMESTAMPTZ),)
    data = b"2020-01-01 00:00:00\n"
    assert at_once(CopyTarget("tq", columns), data)[1] is not None
    assert at_once(CopyTarget("tq", columns, style=in_zone("Asia/Kolkata")), data) == (0, None)
    mixed = b"2020-01-01 00:00:00+00\n2020-01-01 00:00:00\n"
    assert at_once(CopyTarget("tq", columns), mixed) == (0, None)


def test_little_data_is_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herdpy_server.copy.textual._LEAST_BYTES", 512)
    target = target_of("tq", STRINGS, "FROM STDIN", "")
    assert at_once(target, GOOD["text"] * 85) == (0, None)
    assert at_once(target, GOOD["text"] * 86)[0] == 516
