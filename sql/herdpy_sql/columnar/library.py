"""Calls of the library's functions by name, in the columnar engine; ``routines`` has them in DuckDB."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.columnar.casts import invoke
from herdpy_sql.columnar.routines import full_type
from herdpy_sql.duck import Typed
from herdpy_sql.errors import SqlError
from herdpy_sql.library import resolve
from herdpy_sql.types import INTEGER, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.columnar.binder import Binder
    from herdpy_sql.columnar.scope import Scope


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
    found = resolve(name, tuple([full_type(x) for x in arguments]))
    if found is None:
        return None
    if found.routine.refused:
        raise SqlError("0A000", found.routine.refused)
    if not found.routine.setof:
        return invoke(binder, found, arguments, dimensions)
    if scope is None:
        raise SqlError("0A000", f"set-returning function {name} is supported in FROM only")
    refuse_rows(scope)
    if any(one.setof for one in arguments):
        raise SqlError("0A000", "a set-returning function within another one is not supported")
    given = invoke(binder, found, arguments)
    if found.routine.columns:
        given = replace(given, type=SqlType(Base.RECORD, row=found.routine.columns))
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


def stacked(binder: Binder, parts: list[Typed]) -> Typed:
    """``ARRAY[a, b]`` of arrays."""
    found = call(binder, "array_stacked", parts, dimensions=max(part.array for part in parts) + 1)
    assert found is not None
    return found


def gathered(binder: Binder, rows: Typed) -> Typed:
    """What ``array_agg`` gives of a list of arrays."""
    found = call(binder, "array_gathered", [rows])
    assert found is not None
    return found


# ---------------------------------------------------------------------------- in DuckDB
