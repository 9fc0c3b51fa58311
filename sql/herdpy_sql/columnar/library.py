"""The library's functions in the columnar engine: each call becomes a function of DuckDB's over Arrow arrays.

A query names the functions that it calls (``ColumnarQuery.routines``); a database is given them when it first
runs one. Arguments and results have the forms of ``DUCK``: NUMERIC is text, an array a list of its elements.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy.codec.arrow import array_to_datums, arrow_type, datums_to_array
from herdpy.codec.grids import nested, of_lists, sizes_of
from herdpy.codec.kinds import Field, Kind
from herdpy_sql.columnar.typed import Typed, duck_type, numeric_text, over_elements, retyped, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.library import Resolved, reshaped, resolve, routine_of
from herdpy_sql.storage import Clock
from herdpy_sql.types import INTEGER, TEXT, UNKNOWN, Base, SqlType, array_of, with_dimensions

if TYPE_CHECKING:
    from herdpy_sql.columnar.binder import Binder
    from herdpy_sql.columnar.scope import Scope


def full_type(x: Typed) -> SqlType:
    """The type of an expression, with arrays as types of their own; UNKNOWN where its place decides."""
    if x.unknown or x.null:
        return UNKNOWN
    return array_of(x.type, x.array) if x.array else x.type


def settled(binder: Binder, x: Typed, target: SqlType) -> Typed:
    """``x`` as ``target``, which may be an array's type."""
    from herdpy_sql.columnar import casts

    if target.base is not Base.ARRAY:
        if x.array or not (x.unknown or x.null or x.base is target.base):
            return cast(binder, x, target)
        return casts.coerce(binder, x, target)
    if x.param is not None and x.unknown:
        return binder.param(x.param, target)
    if x.null:
        return array(f"CAST(NULL AS {duck_name(target)})", target)
    if x.unknown:
        assert x.literal is not None
        from herdpy_sql.values import from_text

        value = from_text(target)(x.literal)  # what is wrong with it is told now
        target = with_dimensions(target, len(sizes_of(value)) or target.dimensions)
        return cast(binder, casts.settle(binder, x, TEXT), target)
    if x.array and x.type.plain == target.element_type.plain:
        return x
    return cast(binder, x, target)


def cast(binder: Binder, x: Typed, target: SqlType) -> Typed:
    """``CAST(x AS target)`` as the library has it: what no native cast can do."""
    from herdpy_sql.expr.casts import castable

    source = full_type(x)
    if not castable(source, target, "explicit"):
        raise SqlError("42846", f"cannot cast type {source.name} to {target.name}")
    if source.base is target.base is Base.ARRAY:
        target = with_dimensions(target, source.dimensions)
    return invoke(binder, Resolved("cast", 0, (source,), target), [x])


def call(
    binder: Binder,
    name: str,
    arguments: list[Typed],
    scope: Scope | None = None,
    dimensions: int | None = None,
) -> Typed | None:
    """The library's function of that name over these arguments; None when there is none.

    ``scope`` is where it stands, of a call that may give many rows; ``dimensions`` are those of the array
    that it gives, where they are not its arguments'.
    """
    found = resolve(name, [full_type(x) for x in arguments])
    if found is None:
        return None
    if not found.routine.setof:
        return invoke(binder, found, arguments, dimensions)
    if scope is None or found.routine.columns:
        raise SqlError("0A000", f"set-returning function {name} is supported in FROM only")
    refuse_rows(scope)
    if any(one.setof for one in arguments):
        raise SqlError("0A000", "a set-returning function within another one is not supported")
    given = invoke(binder, found, arguments)
    return replace(given, sql=f"unnest({given.sql})", setof=True)


def rounded(binder: Binder, moment: Typed, digits: int) -> Typed:
    """A time or timestamp with so many digits of its seconds."""
    found = call(binder, "moment_rounded", [moment, Typed(str(digits), INTEGER)])
    assert found is not None
    return found


def refuse_rows(scope: Scope) -> None:
    """SqlError 0A000 where no set-returning function may stand."""
    if scope.clause not in ("SELECT", "ORDER BY"):
        where = "JOIN conditions" if scope.clause == "JOIN/ON" else scope.clause
        raise SqlError("0A000", f"set-returning functions are not allowed in {where}")


def invoke(binder: Binder, found: Resolved, arguments: list[Typed], dimensions: int | None = None) -> Typed:
    """A call of a function that is resolved; its arguments are brought to its types."""
    wanted = [settled(binder, x, type_) for x, type_ in zip(arguments, found.args, strict=True)]
    found = reshaped(found, [full_type(x) for x in wanted], dimensions)
    text = f"{used(binder, found)}({', '.join(map(_argument, wanted))})"
    return of_type(typed(text, TEXT, *wanted), text, found.result)


def widened(binder: Binder, x: Typed, dimensions: int) -> Typed:
    """An array with those dimensions if it is a parameter: clients say only what its elements are."""
    if x.param is None or not 0 < x.array < dimensions:
        return x
    return binder.param(x.param, array_of(x.type.plain, dimensions))


def stacked(binder: Binder, parts: list[Typed]) -> Typed:
    """``ARRAY[a, b]`` of arrays."""
    found = call(binder, "array_stacked", parts, dimensions=max(part.array for part in parts) + 1)
    assert found is not None
    return replace(found, name="array")


def gathered(binder: Binder, rows: Typed) -> Typed:
    """What ``array_agg`` gives of a list of arrays."""
    found = call(binder, "array_gathered", [rows])
    assert found is not None
    return found


def used(binder: Binder, found: Resolved) -> str:
    """DuckDB's name of the function, noted among those that the query needs."""
    name = function_name(found)
    if name not in map(function_name, binder.routines):  # types may differ in how they are shown alone
        binder.routines.append(found)
    return name


