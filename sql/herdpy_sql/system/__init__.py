"""The system catalog: PostgreSQL's pg_catalog and information_schema over our own catalog.

The layer beside ``columnar``. A query that names a system relation, or a function about the server or
the catalog, comes here whole (``concerns``):

    rewriter   the sqlglot tree -> DuckDB text, by the handlers of ``rewrites`` and ``rewrite_from``
    select     the plan: that text, bound over empty relations for its columns
    query      the text with what it reads, run over Arrow tables made for the occasion
    contents   the rows of each relation, a function of the catalog and the server's state: in ``classes``,
               ``types``, ``server``, ``ownership``, ``information_schema``, ``herdpy_schema``
    types      PostgreSQL's types and their names (``types.txt``)
    state      what a server tells of itself: sessions, roles, settings

What PostgreSQL writes in such queries and DuckDB does not know is translated in ``rewrites``,
``calls`` and ``casts`` and nowhere else. Nothing here can be written to.

This package stands above the parts of ``plan`` that read definitions (views, types, checks), and above
``herdpy_sql.system_relations``, which has the relations' names and columns. Of ``plan`` only ``prepare``
stands above this package: it hands such queries over.
"""

from herdpy_sql.system.catalog_query import CatalogQuery
from herdpy_sql.system.query import SystemQuery
from herdpy_sql.system.rewrite_from import concerns
from herdpy_sql.system.select import SystemSelect, system_select
from herdpy_sql.system.state import Activity, LocalState, RoleRow, ServerState

__all__ = [
    "Activity",
    "CatalogQuery",
    "LocalState",
    "RoleRow",
    "ServerState",
    "SystemQuery",
    "SystemSelect",
    "concerns",
    "system_select",
]
