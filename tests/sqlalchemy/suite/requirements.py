"""What SQLAlchemy's dialect suite may ask of HerdPy: everything, but for what CLOSED has a reason for.

docs/sqlalchemy.md has the same reasons, and a test compares both.
"""

from __future__ import annotations

import inspect
from typing import Any

from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

CLOSED = {
    "column_collation_reflection": "HerdPy keeps no collation of a column: columns compare by code point",
    "computed_columns_virtual": "generated columns are stored, as in PostgreSQL 15",
    "dbapi_lastrowid": "keys that were made come back by RETURNING, as in PostgreSQL",
    "emulated_lastrowid": "keys that were made come back by RETURNING, as in PostgreSQL",
    "emulated_lastrowid_even_with_sequences": "keys that were made come back by RETURNING, as in PostgreSQL",
    "fetch_percent": "FETCH FIRST n PERCENT is Oracle's and SQL Server's",
    "foreign_keys_reflect_as_index": "a foreign key makes no index, as in PostgreSQL",
    "index_reflects_included_columns": "INCLUDE is read and has no effect: an index leads to the whole row",
    "json_deserializer_binary": "JSON comes as text, not as bytes",
    "materialized_views": "CREATE MATERIALIZED VIEW is not offered",
    "materialized_views_reflect_pk": "CREATE MATERIALIZED VIEW is not offered",
    "non_updating_cascade": "asks that ON UPDATE CASCADE be missing",
    "nvarchar_types": "NVARCHAR is SQL Server's and Oracle's",
    "order_by_label_with_expression": "a label in an expression of ORDER BY is a column, as in PostgreSQL",
    "reflect_indexes_with_ascdesc_as_expression": "Oracle's way to reflect DESC",
    "reflect_table_options": "SQLAlchemy 2.0 reflects none of PostgreSQL's; 2.1 does",
    "repeated_remote_col_foreign_keys": "a foreign key names each referenced column once, as in PostgreSQL",
    "temporary_views": "CREATE TEMPORARY VIEW is not offered",
    "time_timezone": "TIME WITH TIME ZONE is not offered; PostgreSQL's manual advises against it",
    "two_phase_transactions": "PREPARE TRANSACTION is not offered",
    "unique_index_reflect_as_unique_constraints": "a unique index is not a constraint, as in PostgreSQL",
}
"""Requirements that are not met, with the reason."""
CHANGED = {
    "ServerSideCursorsTest": "reads a cursor's name; the suite does so for drivers that it knows",
    "WindowFunctionTest.test_window_range": "rows are put in order, which the SELECT leaves open",
    "WindowFunctionTest.test_window_range_numeric": "rows are put in order, which the SELECT leaves open",
}
"""Tests that are run in another way, with the reason."""


class Requirements(SuiteRequirements):
    """All of the suite's requirements, open but for CLOSED."""

    @property
    def async_dialect(self) -> Any:
        """Whether the run is one with ``herdpy+aio``."""
        return exclusions.only_if(lambda config: config.db.dialect.is_async)

    def get_isolation_levels(self, config: Any) -> dict[str, Any]:
        """The levels that are tried."""
        return {
            "default": "READ COMMITTED",
            "supported": [
                "AUTOCOMMIT",
                "READ COMMITTED",
                "READ UNCOMMITTED",
                "REPEATABLE READ",
                "SERIALIZABLE",
            ],
        }

    def get_order_by_collation(self, config: Any) -> str:
        """A collation that exists."""
        return "C"


def _is_closed(predicate: Any) -> bool:
    """Whether the suite closes a requirement until a dialect opens it."""
    return isinstance(predicate, exclusions.compound) and any(
        isinstance(skip, exclusions.BooleanPredicate) and skip.value for skip in predicate.skips
    )


def _as_told(name: str) -> property:
    reason = CLOSED.get(name)
    predicate = exclusions.open() if reason is None else exclusions.closed(reason)
    return property(lambda self: predicate)


_DEFAULTS = SuiteRequirements()
if "get_multi_table_options" in vars(PGDialect):
    del CLOSED["reflect_table_options"]
for _name in dir(SuiteRequirements):
    if isinstance(inspect.getattr_static(SuiteRequirements, _name), property) and (
        _name in CLOSED or (_name not in vars(Requirements) and _is_closed(getattr(_DEFAULTS, _name)))
    ):
        setattr(Requirements, _name, _as_told(_name))
