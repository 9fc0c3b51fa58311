"""Fields of COPY data that the quick readers surely take: hypothesis strategies, and files made of them."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import struct
from decimal import Decimal

from hypothesis import strategies as st

from herdpy_sql import types as t
from herdpy_sql.types import Base, SqlType

NUMERIC_12_3 = SqlType(Base.NUMERIC, precision=12, scale=3)
NUMERIC_38_10 = SqlType(Base.NUMERIC, precision=38, scale=10)
VARCHAR_4 = SqlType(Base.VARCHAR, length=4)
CHAR_5 = SqlType(Base.CHAR, length=5)

_times = st.times().map(lambda time: time.isoformat())
_moments = st.datetimes().map(lambda moment: moment.isoformat(" "))
_offsets = st.sampled_from(["+00", "-08", "+05:30", "-15:59", "+15"])
_text = st.text("ab é日\n\t\"'", max_size=8).filter(lambda text: "\n\n" not in text)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('abé"\n', max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2),
    max_leaves=4,
)
_doubles = st.floats(allow_nan=False, allow_infinity=False).filter(bool)
_reals = st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool)


def _decimals(digits: int, places: int) -> st.SearchStrategy[str]:
    bound = 10**digits - 1
    return st.integers(-bound, bound).map(lambda number: f"{Decimal(f'{number}e-{places}'):f}")


PLAIN: list[tuple[SqlType, st.SearchStrategy[str]]] = [
    (t.BOOLEAN, st.sampled_from(["t", "f", "true", "false", "yes", "no", "on", "off", "1", "0", "y", "n"])),
    (t.SMALLINT, st.integers(-(2**15), 2**15 - 1).map(str)),
    (t.INTEGER, st.integers(-(2**31), 2**31 - 1).map(str)),
    (t.BIGINT, st.integers(-(2**63), 2**63 - 1).map(str)),
    (t.REAL, _reals.map(lambda value: repr(struct.unpack("f", struct.pack("f", value))[0]))),
    (t.DOUBLE, _doubles.map(repr)),
    (t.NUMERIC, _decimals(30, 4).filter(lambda text: Decimal(text) != 0)),
    (NUMERIC_12_3, _decimals(12, 3)),
    (NUMERIC_38_10, _decimals(38, 10)),
    (t.TEXT, _text),
    (VARCHAR_4, st.text("ab é日", max_size=4)),
    (CHAR_5, st.text("ab é日", max_size=5)),
    (t.BYTEA, st.binary(max_size=8).map(lambda data: "\\x" + data.hex())),
    (t.DATE, st.dates().map(dt.date.isoformat)),
    (t.TIME, _times),
    (t.TIMESTAMP, _moments),
    (t.TIMESTAMPTZ, st.builds(str.__add__, _moments, _offsets)),
    (t.UUID, st.uuids().map(str)),
    (t.JSON, _json.map(lambda value: json.dumps(value, ensure_ascii=False))),
]
"""Each type, and texts of it that may not be declined."""

_ESCAPES = [
    "a", "b", "é", "日", " ", '"', "'", "!", "\\\\", "\\b", "\\f", "\\n", "\\r", "\\t", "\\v", "\\N", "\\q",
    "\\101", "\\7", "\\60", "\\x41", "\\x9z", "\\xg", "\\303\\251", "\\xe6\\x97\\xa5",
]  # fmt: skip


def escaped(text: str) -> str:
    """A value as a field of the text format."""
    for char, name in (("\\", "\\"), ("\t", "t"), ("\n", "n"), ("\r", "r")):
        text = text.replace(char, "\\" + name)
    return text


def quoted(text: str, quote: str, escape: str = "") -> str:
    """A value as a quoted field of CSV."""
    return quote + text.replace(quote, (escape or quote) + quote) + quote


def text_fields(null: str) -> st.SearchStrategy[str]:
    """Fields of the text format with every kind of escape; none ends in a backslash."""
    pieces = st.lists(st.sampled_from(_ESCAPES), max_size=5).map("".join)
    return st.just(null) | pieces.map(lambda field: field + "z" if field.endswith("\\") else field)


def csv_fields(delimiter: str, quote: str, null: str, odd_escape: str) -> st.SearchStrategy[str]:
    """Fields of CSV: plain, NULL, and quoted with all that needs quotes."""
    plain = st.text(sorted(set("ab é,;|'\"!\\") - {delimiter, quote, odd_escape}), max_size=4)
    hidden = st.text(sorted(set("ab é,;|'\"!\\\n") - {odd_escape} | {quote, delimiter}), max_size=6)
    # Two newlines in a row may be an empty line, and are declined.
    framed = hidden.filter(lambda text: "\n\n" not in text).map(lambda text: quoted(text, quote))
    if odd_escape:  # then two quotes in a row are no quote
        return st.just(null) | plain | framed.filter(lambda text: quote * 2 not in text)
    return st.sampled_from([null, "", quote * 2, quoted(null, quote)]) | plain | framed


def lines(
    fields: st.SearchStrategy[str], width: int, delimiter: str, least: int = 2
) -> st.SearchStrategy[bytes]:
    """Whole lines of ``width`` fields, which all end in LF or all in CRLF."""
    rows = st.lists(st.lists(fields, min_size=width, max_size=width), min_size=least, max_size=6)
    body = rows.map(lambda made: "".join(delimiter.join(row) + "\n" for row in made))
    return st.builds(
        lambda text, end: text.replace("\n", end).encode(), body, st.sampled_from(["\n", "\r\n"])
    )


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """``data`` in pieces cut at these places."""
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[low:high] for low, high in itertools.pairwise(edges)]
