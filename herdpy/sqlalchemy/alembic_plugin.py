"""How Alembic comes to know the dialect: the entry point ``alembic.plugins``, from Alembic 1.18 on.

Alembic loads its plugins in the midst of its own import, when PostgreSQL's half is not there yet. So
what is registered here stands in for ``herdpy.sqlalchemy.migrations`` until a migration begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alembic.ddl.impl import DefaultImpl

if TYPE_CHECKING:
    from alembic.runtime.plugins import Plugin


class Herald(DefaultImpl):
    """Stands in for :class:`herdpy.sqlalchemy.migrations.HerdPyImpl`, and makes one when it is called."""

    __dialect__ = "herdpy"

    def __new__(cls, *args: Any, **options: Any) -> Any:
        """The real one, which from now on is the dialect's."""
        from herdpy.sqlalchemy.migrations import HerdPyImpl

        return HerdPyImpl(*args, **options)


def setup(plugin: Plugin) -> None:
    """Alembic's call to a plugin. To be imported is all that this one needs."""