def function_name(found: Resolved) -> str:
    """The same for the same call in every process."""
    text = repr((found.name, found.place, found.args, found.result))
    return f"pg_lib_{hashlib.sha256(text.encode()).hexdigest()[:20]}"


def array(sql: str, type_: SqlType) -> Typed:
    """DuckDB's list as an array of that type."""
    return Typed(sql, type_.element_type, array=type_.dimensions)


def of_type(x: Typed, sql: str, type_: SqlType) -> Typed:
    """What a function of the library gives: ``x`` with that text, of that type."""
    if type_.element is Base.UUID:
        sql = f"CAST({sql} AS {duck_name(type_)})"
    if type_.base is Base.ARRAY:
        return replace(retyped(x, sql, type_.element_type), array=type_.dimensions)
    if type_.base is Base.UUID:
        return retyped(x, f"CAST({sql} AS UUID)", type_)
    return retyped(x, sql, type_)


def as_texts(x: Typed) -> str:
    """An array of NUMERIC as a list of texts."""
    if x.dec is None:
        return x.sql
    one = numeric_text(Typed("e", x.type, x.dec))
    return over_elements(x.sql, x.array, one)


def _argument(x: Typed) -> str:
    """In the form that functions take it in."""
    if x.array:
        if x.base is Base.NUMERIC:
            return as_texts(x)
        if x.base is Base.UUID:
            return f"CAST({x.sql} AS VARCHAR{'[]' * x.array})"
        return x.sql
    if x.base is Base.NUMERIC:
        return numeric_text(x)
    return f"CAST({x.sql} AS VARCHAR)" if x.base is Base.UUID else x.sql


def duck_name(type_: SqlType, *, function: bool = False) -> str:
    """DuckDB's name of a type; ``function``: as functions take and give it, where a UUID is text."""
    if type_.base is Base.ARRAY:
        return duck_name(type_.element_type, function=function) + "[]" * type_.dimensions
    if type_.base is Base.UUID and function:
        return "VARCHAR"
    return duck_type(type_)


# ---------------------------------------------------------------------------- in DuckDB


def define(connection: Any, found: Resolved, zone: str) -> None:
    """Make DuckDB's function of a call; once for each database."""
    result = SqlType(Base.ARRAY, element=Base.TEXT) if found.routine.columns else found.result
    name = duck_name(result, function=True) + ("[]" if found.routine.setof else "")
    connection.create_function(
        function_name(found),
        _over_arrays(found, Clock(0, 0, zone), result),
        [duck_name(one, function=True) for one in found.args],
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
    listed = found.name == "array_gathered"

    def apply(*columns: Any) -> Any:
        datums = [
            datums_of(column, one, listed=listed) for column, one in zip(columns, found.args, strict=True)
        ]
        values: list[Any] = []
        for row in zip(*datums, strict=True):
            if strict and None in row:
                values.append(None)
                continue
            try:
                values.append(rows_of(function(*head, *row)))
            except SqlError as error:
                detail = f" DETAIL {error.detail}" if error.detail else ""
                raise ValueError(f"SQLSTATE {error.sqlstate}: {error.message}{detail}") from None
        return _shown(datums_to_array(field, values), result)

    return _with_arity(apply, len(found.args))


def _rows(found: Resolved) -> Callable[[Any], Any]:
    """What makes a list of rows of what a set-returning function gives: rows of several columns are text."""
    if not found.routine.setof:
        return lambda value: value
    if not found.routine.columns:
        return lambda value: None if value is None else tuple(value)
    from herdpy_sql.values import to_text

    writers = [to_text(type_) for _, type_ in found.routine.columns]

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
    return Field(Kind.DECIMAL) if type_.base is Base.NUMERIC else SqlType(type_.base, enum=type_.enum).field


def datums_of(column: Any, type_: SqlType, *, listed: bool = False) -> list[Any]:
    """The datums of an argument's Arrow array; ``listed``: each is a tuple of arrays, which may differ."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if type_.base is Base.UUID:
        return [None if one is None else uuid.UUID(str(one)).bytes for one in column.to_pylist()]
    if type_.element is Base.UUID:
        if listed:
            return [tuple([a and of_lists(a, _uuid_bytes) for a in one]) for one in column.to_pylist()]
        return [None if one is None else of_lists(one, _uuid_bytes) for one in column.to_pylist()]
    field = plain_field(type_)
    wanted = arrow_type(field)
    if listed:
        field = Field(Kind.ARRAY, element=plain_field(with_dimensions(type_, type_.dimensions - 1)))
    if column.type != wanted:
        column = column.cast(wanted)
    return array_to_datums(field, column)


def _shown(result: Any, type_: SqlType) -> Any:
    """A function's result as DuckDB takes it: UUIDs as text."""
    if type_.base is Base.UUID:
        return pa.array([None if one is None else str(one) for one in result.to_pylist()], pa.string())
    if type_.element is Base.UUID:
        lists = [
            None if one is None else nested(of_lists(one, bytes), _uuid_text) for one in result.to_pylist()
        ]
        kind: pa.DataType = pa.string()
        for _ in range(type_.dimensions):
            kind = pa.list_(kind)
        return pa.array(lists, kind)
    return result


def _uuid_bytes(value: Any) -> bytes:
    return uuid.UUID(str(value)).bytes


def _uuid_text(value: bytes | None) -> str | None:
    return None if value is None else str(uuid.UUID(bytes=value))


def _with_arity(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """DuckDB counts the parameters of the function that it is given."""
    names = ", ".join(f"a{i}" for i in range(count))
    made: Callable[..., Any] = eval(f"lambda {names}: function({names})", {"function": function})
    return made
