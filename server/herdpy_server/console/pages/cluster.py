"""The cluster as a picture that lives: nodes, what they lead and follow, bookies, and the log's ledgers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdpy_server.console.cluster_picture import draw
from herdpy_server.console.visit import ConsolePage, live_routes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_server.console.visit import Visit

_QUERIES = {
    "nodes": "SELECT * FROM herdpy.nodes ORDER BY node",
    "replicas": "SELECT * FROM herdpy.replicas ORDER BY tablespace, node",
    "tablespaces": "SELECT * FROM herdpy.tablespaces ORDER BY name",
    "ledgers": "SELECT * FROM herdpy.ledgers ORDER BY tablespace, ledger_id",
    "bookies": "SELECT * FROM herdpy.bookies ORDER BY bookie",
    "log_status": "SELECT * FROM herdpy.log_status ORDER BY tablespace",
    "limits": "SELECT * FROM herdpy.limits WHERE is_near ORDER BY tablespace, name",
    "archive": "SELECT * FROM herdpy.archive ORDER BY tablespace",
}
_MAX_ROWS = 5000


async def _state(visit: Visit) -> dict[str, Any]:
    async with visit.session() as session:
        rows = {name: (await session.run(sql, max_rows=_MAX_ROWS)).records for name, sql in _QUERIES.items()}
    here = visit.parts.server_name()
    picture = draw(
        rows["nodes"],
        rows["replicas"],
        rows["tablespaces"],
        rows["ledgers"],
        rows["bookies"],
        here,
        visit.parts.scheme(),
    )
    return {
        "picture": picture,
        "problems": problems(rows, visit.parts.node.problems()),
        "facts": _facts(rows),
        "is_alone": not rows["nodes"],
        **rows,
    }


def problems(rows: dict[str, list[dict[str, Any]]], of_server: Any) -> list[str]:
    """What an operator should see to, in words."""
    found = [f"this server, {name}: {text}" for name, text in of_server.items()]
    found += [
        f"{one['name']} has no leader: nothing can be written to it"
        for one in rows["tablespaces"]
        if one["state"] == "without leader"
    ]
    for one in rows["replicas"]:
        what = f"the replica of {one['tablespace']} on {one['node']}"
        if one["problem"]:
            found.append(f"{what} is {one['state']}: {one['problem']}")
        elif one["state"] == "away" and one["is_wanted"]:
            found.append(f"{what} is away")
    found += [
        f"bookie {one['bookie']} is {one['state']}" for one in rows["bookies"] if one["state"] != "writable"
    ]
    found += [
        f"the log of {one['tablespace']}: {one['problem']}" for one in rows["log_status"] if one["problem"]
    ]
    found += [
        f"{one['tablespace']}: {one['name']} is nearly used up ({one['used']:,} of {one['most']:,})"
        for one in rows["limits"]
    ]
    found += [
        f"the archive of {one['tablespace']}: {one['problem']}" for one in rows["archive"] if one["problem"]
    ]
    return list(dict.fromkeys(found))


def _facts(rows: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The figures above the picture."""
    replicas: Sequence[dict[str, Any]] = [one for one in rows["replicas"] if one["is_wanted"]]
    return {
        "led": sum(one["state"] in ("led", "alone") for one in rows["tablespaces"]),
        "replicas": len(replicas),
        "fine": sum(one["state"] in ("leading", "following") for one in replicas),
        "lag": max((one["lag_entries"] or 0 for one in replicas), default=0),
        "log_bytes": sum(one["log_bytes"] or 0 for one in rows["tablespaces"]),
        "writable": sum(one["state"] == "writable" for one in rows["bookies"]),
    }


PAGE = ConsolePage("cluster", "Cluster", "Operate", [*live_routes("cluster", "cluster", _state)])
