"""Tables, views and sequences by schema; of each its columns, indexes, constraints, rights, DDL, rows."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from herdpy_server.console import table_facts
from herdpy_server.console.answers import run_text
from herdpy_server.console.names import quoted
from herdpy_server.console.visit import ConsolePage, PageRoute
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from starlette.responses import Response

    from herdpy_server.console.gateway import PageSession
    from herdpy_server.console.visit import Visit

_FIRST_ROWS = 50
_FOLLOWS = "SELECT pg_is_in_recovery() AS follows"
_COUNT_TIMEOUT = "SET statement_timeout = '3s'"
_DATABASES = "SELECT datname FROM pg_database WHERE datallowconn ORDER BY datname"


async def _show(visit: Visit) -> Response:
    of_system, having = visit.argument("system") == "on", visit.argument("having")
    database = visit.argument("database") or visit.login.database
    async with visit.session(database=database) as session:
        rows = await table_facts.relations(session, of_system=of_system)
        databases = [row["datname"] for row in await session.records(_DATABASES)]
    if having:
        sought = having.casefold()
        rows = [row for row in rows if sought in f"{row['schema']}.{row['name']}".casefold()]
    schemas = [(schema, list(found)) for schema, found in groupby(rows, key=lambda row: row["schema"])]
    return visit.show(
        "tables.html",
        schemas=schemas,
        kinds=table_facts.KINDS,
        of_system=of_system,
        having=having,
        database=database,
        databases=databases if database in databases else [database, *databases],
    )


async def _one(visit: Visit) -> Response:
    schema, name = visit.argument("schema"), visit.argument("name")
    database = visit.argument("database") or visit.login.database
    async with visit.session(database=database) as session:
        follows = await _reads_here(session)
        found = await table_facts.relation(session, schema, name)
        rows = None
        if found["kind"] != "S":
            # Readers of the catalog may lack the right to read the rows: the rest is shown nevertheless.
            rows = await run_text(session, f"SELECT * FROM {quoted(schema)}.{quoted(name)}", _FIRST_ROWS)
    return visit.show(
        "table.html", one=found, rows=rows, kinds=table_facts.KINDS, database=database, follows=follows
    )


async def _reads_here(session: PageSession) -> bool:
    """Have a server that follows answer from its replica; whether it follows."""
    (row,) = await session.records(_FOLLOWS)
    follows: bool = row["follows"]
    if follows:
        session.session.settings.start_with("herdpy.read_level", "any")
    return follows


async def _count(visit: Visit) -> Response:
    schema, name = visit.argument("schema"), visit.argument("name")
    database = visit.argument("database") or visit.login.database
    async with visit.session(database=database) as session:
        await _reads_here(session)
        return visit.fragment("table_count.html", **await _counted(session, schema, name))


async def _counted(session: PageSession, schema: str, name: str) -> dict[str, Any]:
    try:
        await session.run(_COUNT_TIMEOUT)
        (row,) = await session.records(f"SELECT count(*) AS rows FROM {quoted(schema)}.{quoted(name)}")
    except SqlError as error:
        return {"rows": None, "error": error}
    return {"rows": row["rows"], "error": None}


PAGE = ConsolePage(
    "tables",
    "Tables",
    "Data",
    [PageRoute("tables", _show), PageRoute("tables/one", _one), PageRoute("tables/count", _count)],
)
