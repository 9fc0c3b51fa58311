"""The library's functions in DuckDB: each resolved call becomes a function of DuckDB's over Arrow arrays.

A query names the functions that it calls (``ColumnarQuery.routines``); a database is given them when it
first runs one. Arguments and results have the forms of ``DUCK``: NUMERIC is text, an array a list of its
elements.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy.codec.arrow import RaggedError, array_to_datums, arrow_type, datums_to_array
from herdpy.codec.kinds import Field, Kind, mapped
from herdpy_sql.clock import Clock
from herdpy_sql.columnar.contexts import context_of
from herdpy_sql.duck import Typed, duck_type, numeric_text, over_elements, retyped
from herdpy_sql.errors import SqlError
from herdpy_sql.library import Resolved, routine_of
from herdpy_sql.types import UNKNOWN, Base, SqlType, array_of, with_dimensions
from herdpy_sql.values import from_text, to_text
from herdpy_sql.values.forms import FORMS
from herdpy_sql.values.reg_types import REG_TYPES
from herdpy_sql.values.styles import Style

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdpy_sql.columnar.emission import Emission


def full_type(x: Typed) -> SqlType:
    """The type of an expression, with arrays as types of their own; UNKNOWN where its place decides."""
    if x.unknown or x.null:
        return UNKNOWN
    return array_of(x.type, x.array) if x.array else x.type


def used(emission: Emission, found: Resolved) -> str:
    """DuckDB's name of the function, noted among those that the query needs."""
    name = function_name(found)
    if name not in map(function_name, emission.routines):  # types may differ in how they are shown alone
        emission.routines.append(found)
    return name


def function_name(found: Resolved) -> str:
    """The same for the same call in every process."""
    text = repr((found.name, found.place, found.args, found.result))
    return f"pg_lib_{hashlib.sha256(text.encode()).hexdigest()[:20]}"


def as_array(sql: str, type_: SqlType) -> Typed:
    """DuckDB's list as an array of that type."""
    return Typed(sql, type_.element_type, array=type_.dimensions)


def of_type(x: Typed, sql: str, type_: SqlType) -> Typed:
    """What a function of the library gives: ``x`` with that text, of that type."""
    if _is_text_for_calls(type_):
        sql = f"CAST({sql} AS {duck_name(type_)})"
    if type_.base is Base.ARRAY:
        return replace(retyped(x, sql, type_.element_type), array=type_.dimensions)
    return retyped(x, sql, type_)


def _is_text_for_calls(type_: SqlType) -> bool:
    """Whether functions take and give the texts of the values, or of the elements, of this type."""
    return FORMS[type_.element or type_.base].duck.called


def as_texts(x: Typed) -> str:
    """An array of NUMERIC as a list of texts."""
    if x.dec is None:
        return x.sql
    one = numeric_text(Typed("e", x.type, x.dec))
    return over_elements(x.sql, x.array, one)


def argument_text(x: Typed) -> str:
    """In the form that functions take it in."""
    if x.array:
        if x.base is Base.NUMERIC:
            return as_texts(x)
        return f"CAST({x.sql} AS VARCHAR{'[]' * x.array})" if _is_text_for_calls(x.type) else x.sql
    if x.base is Base.NUMERIC:
        return numeric_text(x)
    return FORMS[x.base].duck.text.format(x.sql) if _is_text_for_calls(x.type) else x.sql


def duck_name(type_: SqlType, *, function: bool = False) -> str:
    """DuckDB's name of a type; ``function``: as functions take and give it, which may be text."""
    if type_.base is Base.ARRAY:
        return duck_name(type_.element_type, function=function) + "[]" * type_.dimensions
    if function and _is_text_for_calls(type_):
        return "VARCHAR"
    return duck_type(type_)


def define(connection: Any, found: Resolved, style: Style) -> None:
    """Make DuckDB's function of a call; once for each database."""
    result = SqlType(Base.ARRAY, element=Base.TEXT) if found.routine.columns else found.result
    name = duck_name(result, function=True) + ("[]" if found.routine.setof else "")
    connection.create_function(
        function_name(found),
        _over_arrays(found, Clock(0, 0, style), result),
        ["BIGINT"] * found.routine.context + [duck_name(one, function=True) for one in found.args],
        name,
        type="arrow",
        null_handling="special",
        side_effects=False,
    )


