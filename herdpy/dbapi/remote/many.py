"""executemany on a server: as one COPY of parameters where that is the same, and worth it. Below ``remote``.

The server runs the statement for each row, or does what comes to the same (``COPY PARAMETERS``), and no row
has messages of its own. Rows go one by one where they are few, where pyarrow is not installed, of statements
that return rows or are none of INSERT, UPDATE and DELETE, and where a column has values of several types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from herdpy.dbapi.remote.sent import CopyIn
from herdpy.dbapi.remote.statements import first_word, returns_rows

if TYPE_CHECKING:
    from types import ModuleType

FEW_ROWS = 24
"""So many rows are sent one by one: it takes no longer."""

_COPIED = frozenset({"INSERT", "UPDATE", "DELETE"})


def many_as_copy(sql: str, rows: Sequence[Sequence[object]]) -> CopyIn | None:
    """The COPY that runs ``sql`` for each of the rows; None when they are to go one by one."""
    if len(rows) <= FEW_ROWS or first_word(sql) not in _COPIED or returns_rows(sql):
        return None
    columns = _columns()
    pieces = None if columns is None else columns.parameter_stream(rows)
    if pieces is None:
        return None
    quoted = sql.replace("'", "''")
    return CopyIn(f"COPY PARAMETERS OF '{quoted}' FROM STDIN (FORMAT arrow)", pieces)


def _columns() -> ModuleType | None:
    """What makes columns of rows; None where pyarrow is not installed."""
    try:
        from herdpy.dbapi.remote import columns as remote_columns
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        return None
    return remote_columns
