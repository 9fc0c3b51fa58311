"""pandas' ``read_sql`` and ``to_sql`` through Arrow: the same names, many times as fast.

Layer: on top of :mod:`herdpy.frames`. Nothing of a frame becomes a Python object on its way, and a
frame that is written is one statement and, in the log, the batches that it was.

    query -> cursor's Arrow -> DataFrame -> Arrow -> adbc_ingest
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, overload

from herdpy import frames
from herdpy.dbapi import InterfaceError, ProgrammingError
from herdpy.dbapi.arrow import Mode
from herdpy.frames import Source, executed, opened

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    import pyarrow as pa

Backend = Literal["numpy", "numpy_nullable", "pyarrow"]
Params = Sequence[object] | Mapping[str, object] | None

_MODES: dict[str, Mode] = {"fail": "create", "replace": "replace", "append": "create_append"}


@overload
def read_sql(
    sql: Any,
    con: Source,
    *,
    index_col: str | list[str] | None = None,
    params: Params = None,
    dtype_backend: Backend = "numpy",
    dtype: Any = None,
    chunksize: None = None,
) -> pd.DataFrame: ...


@overload
def read_sql(
    sql: Any,
    con: Source,
    *,
    index_col: str | list[str] | None = None,
    params: Params = None,
    dtype_backend: Backend = "numpy",
    dtype: Any = None,
    chunksize: int,
) -> Iterator[pd.DataFrame]: ...


def read_sql(
    sql: Any,
    con: Source,
    *,
    index_col: str | list[str] | None = None,
    params: Params = None,
    dtype_backend: Backend = "numpy",
    dtype: Any = None,
    chunksize: int | None = None,
) -> pd.DataFrame | Iterator[pd.DataFrame]:
    """The answer of a query as a DataFrame, as ``pandas.read_sql`` gives it.

    Args:
        sql: a query's text, a table's name, or with a source of SQLAlchemy's a construct of its.
        con: a URL, a ``herdpy.Connection``, or SQLAlchemy's engine, connection or session. What is
            opened here is closed here; otherwise the query is part of the caller's transaction.
        index_col: the column, or columns, that become the index.
        params: values for ``%s`` or ``%(name)s``; of a construct, what it wants.
        dtype_backend: "numpy" has Decimal and date objects for what NumPy lacks, and floats for
            integers with NULL; "numpy_nullable" has pandas' nullable types; "pyarrow" keeps Arrow.
        dtype: types of columns, as ``DataFrame.astype`` takes them.
        chunksize: how many rows a frame has; frames then come one by one, and the connection is
            busy with them until the last has come.

    Raises:
        InterfaceError: pandas is missing, ``con`` or ``dtype_backend`` is none.
        Error: the database's, as a cursor's ``execute`` raises them.
    """
    _needs_pandas()
    if dtype_backend not in ("numpy", "numpy_nullable", "pyarrow"):
        raise InterfaceError(
            f'dtype_backend is "numpy", "numpy_nullable" or "pyarrow", not {dtype_backend!r}'
        )
    if chunksize is not None:
        if chunksize < 1:
            raise InterfaceError(f"chunksize is at least 1, not {chunksize}")
        return _frames(sql, con, params, chunksize, dtype_backend, index_col, dtype)
    with executed(sql, con, params) as cursor:
        numbers = frames.numbers_of(cursor)
        return _frame(frames.table_of(cursor), numbers, dtype_backend, index_col, dtype)


def _frames(
    sql: Any, con: Source, params: Params, rows: int, backend: Backend, index_col: Any, dtype: Any
) -> Iterator[pd.DataFrame]:
    with executed(sql, con, params) as cursor:
        numbers = frames.numbers_of(cursor)
        for table in frames.tables_of(cursor, rows):
            yield _frame(table, numbers, backend, index_col, dtype)


def to_sql(
    frame: pd.DataFrame,
    name: str,
    con: Source,
    *,
    schema: str | None = None,
    if_exists: Literal["fail", "replace", "append"] = "fail",
    index: bool = True,
    index_label: str | Sequence[str] | None = None,
) -> int:
    """Write a DataFrame as a table, as ``DataFrame.to_sql`` does: all of it or nothing.

    Args:
        frame: what is written. Columns are matched by name; a table that is made here has the types
            of the frame's. For keys and exact types, make the table first and append.
        name: the table's name.
        con: as for :func:`read_sql`.
        schema: the table's schema.
        if_exists: "fail" (42P07), "replace" (dropped and made again), or "append".
        index: write the index as columns as well, named ``index_label``, or as it is, or "index".
        index_label: names for the index's columns.

    Returns:
        How many rows were written.

    Raises:
        InterfaceError: pandas is missing, or ``con`` or ``if_exists`` is none.
        DataError: a column holds values of several types, or ones that the table's cannot.
        Error: the database's.
    """
    _needs_pandas()
    if if_exists not in _MODES:
        raise InterfaceError(f'if_exists is "fail", "replace" or "append", not {if_exists!r}')
    if index:
        labels = [index_label] if isinstance(index_label, str) else index_label
        frame = frame.reset_index(names=labels)
        if labels is None and frame.columns[0] == "level_0" and "index" in frame.columns[1:]:
            raise ProgrammingError('there is a column "index": use index=False or index_label=')
    frame = frame.set_axis([str(column) for column in frame.columns], axis="columns")
    with opened(con) as connection, connection.cursor() as cursor:
        return cursor.adbc_ingest(name, frame, _MODES[if_exists], db_schema_name=schema)


def ingest(table: Any, conn: Any, keys: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """For ``DataFrame.to_sql(..., method=herdpy.pandas.ingest)``: pandas makes the table, Arrow fills it.

    So pandas' ``dtype``, ``schema`` and ``chunksize`` keep their meaning; rows pass through Python.
    """
    import pyarrow as pa

    columns = list(zip(*rows, strict=True))
    if not columns:
        return 0
    data = pa.table(dict(zip(keys, map(pa.array, columns), strict=True)))
    with opened(conn) as connection, connection.cursor() as cursor:
        return cursor.adbc_ingest(table.name, data, "append", db_schema_name=table.schema)


def _frame(table: pa.Table, numbers: list[int], backend: Backend, index_col: Any, dtype: Any) -> pd.DataFrame:
    """``table`` as a frame; NUMERIC that stayed text becomes Decimal, unless frames keep Arrow."""
    import pandas as pd

    if backend == "pyarrow":
        frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    else:
        nullable = _nullable_types() if backend == "numpy_nullable" else {}
        frame = table.to_pandas(types_mapper=nullable.get)
        for at in numbers:
            if str(table.field(at).type) == "string":
                texts = table.column(at).to_pylist()
                exact = [None if text is None else Decimal(text) for text in texts]
                frame.isetitem(at, pd.Series(exact, dtype=object))
    if index_col is not None:
        frame = frame.set_index(index_col)
    if dtype is not None:
        frame = frame.astype(dtype)
    return frame


def _nullable_types() -> dict[Any, Any]:
    import pandas as pd
    import pyarrow as pa

    return {
        pa.bool_(): pd.BooleanDtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.float32(): pd.Float32Dtype(),
        pa.float64(): pd.Float64Dtype(),
        pa.string(): pd.StringDtype(),
    }


def _needs_pandas() -> None:
    try:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
    except ModuleNotFoundError as error:
        raise InterfaceError(
            f"frames need pandas and pyarrow: pip install pandas pyarrow ({error})"
        ) from error


__all__ = ["ingest", "read_sql", "to_sql"]