def _over_arrays(found: Resolved, clock: Clock, result: SqlType) -> Callable[..., Any]:
    function, strict = routine_of(found), found.routine.strict
    head = (clock,) if found.routine.clocked else ()
    field = plain_field(result)
    if found.routine.setof:
        field = Field(Kind.ARRAY, element=field)
    rows_of = _rows(found)
    shown = _shown(found, result)
    listed = found.name == "array_gathered"

    def apply(*columns: Any) -> Any:
        rows = len(columns[0]) if columns else 1
        first: tuple[Any, ...] = head
        if found.routine.context:
            first = (context_of(columns[0][0].as_py() if rows else None),)
        given = columns[found.routine.context :]
        datums = [
            datums_of(column, one, listed=listed) for column, one in zip(given, found.args, strict=True)
        ]
        values: list[Any] = []
        for row in zip(*datums, strict=True) if datums else [()] * rows:
            if (strict and None in row) or (found.routine.context and None in first):
                values.append(None)
                continue
            try:
                values.append(rows_of(function(*first, *row)))
            except SqlError as error:
                detail = f" DETAIL {error.detail}" if error.detail else ""
                raise ValueError(f"SQLSTATE {error.sqlstate}: {error.message}{detail}") from None
        try:
            return datums_to_array(field, shown(values))
        except RaggedError:
            raise ValueError(
                f"SQLSTATE 0A000: {found.name} of arrays of other dimensions than declared is not supported"
            ) from None

    return _with_arity(apply, len(found.args) + found.routine.context)


def _rows(found: Resolved) -> Callable[[Any], Any]:
    """What makes a list of rows of what a set-returning function gives: rows of several columns are text.

    An object's name (regclass) stays its datum, which is a text.
    """
    if not found.routine.setof:
        return lambda value: value
    if not found.routine.columns:
        return lambda value: None if value is None else tuple(value)
    writers = [str if type_.base in REG_TYPES else to_text(type_) for _, type_ in found.routine.columns]

    def rows(value: Any) -> Any:
        if value is None:
            return None
        return tuple(
            [
                tuple([None if d is None else write(d) for write, d in zip(writers, row, strict=True)])
                for row in value
            ]
        )

    return rows


def plain_field(type_: SqlType) -> Field:
    """The codec's field of a value in a function's form."""
    if type_.base is Base.ARRAY:
        shape = type_.dimensions if type_.dimensions > 1 else 0
        return Field(Kind.ARRAY, shape, element=plain_field(type_.element_type))
    if _is_text_for_calls(type_):
        return Field(Kind.TEXT)
    return Field(Kind.DECIMAL) if type_.base is Base.NUMERIC else SqlType(type_.base, enum=type_.enum).field


def datums_of(column: Any, type_: SqlType, *, listed: bool = False) -> list[Any]:
    """The datums of an argument's Arrow array; ``listed``: each is a tuple of arrays, which may differ."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    field = plain_field(type_)
    wanted = arrow_type(field)
    if listed:
        field = Field(Kind.ARRAY, element=plain_field(with_dimensions(type_, type_.dimensions - 1)))
    if column.type != wanted:
        column = column.cast(wanted)
    datums: list[Any] = array_to_datums(field, column)
    if not _is_text_for_calls(type_):
        return datums
    read = from_text(type_.element_type if type_.base is Base.ARRAY else type_)
    if listed:
        return [mapped(one, lambda array: mapped(array, read)) for one in datums]
    return _converted(datums, type_, read)


def _shown(found: Resolved, result: SqlType) -> Callable[[list[Any]], list[Any]]:
    """What makes of a function's results those that DuckDB takes."""
    if not _is_text_for_calls(result):
        return lambda values: values
    write = to_text(result.element_type if result.base is Base.ARRAY else result)
    if found.routine.setof:
        return lambda values: [
            None if one is None else tuple(_converted(list(one), result, write)) for one in values
        ]
    return lambda values: _converted(values, result, write)


def _converted(values: list[Any], type_: SqlType, convert: Callable[[Any], Any]) -> list[Any]:
    """Values of a type, or the elements of its arrays, in another form; NULLs stay."""
    if type_.base is Base.ARRAY:
        return [None if one is None else mapped(one, convert) for one in values]
    return [None if one is None else convert(one) for one in values]


def _with_arity(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """DuckDB counts the parameters of the function that it is given."""
    names = ", ".join(f"a{i}" for i in range(count))
    made: Callable[..., Any] = eval(f"lambda {names}: function({names})", {"function": function})
    return made
