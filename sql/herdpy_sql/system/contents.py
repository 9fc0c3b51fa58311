"""The rows of the system relations: each a function of the catalog and the server's state.

A relation without a function here is empty: there are no views, triggers, policies or publications. The
modules ``contents_*`` register theirs with :func:`rows_of`; :func:`table` makes the Arrow table.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from herdpy_sql.system.relation import Relation, relations
from herdpy_sql.system.state import Activity

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.system.state import ServerState

PG_CATALOG_OID, PUBLIC_OID, INFORMATION_OID, HERDPY_OID = 11, 2200, 13207, 13300
OWNER_OID = 10
DATABASE_OID = 5
HEAP, BTREE = 2, 403
DEFAULT_COLLATION, C_COLLATION = 100, 950

SCHEMAS = {
    "pg_catalog": PG_CATALOG_OID,
    "public": PUBLIC_OID,
    "information_schema": INFORMATION_OID,
    "herdpy": HERDPY_OID,
}

Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Context:
    """What rows are made of."""

    catalog: Catalog
    state: ServerState

    def role_oids(self) -> dict[str, int]:
        """Ids of the roles: 10 for the first, as PostgreSQL's bootstrap superuser has, then users' ones."""
        names = [role.name for role in self.state.roles()]
        return {name: OWNER_OID if i == 0 else 16_000_000 + i for i, name in enumerate(names)}

    def database_oid(self, name: str | None) -> int:
        """Of the session's own database 5, as PostgreSQL's first one has; of others one made of the name."""
        if name in (None, self.state.database):
            return DATABASE_OID
        assert name is not None
        return 1 << 30 | zlib.crc32(name.encode()) >> 2

    def activity(self) -> Iterator[Activity]:
        """Every session; of other users' only that they are there, unless the user is a superuser."""
        user = self.state.user
        sees_all = any(role.superuser for role in self.state.roles() if role.name == user)
        for one in self.state.activity():
            if sees_all or one.user == user:
                yield one
            else:
                yield Activity(
                    one.pid,
                    one.user,
                    one.application_name,
                    backend_start_us=None,
                    state=None,
                    query="<insufficient privilege>",
                    database=one.database,
                )


MAKERS: dict[tuple[str, str], Callable[[Context], Rows]] = {}


def rows_of(schema: str, *names: str) -> Callable[[Callable[[Context], Rows]], Callable[[Context], Rows]]:
    """Register what makes the rows of these relations."""

    def register(maker: Callable[[Context], Rows]) -> Callable[[Context], Rows]:
        for name in names:
            assert (schema, name) in relations(), name
            MAKERS[schema, name] = maker
        return maker

    return register


def table(relation: Relation, context: Context) -> pa.Table:
    """The rows of a relation, now."""
    maker = MAKERS.get((relation.schema, relation.name))
    return relation.table(maker(context) if maker is not None else ())
