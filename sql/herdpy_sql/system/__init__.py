"""The system catalog: PostgreSQL's pg_catalog and information_schema over our own catalog.

The layer beside ``columnar``. A query that names a system relation, or a function about the server or
the catalog, is bound by the columnar engine as any other (``select``):

    catalog_query   hands each system relation over as a relation of FROM, and the answer of its functions
    answers         what functions of the catalog look up: ids by ``names``, names and texts by ``lookups``
    actions         what functions change: settings, other sessions, advisory locks
    contents        the rows of each relation, a function of the catalog and the server's state: in
                    ``classes``, ``types``, ``server``, ``ownership``, ``information_schema``,
                    ``herdpy_schema``
    types           PostgreSQL's types and their names (``types.txt``)
    state           what a server says of itself: sessions, roles, settings

The functions themselves are declared in ``library.catalog_functions``. Nothing here can be written to.

This package stands above the parts of ``plan`` that read definitions (views, types, checks), and above
``herdpy_sql.system_relations``, which has the relations' names and columns. Of ``plan`` only ``prepare``
stands above this package: it hands such queries over.
"""

from herdpy_sql.system.catalog_query import CatalogQuery
from herdpy_sql.system.select import SystemSelect, SystemStatement, concerns, system_select
from herdpy_sql.system.state import Activity, LocalState, RoleRow, ServerState

__all__ = [
    "Activity",
    "CatalogQuery",
    "LocalState",
    "RoleRow",
    "ServerState",
    "SystemSelect",
    "SystemStatement",
    "concerns",
    "system_select",
]
