"""Row factories, as ``psycopg.rows`` names them: ``herdpy.connect(url, row_factory=herdpy.rows.dict_row)``.

They are ``herdpy.dbapi.types``; this is where users find them.
"""

from herdpy.dbapi.types import (
    RowFactory,
    RowMaker,
    args_row,
    class_row,
    dict_row,
    kwargs_row,
    namedtuple_row,
    scalar_row,
    tuple_row,
)

__all__ = [
    "RowFactory",
    "RowMaker",
    "args_row",
    "class_row",
    "dict_row",
    "kwargs_row",
    "namedtuple_row",
    "scalar_row",
    "tuple_row",
]
