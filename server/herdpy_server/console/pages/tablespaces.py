"""Tablespaces: where their replicas are and who leads; move the leader, add or remove a replica, check.

Everything is done by the statements that psql would send, with the rights of the role that is logged in.
What changes a cluster is confirmed on a page of its own first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdpy_server.console.visit import ConsolePage, PageRoute, live_routes
from herdpy_sql.errors import SqlError
from herdpy_sql.quoting import quote_ident

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from herdpy_server.console.jobs import ConsoleJob
    from herdpy_server.console.visit import Visit

_TABLESPACES = "SELECT * FROM herdpy.tablespaces ORDER BY name"
_REPLICAS = "SELECT * FROM herdpy.replicas ORDER BY tablespace, node"
_NODES = "SELECT * FROM herdpy.nodes ORDER BY node"
_CHECK_S = 3600.0


async def _state(visit: Visit) -> dict[str, Any]:
    async with visit.session() as session:
        tablespaces = await session.records(_TABLESPACES)
        replicas = await session.records(_REPLICAS)
        nodes = await session.records(_NODES)
    for one in tablespaces:
        one["placed"] = [row for row in replicas if row["tablespace"] == one["name"]]
        placed = {row["node"] for row in one["placed"] if row["is_wanted"]}
        one["free_nodes"] = [row["node"] for row in nodes if row["node"] not in placed]
    here = next((row["node"] for row in nodes if row["is_here"]), None)
    scheme = visit.parts.scheme()
    consoles = {row["node"]: f"{scheme}://{row['http_address']}" for row in nodes if row["http_address"]}
    return {"tablespaces": tablespaces, "nodes": nodes, "here": here, "consoles": consoles}


def literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


async def _replicas_of(visit: Visit, name: str) -> list[str]:
    async with visit.session() as session:
        rows = await session.records("SELECT replicas FROM herdpy.tablespaces WHERE name = $1", name)
    if not rows:
        raise SqlError("42704", f'tablespace "{name}" does not exist')
    return [one for one in (rows[0]["replicas"] or "").split(",") if one]


async def _statement(visit: Visit, given: Mapping[str, str]) -> tuple[str, str]:
    """What is to be done: for people, and as a statement. SqlError 22023, 42704."""
    action, name, node = given.get("action", ""), given.get("tablespace", ""), given.get("node", "")
    if not name:
        raise SqlError("22023", "no tablespace is named")
    quoted = quote_ident(name)
    if action == "lead" and node:
        return f"Have {node} lead {name}", f"ALTER TABLESPACE {quoted} LEADER {literal(node)}"
    if action == "free":
        return f"Prefer no leader of {name}", f"ALTER TABLESPACE {quoted} LEADER NONE"
    if action in ("add", "remove") and node:
        nodes = [one for one in await _replicas_of(visit, name) if one != node]
        nodes += [node] if action == "add" else []
        if not nodes:
            raise SqlError("22023", f"{name} needs a replica")
        listed = ", ".join(map(literal, nodes))
        text = (
            f"Add a replica of {name} on {node}" if action == "add" else f"Remove {name}'s replica on {node}"
        )
        return text, f"ALTER TABLESPACE {quoted} REPLICAS {listed}"
    if action == "drop":
        return f"Drop {name} with all that is in it", f"DROP TABLESPACE {quoted}"
    raise SqlError("22023", "there is no such action, or no node is named for it")


async def _confirm(visit: Visit) -> Response:
    given = {name: visit.argument(name) for name in ("action", "tablespace", "node")}
    text, statement = await _statement(visit, given)
    return visit.show(
        "confirm.html",
        text=text,
        statement=statement,
        action="tablespaces/act",
        back="tablespaces",
        fields=given,
        is_danger=given["action"] in ("drop", "remove"),
    )


async def _act(visit: Visit) -> Response:
    text, statement = await _statement(visit, await visit.form())
    async with visit.session() as session:
        answer = await session.run(statement)
    said = "; ".join(notice.message for notice in answer.notices)
    return visit.back("tablespaces", f"{text}: done.{' ' + said if said else ''}", "note" if said else "done")


async def _create(visit: Visit) -> Response:
    form = await visit.form()
    name = form.get("name", "").strip()
    count = form.get("replicas", "")
    options = f" WITH (expected_replicas = {int(count)})" if count.isascii() and count.isdigit() else ""
    if not name or (count and not options):
        raise SqlError("22023", "a tablespace needs a name, and a number of replicas")
    async with visit.session() as session:
        await session.run(f"CREATE TABLESPACE {quote_ident(name)}{options}")
    return visit.back("tablespaces", f"Made tablespace {name}.")


async def _check(visit: Visit) -> Response:
    name = (await visit.form()).get("tablespace", "")
    statement = f"CHECK TABLESPACE {quote_ident(name)}"
    async with visit.session(database=name):
        pass  # it is here, and the role may go there: else that is said now

    async def check(job: ConsoleJob) -> None:
        async with visit.session(database=name, timeout_s=_CHECK_S) as session:
            answer = await session.run(statement)
        job.columns = [column.name for column in answer.columns or ()]
        job.rows = answer.rows
        for notice in answer.notices:
            job.note(notice.message)

    visit.jobs.start(f"Check {name}", visit.login.user, check)
    return visit.back("jobs", f"{name} is being checked.")


PAGE = ConsolePage(
    "tablespaces",
    "Tablespaces",
    "Operate",
    [
        *live_routes("tablespaces", "tablespaces", _state),
        PageRoute("tablespaces/confirm", _confirm),
        PageRoute("tablespaces/act", _act, "POST"),
        PageRoute("tablespaces/create", _create, "POST"),
        PageRoute("tablespaces/check", _check, "POST"),
    ],
)
