"""What exists: tables, columns, indexes, checks, roles and other objects, as immutable values.

A :class:`Catalog` is never changed in place: each definition gives a new one with a higher
version, so that a plan is valid exactly as long as the catalog it was made from is the session's,
and a transaction that defines tables simply carries its own. Definitions travel in the log and lie
in the store as the bytes that ``definitions`` makes of them.
"""

from herdpy_sql.catalog.catalog import Catalog, Relation, names_meant
from herdpy_sql.catalog.table import (
    HIDDEN_KEY,
    PUBLIC,
    Check,
    Column,
    ColumnOrigin,
    Index,
    KeyPart,
    Table,
    is_temporary,
)

__all__ = [
    "HIDDEN_KEY",
    "PUBLIC",
    "Catalog",
    "Check",
    "Column",
    "ColumnOrigin",
    "Index",
    "KeyPart",
    "Relation",
    "Table",
    "is_temporary",
    "names_meant",
]
