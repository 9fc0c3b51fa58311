"""Texts and bytes of values, good and bad, for every type: hypothesis strategies."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

from hypothesis import strategies as st

from herdpy_sql import types as t
from herdpy_sql.types import Base, SqlType

NUMERIC_10_2 = SqlType(Base.NUMERIC, precision=10, scale=2)
NUMERIC_38_10 = SqlType(Base.NUMERIC, precision=38, scale=10)
NUMERIC_50_20 = SqlType(Base.NUMERIC, precision=50, scale=20)
VARCHAR_5 = SqlType(Base.VARCHAR, length=5)
CHAR_4 = SqlType(Base.CHAR, length=4)

TYPES = [
    t.BOOLEAN, t.SMALLINT, t.INTEGER, t.BIGINT, t.REAL, t.DOUBLE, t.NUMERIC, NUMERIC_10_2, NUMERIC_38_10,
    NUMERIC_50_20, t.TEXT, t.VARCHAR, VARCHAR_5, CHAR_4, t.BYTEA, t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ,
    t.UUID, t.JSON,
]  # fmt: skip

_CHARS = st.characters(exclude_characters="\0", exclude_categories=("Cs",))
_digits = st.text("0123456789", min_size=1, max_size=25)
_blank = st.sampled_from(["", "", "", " ", "\t", " \n", "  "])
_sign = st.sampled_from(["", "", "-", "+"])


@st.composite
def _padded(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    return draw(_blank) + draw(inner) + draw(_blank)


_edges = [n + d for n in (2**15, 2**31, 2**63, -(2**15), -(2**31), -(2**63)) for d in (-1, 0, 1)]
_integers = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str), st.sampled_from(_edges).map(str), st.integers(-9, 9).map(str)
)
_exponent = st.one_of(st.just(""), st.integers(-400, 400).map(lambda e: f"e{e}"), st.just("E+2"))


@st.composite
def _decimals(draw: st.DrawFn) -> str:
    whole = draw(st.one_of(_digits, st.just("0"), st.just("")))
    fraction = draw(st.one_of(st.just(""), _digits.map(lambda d: "." + d), st.just(".")))
    return draw(_sign) + whole + fraction + draw(_exponent)


_floats = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.floats(width=32, allow_nan=False).map(repr),
    _decimals(),
    st.sampled_from(["NaN", "infinity", "-Infinity", "inf", "+inf", "1e308", "1e309", "5e-324", "1e-400",
                     "1.17549435e-38", "1e-45", "1e-46", "3.4028235e38", "3.4028236e38", "-0", "0.0"]),
)  # fmt: skip


@st.composite
def _dates(draw: st.DrawFn) -> str:
    year = draw(st.one_of(st.integers(1, 9999), st.sampled_from([0, 1, 1582, 1900, 2000, 4713, 4714, 9999,
                          10000, 294276, 294277, 5874897, 5874898])))  # fmt: skip
    month, day = draw(st.integers(0, 13)), draw(st.integers(0, 32))
    good = draw(st.integers(0, 3))
    if good:
        month, day = min(max(month, 1), 12), min(max(day, 1), 28)
    return f"{year:04d}-{month:02d}-{day:02d}"


@st.composite
def _times(draw: st.DrawFn) -> str:
    hour, minute, second = draw(st.integers(0, 24)), draw(st.integers(0, 60)), draw(st.integers(0, 60))
    good = draw(st.integers(0, 4))
    if good:
        hour, minute, second = min(hour, 23), min(minute, 59), min(second, 59)
    text = f"{hour:02d}:{minute:02d}"
    if draw(st.booleans()):
        text += f":{second:02d}"
        if draw(st.booleans()):
            text += "." + draw(st.text("0123456789", min_size=1, max_size=6))
    return text


_era = st.sampled_from(["", "", "", " BC", " bc", " AD"])
_zone = st.sampled_from(
    ["", "", "+00", "-00", "+05", "-0330", "+05:30", " +05:30", "Z", " UTC", "+15:59", "-15:59:59", "+16"]
)
_special = st.sampled_from(["infinity", "-infinity", "Infinity", "epoch"])


@st.composite
def _moments(draw: st.DrawFn) -> str:
    between = draw(st.sampled_from([" ", " ", "T"]))
    era = draw(_era)
    return draw(_dates()) + between + draw(_times()) + draw(_zone) + era


@st.composite
def _uuids(draw: st.DrawFn) -> str:
    text = str(draw(st.uuids()))
    form = draw(st.integers(0, 5))
    if form == 1:
        return "{" + text + "}"
    if form == 2:
        return text.replace("-", "").upper()
    if form == 3:
        digits = text.replace("-", "")
        return "-".join(digits[at : at + 4] for at in range(0, 32, 4))
    if form == 4:
        return text[: draw(st.integers(0, 36))]
    return text


_json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
              st.text(_CHARS, max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(_CHARS, max_size=3), inner,
                                                                         max_size=3)),
    max_leaves=6,
)  # fmt: skip
_bytea = st.one_of(
    st.binary(max_size=12).map(lambda data: "\\x" + data.hex()),
    st.binary(max_size=6).map(lambda data: "\\x" + data.hex(" ")),
    st.text("\\x0123789af ", max_size=10),
    st.binary(max_size=6).map(lambda data: "".join(f"\\{byte:03o}" for byte in data)),
    st.text(_CHARS, max_size=8),
)
_text = st.text(_CHARS, max_size=8)

_GOOD: dict[Base, st.SearchStrategy[str]] = {
    Base.BOOLEAN: st.sampled_from(["t", "f", "true", "FALSE", "yes", "n", "on", "of", "o", "1", "0", "2", "",
                                   "tr", "truee", " t "]),
    Base.SMALLINT: _padded(st.one_of(_integers, st.integers(-(2**15), 2**15 - 1).map(str), _decimals())),
    Base.INTEGER: _padded(st.one_of(_integers, st.integers(-(2**31), 2**31 - 1).map(str), _decimals())),
    Base.BIGINT: _padded(st.one_of(_integers, _decimals())),
    Base.REAL: _padded(_floats),
    Base.DOUBLE: _padded(_floats),
    Base.NUMERIC: _padded(st.one_of(_decimals(), _integers)),
    Base.TEXT: _text,
    Base.VARCHAR: st.one_of(_text, st.text("ab é ", max_size=8)),
    Base.CHAR: st.one_of(_text, st.text("ab é ", max_size=8)),
    Base.BYTEA: _bytea,
    Base.DATE: st.one_of(_padded(st.builds(lambda d, e: d + e, _dates(), _era)), _special, _moments()),
    Base.TIME: st.one_of(_padded(_times()), _times()),
    Base.TIMESTAMP: st.one_of(_moments(), _dates(), _special),
    Base.TIMESTAMPTZ: st.one_of(_moments(), _dates(), _special),
    Base.UUID: _uuids(),
    Base.JSON: _json_values.map(lambda v: json.dumps(v, ensure_ascii=False)),
}  # fmt: skip


@st.composite
def texts(draw: st.DrawFn, sql_type: SqlType) -> bytes:
    """The text of a value of ``sql_type``, mostly a good one."""
    text = draw(_GOOD[sql_type.base])
    if draw(st.integers(0, 9)) == 0 and sql_type.base not in {
        Base.DATE,
        Base.TIME,
        Base.TIMESTAMP,
        Base.TIMESTAMPTZ,
    }:
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(["z", " ", "-", "_", "é", "1", "\\", '"', "{"])) + text[at:]
    data = text.encode()
    if draw(st.integers(0, 29)) == 0:
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f"])) + data[at:]
    return data


def _packed(form: str, low: int, high: int, *edges: int) -> st.SearchStrategy[bytes]:
    numbers = st.one_of(st.integers(low, high), st.sampled_from([low, high, low + 1, high - 1, *edges]))
    return numbers.map(lambda n: struct.pack(form, n))


_US_DAY = 86_400_000_000
_DATES = (-2451507 - 730, 2147483494 - 10_957, -2451545, -2451546, 2145031948, 2145031949, -10957)
_STAMPS = (-211813488000000000, -211813488000000001, 9223371331200000000, 9223371331199999999,
           -946684800000000)  # fmt: skip


@st.composite
def _numerics(draw: st.DrawFn) -> bytes:
    groups = draw(
        st.lists(st.one_of(st.integers(0, 9999), st.sampled_from([0, 1, 9999, 10, 1000])), max_size=6)
    )
    weight = draw(st.integers(-5, 8))
    sign = draw(st.sampled_from([0, 0, 0, 0x4000, 0x4000, 0xC000, 0x1234]))
    scale = draw(st.one_of(st.integers(0, 30), st.sampled_from([16383, 16384])))
    if draw(st.integers(0, 19)) == 0:
        groups.append(draw(st.integers(10000, 65535)))
    return struct.pack(f"!HhHH{len(groups)}H", len(groups), weight, sign, scale, *groups)


_BINARY: dict[Base, Callable[[], st.SearchStrategy[bytes]]] = {
    Base.BOOLEAN: lambda: st.binary(min_size=1, max_size=1),
    Base.SMALLINT: lambda: st.binary(min_size=2, max_size=2),
    Base.INTEGER: lambda: st.binary(min_size=4, max_size=4),
    Base.BIGINT: lambda: st.binary(min_size=8, max_size=8),
    Base.REAL: lambda: st.one_of(
        st.floats(width=32, allow_nan=False).map(lambda v: struct.pack("!f", v)),
        st.just(b"\x7f\xc0\0\0"),
    ),
    Base.DOUBLE: lambda: st.one_of(
        st.floats(allow_nan=False).map(lambda v: struct.pack("!d", v)), st.just(b"\x7f\xf8\0\0\0\0\0\0")
    ),
    Base.NUMERIC: _numerics,
    Base.TEXT: lambda: _text.map(str.encode),
    Base.VARCHAR: lambda: _text.map(str.encode),
    Base.CHAR: lambda: _text.map(str.encode),
    Base.BYTEA: lambda: st.binary(max_size=20),
    Base.DATE: lambda: _packed("!i", -(2**31), 2**31 - 1, *_DATES),
    Base.TIME: lambda: _packed("!q", -1, _US_DAY + 1, 0, _US_DAY),
    Base.TIMESTAMP: lambda: _packed("!q", -(2**63), 2**63 - 1, *_STAMPS),
    Base.TIMESTAMPTZ: lambda: _packed("!q", -(2**63), 2**63 - 1, *_STAMPS),
    Base.UUID: lambda: st.binary(min_size=16, max_size=16),
    Base.JSON: lambda: _json_values.map(lambda v: json.dumps(v, ensure_ascii=False).encode()),
}


@st.composite
def binaries(draw: st.DrawFn, sql_type: SqlType) -> bytes:
    """The binary form of a value of ``sql_type``, mostly a good one."""
    data = draw(_BINARY[sql_type.base]())
    spoil = draw(st.integers(0, 19))
    if spoil == 0:
        return data[: draw(st.integers(0, len(data)))]
    if spoil == 1:
        return data + draw(st.binary(min_size=1, max_size=3))
    return data
