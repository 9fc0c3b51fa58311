"""Arrow at the driver's edge: whatever a caller has becomes record batches, and back to pandas.

pyarrow comes with ``herdpydb``, not with its client alone, and is loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from herdpy.dbapi.errors import DataError, InterfaceError, ProgrammingError

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    import pyarrow as pa

Mode = Literal["create", "append", "replace", "create_append"]


def check_target(table_name: object, mode: object) -> None:
    """Refuse a table name or mode that cannot be one."""
    if not isinstance(table_name, str) or not table_name:
        raise ProgrammingError(f"a table's name is text, not {table_name!r}", sqlstate="42602")
    if mode not in get_args(Mode):
        raise ProgrammingError(f"mode is one of {', '.join(get_args(Mode))}, not {mode!r}", sqlstate="22023")


def schema_of(db_schema_name: object, *, temporary: bool) -> str | None:
    """The schema to load into, "pg_temp" for temporary tables; None when it is left open."""
    if not isinstance(db_schema_name, str | None) or db_schema_name == "":
        raise ProgrammingError(f"a schema's name is text, not {db_schema_name!r}", sqlstate="42602")
    if temporary and db_schema_name not in (None, "pg_temp"):
        raise ProgrammingError("cannot create temporary relation in non-temporary schema", sqlstate="42P16")
    return "pg_temp" if temporary else db_schema_name


def batches_of(data: object) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    """Schema and batches of a table, batch, reader, DataFrame or any Arrow stream.

    A stream is read to its end here, before the database is asked for anything: it may be slow, or
    come from this very database.

    Raises:
        ProgrammingError: it is nothing of Arrow.
        DataError: a stream broke off, or columns have names twice.
    """
    import pyarrow as pa

    try:
        table = _table_of(data)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise DataError(f"the data cannot be read as Arrow: {error}", sqlstate="22000") from error
    if not table.column_names:
        raise ProgrammingError("the data has no columns", sqlstate="42601")
    return table.schema, table.to_batches()


def _table_of(data: object) -> pa.Table:
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if type(data).__module__.partition(".")[0] == "pandas" and type(data).__name__ == "DataFrame":
        return pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data).read_all()
    if hasattr(data, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(data)])
    raise ProgrammingError(
        f"Arrow data is needed, not {type(data).__name__}",
        hint="A pyarrow Table, RecordBatch or RecordBatchReader, a DataFrame, or anything with "
        "__arrow_c_stream__.",
    )


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """``table`` as a DataFrame. InterfaceError when pandas is not installed."""
    try:
        import pandas as pd  # noqa: F401
    except ModuleNotFoundError as error:
        raise InterfaceError("fetch_df needs pandas: pip install pandas") from error
    return table.to_pandas()
