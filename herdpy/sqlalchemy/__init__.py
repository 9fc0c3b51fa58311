"""SQLAlchemy's dialect for HerdPy: ``create_engine("herdpy:///dir")``, ``"herdpy://host:port/tablespace"``.

Layer: on top of the driver (``herdpy.dbapi``), beneath SQLAlchemy, whose PostgreSQL base it extends.

    Core or ORM -> compiler (PostgreSQL's) -> HerdPyDialect -> herdpy.dbapi -> a directory or servers

``create_async_engine`` takes the same URLs, and ``herdpy+aio://``: ``herdpy.sqlalchemy.aio``.
``insert`` is the INSERT that knows ON CONFLICT. Types of PostgreSQL that SQLAlchemy has come from
``sqlalchemy.dialects.postgresql``; :class:`VECTOR` is here.
"""

from __future__ import annotations

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql import insert

from herdpy.sqlalchemy.dialect import VECTOR, HerdPyDialect, HerdPyZooKeeperDialect

# Loaded by these names, so that the dialect need not know those that extend it.
registry.register("herdpy.aio", "herdpy.sqlalchemy.aio", "HerdPyAsyncDialect")
registry.register("herdpy.zk_aio", "herdpy.sqlalchemy.aio", "HerdPyZooKeeperAsyncDialect")

__all__ = ["VECTOR", "HerdPyDialect", "HerdPyZooKeeperDialect", "insert"]
