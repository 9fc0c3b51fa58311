"""Failover drills: run one on this cluster, watch it, read what it found. For clusters that allow it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from herdpy_server.console.drill_runs import MAX_SECONDS, DrillRuns
from herdpy_server.console.visit import ConsolePage, PageRoute, live_routes
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from herdpy_server.console.parts import ConsoleParts
    from herdpy_server.console.visit import Visit

_NODES = "SELECT sql_address FROM herdpy.nodes WHERE sql_address IS NOT NULL ORDER BY node"
_PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


def _is_allowed(parts: ConsoleParts) -> bool:
    return bool(parts.config().console.drill_directory)


def _runs(visit: Visit) -> DrillRuns:
    return DrillRuns(Path(visit.parts.config().console.drill_directory))


async def _show(visit: Visit) -> Response:
    runs = _runs(visit)
    drills, found = await asyncio.gather(asyncio.to_thread(runs.drills), asyncio.to_thread(runs.runs))
    return visit.show("drills.html", drills=drills, runs=found, most=MAX_SECONDS)


async def _live(visit: Visit) -> Response:
    return visit.fragment("drills_live.html", runs=await asyncio.to_thread(_runs(visit).runs))


async def _one(visit: Visit) -> dict[str, Any]:
    return {"run": await asyncio.to_thread(_runs(visit).find, visit.argument("run"))}


async def _wish(visit: Visit, given: Mapping[str, str]) -> tuple[str, int, int | None]:
    """Drill, seconds and seed. SqlError 22023."""
    drill, seconds, seed = (given.get(name, "").strip() for name in ("drill", "seconds", "seed"))
    names = {one["name"] for one in await asyncio.to_thread(_runs(visit).drills)}
    if drill not in names:
        raise SqlError("22023", "there is no such drill")
    if not (seconds.isascii() and seconds.isdigit() and 1 <= int(seconds) <= MAX_SECONDS):
        raise SqlError("22023", f"a drill takes from 1 to {MAX_SECONDS} seconds")
    if seed and not (seed.isascii() and seed.isdigit() and len(seed) < 19):
        raise SqlError("22023", "a seed is a number")
    return drill, int(seconds), int(seed) if seed else None


async def _confirm(visit: Visit) -> Response:
    given = {name: visit.argument(name) for name in ("drill", "seconds", "seed")}
    drill, seconds, _seed = await _wish(visit, given)
    return visit.show("drill_confirm.html", drill=drill, seconds=seconds, fields=given)


async def _begin(visit: Visit) -> Response:
    drill, seconds, seed = await _wish(visit, await visit.form())
    given = visit.parts.config().console
    url = given.drill_url or await _url(visit)
    visit.record_call("drill", drill=drill)
    ident = await asyncio.to_thread(
        lambda: _runs(visit).begin(
            drill, visit.login.user, url, given.drill_commands, seconds=seconds, seed=seed
        )
    )
    return visit.back("drills/run", f"The drill {drill} has begun.", run=ident)


async def _url(visit: Visit) -> str:
    """How clients reach the cluster. SqlError 55000: it is none."""
    async with visit.session() as session:
        places = [row["sql_address"] for row in await session.records(_NODES)]
    if not places:
        raise SqlError("55000", "this server is alone: a drill needs a cluster")
    return f"herdpy://{','.join(places)}/{visit.parts.default_database()}"


async def _stop(visit: Visit) -> Response:
    ident = (await visit.form()).get("run", "")
    await asyncio.to_thread(_runs(visit).stop, ident)
    return visit.back("drills/run", "It undoes its fault, and ends.", run=ident)


async def _picture(visit: Visit) -> Response:
    data = await asyncio.to_thread(_runs(visit).file, visit.argument("run"), "picture.svg")
    headers = {"content-type": "image/svg+xml", "content-security-policy": _PICTURE_POLICY}
    return Response(data, headers=headers)


async def _report(visit: Visit) -> Response:
    data = await asyncio.to_thread(_runs(visit).file, visit.argument("run"), "report.json")
    headers = {
        "content-type": "application/json",
        "content-disposition": 'attachment; filename="report.json"',
    }
    return Response(data, headers=headers)


PAGE = ConsolePage(
    "drills",
    "Drills",
    "Operate",
    [
        PageRoute("drills", _show),
        PageRoute("drills/live", _live),
        *live_routes("drills/run", "drill", _one),
        PageRoute("drills/confirm", _confirm),
        PageRoute("drills/picture", _picture),
        PageRoute("drills/report", _report),
        PageRoute("drills/begin", _begin, "POST"),
        PageRoute("drills/stop", _stop, "POST"),
    ],
    superusers=True,
    is_there=_is_allowed,
)
