"""The cluster as a picture that lives: nodes, what they lead and follow, bookies, and the log's ledgers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdpy_server.console.visit import ConsolePage, PageRoute

if TYPE_CHECKING:
    from starlette.responses import Response

    from herdpy_server.console.visit import Visit

_NODES = "SELECT * FROM herdpy.nodes ORDER BY node"
_REPLICAS = "SELECT * FROM herdpy.replicas ORDER BY tablespace, node"


async def _show(visit: Visit) -> Response:
    return visit.show("cluster.html", **await _state(visit))


async def _live(visit: Visit) -> Response:
    return visit.fragment("cluster_live.html", **await _state(visit))


async def _state(visit: Visit) -> dict[str, Any]:
    async with visit.session() as session:
        return {"nodes": await session.records(_NODES), "replicas": await session.records(_REPLICAS)}


PAGE = ConsolePage(
    "cluster", "Cluster", "Operate", [PageRoute("cluster", _show), PageRoute("cluster/live", _live)]
)
