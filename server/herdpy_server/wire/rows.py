"""Whole rows as DataRow messages: a function is written for each list of types and formats.

The hottest place of the wire. The function that is generated has the columns as local variables and each
type's short way in line, so that a column costs about as much as making its bytes. Format: PostgreSQL 15
manual, 55.7 "Message Formats", DataRow: 'D', length, number of columns, and of each its length (-1: NULL)
and bytes.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any

from herdpy.codec.kinds import Datum
from herdpy_server.wire.formats import encoder
from herdpy_sql.types import FACTS, Base, SqlType
from herdpy_sql.values.forms import FORMS
from herdpy_sql.values.styles import PLAIN, Style

Row = Sequence[Datum]

_INTEGERS = frozenset({Base.SMALLINT, Base.INTEGER, Base.BIGINT})
_STRINGS = frozenset({Base.TEXT, Base.VARCHAR, Base.UNKNOWN, Base.JSON})
_SMALL = 512
_LENGTHS = tuple(struct.pack("!i", length) for length in range(_SMALL))
_PACK = struct.Struct("!i").pack
_NULL = _PACK(-1)
_FIXED = {
    base: struct.Struct(f"!i{forms.fixed.format[1:]}")
    for base, forms in FORMS.items()
    if forms.fixed is not None
}
"""Length and value at once, of values that are one number."""


def rows_encoder(
    types: Sequence[SqlType], formats: Sequence[bool], style: Style = PLAIN
) -> Callable[[Iterable[Row]], bytes]:
    """The function from rows to their DataRow messages, one after another.

    Args:
        types: of the columns, in order.
        formats: for each column whether it is sent in binary.
        style: how the session reads and writes texts, which TIMESTAMPTZ is written in.
    """
    many: Callable[[Iterable[Row]], bytes] = _function(tuple(types), tuple(formats), style)
    return many


def answer_encoder(
    types: Sequence[SqlType],
    formats: Sequence[bool],
    style: Style,
    decode: Callable[[bytes], Row],
    around: tuple[bytes, bytes],
) -> Callable[[bytes], bytes]:
    """The function from one row's image to a whole answer: the DataRow message between those ``around`` it.

    Args:
        types, formats, style: as in :func:`rows_encoder`.
        decode: makes the row of the image.
    """
    names, lines = _parts(tuple(types), tuple(formats), style)
    columns = range(len(types))
    parts = ", ".join(["BEFORE", "size", "HEAD", *(f"p{i}" for i in columns), "AFTER"])
    size = " + ".join(["6", *(f"len(p{i})" for i in columns)])
    source = [
        "def answer(image):",
        f"    {_targets(types)} = decode(image)",
        *(f"    {line}" for line in lines),
        f"    n = {size}",
        f"    size = L[n] if n < {_SMALL} else PACK(n)",
        f"    return join(({parts}))",
    ]
    names |= {"decode": decode, "BEFORE": around[0] + b"D", "AFTER": around[1]}
    exec(_code("\n".join(source)), names)  # only names and numbers from above are in it
    answer: Callable[[bytes], bytes] = names["answer"]
    return answer


@functools.lru_cache(maxsize=512)
def _code(source: str) -> CodeType:
    return compile(source, "<rows>", "exec")


def _targets(types: Sequence[SqlType]) -> str:
    """What a row is unpacked to."""
    return f"({''.join(f'c{i}, ' for i in range(len(types)))})" if types else "_"


def _parts(
    types: tuple[SqlType, ...], formats: tuple[bool, ...], style: Style
) -> tuple[dict[str, Any], list[str]]:
    """The names that generated functions use, and the lines that make ``p0``, ``p1`` ... of a row."""
    names: dict[str, Any] = {
        "L": _LENGTHS,
        "PACK": _PACK,
        "NULL": _NULL,
        "HEAD": struct.pack("!h", len(types)),
        "join": b"".join,
    }
    lines: list[str] = []
    for i, (sql_type, binary) in enumerate(zip(types, formats, strict=True)):
        lines += _column(i, sql_type, binary, style, names)
    return names, lines


@functools.lru_cache(maxsize=512)
def _function(types: tuple[SqlType, ...], formats: tuple[bool, ...], style: Style) -> Any:
    names, lines = _parts(types, formats, style)
    parts = ", ".join(["HEAD", *(f"p{i}" for i in range(len(types)))])
    source = [
        "def many(rows):",
        "    out = []",
        "    append = out.append",
        f"    for {_targets(types)} in rows:",
        *(f"        {line}" for line in lines),
        f"        body = join(({parts},))",
        "        append(b'D' + PACK(len(body) + 4))",
        "        append(body)",
        "    return join(out)",
    ]
    exec(_code("\n".join(source)), names)  # only names and numbers from above are in it
    return names["many"]


def _column(i: int, sql_type: SqlType, binary: bool, style: Style, names: dict[str, Any]) -> list[str]:
    """The lines that make ``p{i}``, a column's length and bytes, of its datum ``c{i}``."""
    made = _fast(i, sql_type, binary, names)
    if made is None:
        names[f"encode{i}"] = encoder(sql_type, binary, style)
        made = [f"t = encode{i}(c{i})", *_sized(i)]
    if len(made) == 1:
        value = made[0].removeprefix(f"p{i} = ")
        return [f"p{i} = NULL if c{i} is None else {value}"]
    return [f"if c{i} is None: p{i} = NULL", "else:", *(f"    {line}" for line in made)]


def _sized(i: int) -> list[str]:
    return ["n = len(t)", f"p{i} = (L[n] if n < {_SMALL} else PACK(n)) + t"]


def _fast(i: int, sql_type: SqlType, binary: bool, names: dict[str, Any]) -> list[str] | None:
    base = sql_type.base
    if base in _STRINGS:
        return [f"t = c{i}.encode()", *_sized(i)]
    if not binary:
        if base is Base.JSONB:
            return [f"t = c{i}.encode()", *_sized(i)]
        if base in _INTEGERS:
            return [f"t = b'%d' % c{i}", f"p{i} = L[len(t)] + t"]
        if base is Base.BOOLEAN:
            return [f"p{i} = (b'\\0\\0\\0\\1t' if c{i} else b'\\0\\0\\0\\1f')"]
        if base is Base.NUMERIC and sql_type.precision is not None and (sql_type.scale or 0) <= 6:
            # Decimal writes an exponent only below the sixth digit after the point.
            return [f"t = str(c{i}).encode()", f"p{i} = L[len(t)] + t"]
        return None
    form = _FIXED.get(base)
    if form is not None:
        names[f"pack{i}"] = form.pack
        return [f"p{i} = pack{i}({form.size - 4}, c{i})"]
    if base is Base.BOOLEAN:
        return [f"p{i} = (b'\\0\\0\\0\\1\\1' if c{i} else b'\\0\\0\\0\\1\\0')"]
    size = 0 if base is Base.ARRAY else FACTS[base].size
    if size:
        names[f"encode{i}"] = FORMS[base].pack(sql_type)
        return [f"p{i} = L[{size}] + encode{i}(c{i})"]
    return None
