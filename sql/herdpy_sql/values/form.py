"""What a type's file declares: the forms of its values outside of row images.

The lowest module of ``values``. A file of a type (``uuids``, ``moments``) makes a :class:`TypeForms`;
``forms`` holds all of them, and the other rooms (casts, the wire, COPY, the driver, DuckDB's text) derive
their tables from there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType
from herdpy_sql.values.styles import Style

Bytes = bytes | memoryview
Reader = Callable[[Any], Any]
"""From a value's text, bytes or Python object to its datum, or the other way."""
ReaderOf = Callable[[SqlType], Reader]
"""The function for a type with its modifiers."""


def quote(text: str) -> str:
    """A DuckDB string literal; ``$`` never appears raw, so that parameters can be found by pattern."""
    if "\0" in text:
        raise SqlError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')
    quoted = "'" + text.replace("'", "''") + "'"
    if "$" in quoted:
        quoted = "('" + "'||chr(36)||'".join(p.replace("'", "''") for p in text.split("$")) + "')"
    return quoted


@dataclass(frozen=True, slots=True)
class DuckForms:
    """What a type is in DuckDB's text. ``{}`` stands for the text of a value.

    Attributes:
        name: DuckDB's name of the type.
        reader: the macro that reads SQL's text as the type's input function does; empty where a cast does
            more.
        text: makes SQL's text of a value.
        constant: makes the text of a datum's constant.
        check: refuses bad text of a literal, which ``reader`` would refuse when the statement runs.
        parameter: makes a value of a parameter, which is a number for DuckDB's client.
        held: what an element of an array parameter is before ``element`` makes a value of it.
        element: makes a value of ``e``, an element of an array parameter.
        called: whether functions of ours take and give SQL's text for it, and not DuckDB's value.
        client: from a datum to the object that DuckDB's client takes for a parameter; None where that is it.
    """

    name: str
    reader: str = ""
    text: str = "CAST({} AS VARCHAR)"
    constant: Callable[[Any], str] | None = None
    check: Reader | None = None
    parameter: str = ""
    held: str = ""
    element: str = ""
    called: bool = False
    client: Reader | None = None


Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any


@dataclass(frozen=True, slots=True)
class ColumnForms:
    """The forms of a column of values, many at once: an Arrow array of the type's Arrow type.

    What is left out goes value by value, by the functions of :class:`TypeForms`; so does what a function
    gives None for, or raises ArrowInvalid (a ValueError) for. Both ways come to the same.

    Attributes:
        write: SQL's text of each value of (array, type, style), as an Arrow array of strings.
        read: of (strings, Arrow type, type, style) the array. It gives None when there is a text that
            Arrow might not read as the type's input function does.
        pack: the binary forms, of numpy's array of what slots of row images hold, none of them NULL.
        unpack: what slots hold, of the binary forms: a row of a matrix of bytes for each. It is left out
            where ``fixed`` says it. SqlError for one that is no value.
        is_packed: whether the bytes of an Arrow value are its binary form.
        python: the class whose objects Arrow takes as values of the type.
        take: the array of (objects of that class, Arrow type). ValueError: look at each of them.
        give: Python's objects, of numpy's array of numbers.
    """

    write: Callable[[Array, SqlType, Style], Array | None] | None = None
    read: Callable[[Array, Any, SqlType, Style], Array | None] | None = None
    pack: Callable[[Any], Any] | None = None
    unpack: Callable[[Any], Any] | None = None
    is_packed: bool = False
    python: type | None = None
    take: Callable[[Sequence[object], Any], Array] | None = None
    give: Callable[[Any], list[Any] | None] | None = None


@dataclass(frozen=True, slots=True)
class TypeForms:
    """The forms of one type's values. None is never passed to a function but those of Python objects.

    Attributes:
        write, read: SQL's text, of a datum and to one. ``read`` raises SqlError as the type's input function
            does.
        give: from a datum (or None) to what a driver's user gets; None where a datum is that object.
        take: from a Python object (or None) to a datum. SqlError 42804 for an object that cannot be one.
        pack, unpack: PostgreSQL's binary form (the type's ``send`` and ``recv`` functions).
        duck: in DuckDB's text.
        columns: of many values at once.
        guessed: the Python types that a parameter of no declared type has this type for.
        fixed: the binary form where that is one number, as it is in an Arrow array.
        text_bytes: bytes of SQL's text of a datum, where there is a shorter way than ``write``.
        lists: whether a Python list may be one value.
        unquoted: whether its texts have only characters that COPY never quotes or escapes: digits, signs, "."
            and ":", blanks, and letters of words such as "Infinity" and of hexadecimal digits.
    """

    write: ReaderOf
    read: ReaderOf
    take: ReaderOf
    pack: ReaderOf
    unpack: ReaderOf
    duck: DuckForms
    columns: ColumnForms = ColumnForms()
    give: Callable[[SqlType], Reader | None] = lambda sql_type: None
    guessed: tuple[type, ...] = ()
    fixed: struct.Struct | None = None
    text_bytes: Callable[[Any], bytes] | None = None
    lists: bool = False
    unquoted: bool = False


def always(function: Reader) -> ReaderOf:
    """For a type without modifiers, or whose modifiers do not matter to the function."""
    return lambda sql_type: function


def mismatch(value: object, name: str) -> SqlError:
    """There is no way from this Python type to that SQL type."""
    return SqlError("42804", f"a Python object of type {type(value).__name__} cannot be used as type {name}")


def lossy(value: object, name: str) -> SqlError:
    """There is one, which would change the value."""
    return SqlError("42804", f"{value!r} cannot be used as type {name} without loss")


def wrong_length(size: int, wanted: int) -> SqlError:
    """The error for ``size`` bytes where a type has ``wanted``."""
    if size < wanted:
        return SqlError("08P01", "insufficient data left in message")
    return SqlError("22P03", "incorrect binary data format")


def fixed_reader(form: struct.Struct, check: Callable[[Any], Any] | None = None) -> Callable[[Bytes], Any]:
    """The reader of values of one size; ``check`` gives the datum or raises, before bytes are too many."""
    size, unpack = form.size, form.unpack

    def read(data: Bytes) -> Any:
        if len(data) == size:
            value = unpack(data)[0]
            return value if check is None else check(value)
        if len(data) > size and check is not None:
            check(form.unpack_from(data)[0])
        raise wrong_length(len(data), size)

    return read
