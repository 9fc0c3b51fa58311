"""polars' ``read_database`` and ``write_database`` through Arrow, under the same names.

Layer: on top of :mod:`herdpy.frames`. polars knows which drivers speak Arrow by a list of its own and
takes Python rows from all others; here its frames share the memory of the driver's batches.

    query -> cursor's Arrow -> DataFrame -> Arrow -> adbc_ingest
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from herdpy import frames
from herdpy.dbapi import InterfaceError
from herdpy.dbapi.arrow import Mode
from herdpy.frames import Source, executed, opened

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

Params = Sequence[object] | Mapping[str, object] | None

_MODES: dict[str, Mode] = {"fail": "create", "replace": "replace", "append": "create_append"}


@overload
def read_database(
    query: Any,
    connection: Source,
    *,
    params: Params = None,
    schema_overrides: Mapping[str, Any] | None = None,
    iter_batches: Literal[False] = False,
    batch_size: int | None = None,
) -> pl.DataFrame: ...


@overload
def read_database(
    query: Any,
    connection: Source,
    *,
    params: Params = None,
    schema_overrides: Mapping[str, Any] | None = None,
    iter_batches: Literal[True],
    batch_size: int | None = None,
) -> Iterator[pl.DataFrame]: ...


def read_database(
    query: Any,
    connection: Source,
    *,
    params: Params = None,
    schema_overrides: Mapping[str, Any] | None = None,
    iter_batches: bool = False,
    batch_size: int | None = None,
) -> pl.DataFrame | Iterator[pl.DataFrame]:
    """The answer of a query as a DataFrame, as ``polars.read_database`` gives it.

    Args:
        query: a query's text, a table's name, or with a source of SQLAlchemy's a construct of its.
        connection: a URL, a ``herdpy.Connection``, or SQLAlchemy's engine, connection or session. What
            is opened here is closed here; otherwise the query is part of the caller's transaction.
        params: values for ``%s`` or ``%(name)s``; of a construct, what it wants.
        schema_overrides: types of columns, by name, which they are cast to.
        iter_batches: frames come one by one; the connection is busy with them until the last.
        batch_size: how many rows such a frame has, 65,536 when it is not said.

    Raises:
        InterfaceError: polars is missing, or ``connection`` is none.
        Error: the database's, as a cursor's ``execute`` raises them.
    """
    _needs_polars()
    if iter_batches:
        size = 65_536 if batch_size is None else batch_size
        if size < 1:
            raise InterfaceError(f"batch_size is at least 1, not {size}")
        return _frames(query, connection, params, size, schema_overrides)
    with executed(query, connection, params) as cursor:
        return _frame(frames.table_of(cursor), schema_overrides)


def write_database(
    frame: pl.DataFrame | pl.LazyFrame,
    table_name: str,
    connection: Source,
    *,
    if_table_exists: Literal["fail", "replace", "append"] = "fail",
) -> int:
    """Write a DataFrame as a table, as ``DataFrame.write_database`` does: all of it or nothing.

    Args:
        frame: what is written; a LazyFrame is collected. Columns are matched by name.
        table_name: the table, ``schema.table`` if it is not in the first of the search path.
        connection: as for :func:`read_database`.
        if_table_exists: "fail" (42P07), "replace" (dropped and made again), or "append".

    Returns:
        How many rows were written.

    Raises:
        InterfaceError: polars is missing, or ``connection`` or ``if_table_exists`` is none.
        Error: the database's.
    """
    import polars as pl

    if if_table_exists not in _MODES:
        raise InterfaceError(f'if_table_exists is "fail", "replace" or "append", not {if_table_exists!r}')
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    schema, _, name = table_name.rpartition(".")
    with opened(connection) as own, own.cursor() as cursor:
        return cursor.adbc_ingest(name, frame, _MODES[if_table_exists], db_schema_name=schema or None)


def _frames(
    query: Any, connection: Source, params: Params, rows: int, overrides: Mapping[str, Any] | None
) -> Iterator[pl.DataFrame]:
    with executed(query, connection, params) as cursor:
        for table in frames.tables_of(cursor, rows):
            yield _frame(table, overrides)


def _frame(table: pa.Table, overrides: Mapping[str, Any] | None) -> pl.DataFrame:
    import polars as pl
    import pyarrow as pa

    for at, field in enumerate(table.schema):
        if isinstance(field.type, pa.UuidType):  # polars has none: as text, which its users expect
            texts = [None if value is None else str(value) for value in table.column(at).to_pylist()]
            table = table.set_column(at, field.name, pa.array(texts, pa.string()))
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame.cast(cast("Any", dict(overrides))) if overrides else frame


def _needs_polars() -> None:
    try:
        import polars  # noqa: F401
        import pyarrow  # noqa: F401
    except ModuleNotFoundError as error:
        raise InterfaceError(
            f"frames need polars and pyarrow: pip install polars pyarrow ({error})"
        ) from error


__all__ = ["read_database", "write_database"]
