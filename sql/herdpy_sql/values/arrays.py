"""Arrays as values: PostgreSQL's text form to and from elements.

A datum of an array is a tuple of datums, NULLs among them, or a Grid (``herdpy.codec.kinds``). Indexes begin
at 1 here. Format: PostgreSQL 15 manual, 8.15.6 "Array Input and Output Syntax".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from herdpy.codec.kinds import MAX_DIMENSIONS, mapped, shaped, sizes_of
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType

_ELEMENT = r'(?:"[^"\\]*+"|[^{}",\\\s]++)'
_FLAT = re.compile(rf"\{{{_ELEMENT}(?:,{_ELEMENT})*+\}}")
"""The common text of an array of one dimension: no escapes, no spaces but in quotes."""
_PARTS = re.compile(r'"([^"\\]*)"|([^{}",\\\s]+)')
RAGGED = "multidimensional arrays must have array expressions with matching dimensions"
_SPACE = " \t\n\r\v\f"
_PLAIN = re.compile(r'[^{}",\\\s]+\Z')
_BOUNDS = re.compile(r"\s*((?:\[\s*[+-]?\d+\s*(?::\s*[+-]?\d+\s*)?\]\s*)+)=", re.ASCII)
_BOUND = re.compile(r"\[\s*([+-]?\d+)\s*(?::\s*([+-]?\d+)\s*)?\]", re.ASCII)


def split_array(text: str) -> tuple[str | None, ...]:
    """The texts of an array's elements, None for NULL, in the array's shape.

    SqlError 22P02 for what is no array, 54000 for too many dimensions, 0A000 for indexes that do not begin
    at 1, 2202E for bounds that cannot be.
    """
    if _FLAT.fullmatch(text) is not None:
        return tuple([_flat_element(*one) for one in _PARTS.findall(text)])
    wanted, body = None, text.strip(_SPACE)
    bounds = _BOUNDS.match(text)
    if bounds:
        wanted, body = _declared_sizes(bounds[1]), text[bounds.end() :].strip(_SPACE)
    elif body[:1] == "[":
        raise _malformed(text, "Missing array dimension value.")
    if body[:1] != "{":
        detail = 'Array value must start with "{" or dimension information.'
        raise _malformed(text, 'Array contents must start with "{".' if bounds else detail)
    found: list[str | None] = []
    sizes, at = _level(text, body, 1, found, 1)
    if at != len(body):
        raise _malformed(text, "Junk after closing right brace.")
    if wanted is not None and wanted != sizes:
        raise _malformed(text, "Specified array dimensions do not match array contents.")
    return shaped(found, sizes)


def _flat_element(quoted: str, plain: str) -> str | None:
    return quoted if not plain else None if plain.upper() == "NULL" else plain


def _declared_sizes(bounds: str) -> tuple[int, ...]:
    """The sizes in ``[1:2][1:3]``."""
    sizes = []
    for low, high in _BOUND.findall(bounds):
        first, last = (int(low), int(high)) if high else (1, int(low))
        if last < first:
            raise SqlError("2202E", "upper bound cannot be less than lower bound")
        if first != 1:
            raise SqlError("0A000", "arrays whose indexes do not begin at 1 are not supported")
        sizes.append(last)
    check_dimensions(len(sizes))
    return tuple(sizes)


def check_dimensions(count: int) -> None:
    """SqlError 54000 for more dimensions than an array can have."""
    if count > MAX_DIMENSIONS:
        raise SqlError(
            "54000", f"number of array dimensions ({count}) exceeds the maximum allowed ({MAX_DIMENSIONS})"
        )


def _level(text: str, body: str, at: int, found: list[str | None], depth: int) -> tuple[tuple[int, ...], int]:
    """What follows a brace that opens: its sizes (() without elements), and what is behind its end."""
    check_dimensions(depth)
    at = _after_space(body, at)
    if body[at : at + 1] == "}":
        if depth > 1:
            raise _malformed(text, 'Unexpected "}" character.')
        return (), at + 1
    count, nested = 0, False
    inner: tuple[int, ...] = ()
    while True:
        at = _after_space(body, at)
        deeper = body[at : at + 1] == "{"
        if count and deeper != nested:
            raise _malformed(text, 'Unexpected "{" character.' if deeper else "Unexpected array element.")
        nested = deeper
        if deeper:
            sizes, at = _level(text, body, at + 1, found, depth + 1)
            if count and sizes != inner:
                raise _malformed(
                    text, "Multidimensional arrays must have sub-arrays with matching dimensions."
                )
            inner = sizes
            at = _after_space(body, at)
        else:
            value, at = _element(text, body, at)
            found.append(value)
        count += 1
        if at >= len(body):
            raise _malformed(text, "Unexpected end of input.")
        end = body[at]
        at += 1
        if end == "}":
            return (count, *inner), at
        if end != ",":
            raise _malformed(text, "Unexpected array element.")


def _after_space(body: str, at: int) -> int:
    while at < len(body) and body[at] in _SPACE:
        at += 1
    return at


def _element(text: str, body: str, at: int) -> tuple[str | None, int]:
    """One element from ``at`` on, and where its comma or brace is."""
    quoted = body[at : at + 1] == '"'
    parts: list[str] = []
    if quoted:
        at += 1
        while body[at : at + 1] != '"':
            if body[at : at + 1] == "\\":
                at += 1
            if at >= len(body):
                raise _malformed(text, "Unexpected end of input.")
            parts.append(body[at])
            at += 1
        at = _after_space(body, at + 1)
        if at < len(body) and body[at] not in ",}":
            raise _malformed(text, "Unexpected array element.")
        return "".join(parts), at
    escaped = False
    while at < len(body) and body[at] not in ",}":
        if body[at] in '{"':
            raise _malformed(text, f'Unexpected "{body[at]}" character.')
        if body[at] == "\\":
            escaped = True
            at += 1
            if at >= len(body):
                break
        parts.append(body[at])
        at += 1
    value = "".join(parts) if escaped else "".join(parts).rstrip(_SPACE)
    if not value:
        raise _malformed(text, f'Unexpected "{body[at : at + 1]}" character.')
    return (None if value.upper() == "NULL" and not escaped else value), at


def _malformed(text: str, detail: str) -> SqlError:
    return SqlError("22P02", f'malformed array literal: "{text}"', detail=detail)


def wrong_shape(column: str, declared: SqlType, dimensions: int, table: str) -> SqlError:
    """What refuses an array whose dimensions are not those that its column was declared with."""
    plural = "s" if declared.dimensions > 1 else ""
    return SqlError(
        "0A000",
        f'column "{column}" takes arrays of {declared.dimensions} dimension{plural}, not {dimensions}',
        hint=f"Declare it as {declared.element_type}{'[]' * dimensions}.",
        table=table,
        column=column,
    )


def join_array(texts: tuple[str | None, ...]) -> str:
    """The text of an array, of the texts of its elements in its shape."""
    shown = ["NULL" if one is None else _shown(one) for one in texts]
    for size in sizes_of(texts)[:0:-1]:
        shown = [f"{{{','.join(shown[at : at + size])}}}" for at in range(0, len(shown), size)]
    return f"{{{','.join(shown)}}}"


def _shown(text: str) -> str:
    if _PLAIN.match(text) and text.upper() != "NULL":
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def parse_array(text: str, parse: Callable[[str], Any]) -> tuple[Any, ...]:
    """The datum of an array's text; ``parse`` reads an element. SqlError of ``split_array`` and ``parse``."""
    return mapped(split_array(text), parse)
