"""Alembic's half of the dialect: migrations and autogenerate, as on PostgreSQL.

Alembic finds this by itself (``alembic_plugin``); with one older than 1.18, ``import
herdpy.sqlalchemy.migrations`` in env.py. Alembic looks up by the dialect's name what a directive
becomes, so PostgreSQL's statements are registered here for HerdPy's name, too.

DDL is transactional: a revision that fails leaves nothing of itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from alembic.ddl import postgresql
from alembic.ddl.base import ColumnComment, IdentityColumnDefault, RenameTable
from sqlalchemy.ext.compiler import compiles

from herdpy.sqlalchemy.dialect import VECTOR

if TYPE_CHECKING:
    from alembic.autogenerate.api import AutogenContext
    from sqlalchemy.types import TypeEngine


class HerdPyImpl(postgresql.PostgresqlImpl):
    """What Alembic does for the dialect ``herdpy``, and its variants."""

    __dialect__ = "herdpy"

    def render_type(self, type_: TypeEngine[Any], autogen_context: AutogenContext) -> str | Literal[False]:
        """A type's text in a generated revision; VECTOR with the import that it needs."""
        if isinstance(type_, VECTOR):
            autogen_context.imports.add("from herdpy.sqlalchemy import VECTOR")
            return "VECTOR()" if type_.dimensions is None else f"VECTOR({type_.dimensions})"
        return super().render_type(type_, autogen_context)


compiles(RenameTable, "herdpy")(postgresql.visit_rename_table)
compiles(postgresql.PostgresqlColumnType, "herdpy")(postgresql.visit_column_type)
compiles(ColumnComment, "herdpy")(postgresql.visit_column_comment)
compiles(IdentityColumnDefault, "herdpy")(postgresql.visit_identity_column)
