"""Jobs: what was begun on other pages and takes its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdpy_server.console.visit import ConsolePage, PageRoute, live_routes

if TYPE_CHECKING:
    from starlette.responses import Response

    from herdpy_server.console.visit import Visit


async def _state(visit: Visit) -> dict[str, Any]:
    return {"jobs": visit.jobs.of(visit.login.user, is_superuser=visit.is_superuser)}


async def _cancel(visit: Visit) -> Response:
    ident = (await visit.form()).get("job", "")
    job = visit.jobs.find(ident, visit.login.user, is_superuser=visit.is_superuser)
    if job.task is not None and not job.task.done():
        job.task.cancel()
        return visit.back("jobs", f"Cancelled: {job.title}.")
    return visit.back("jobs", f"It has ended already: {job.title}.", "note")


PAGE = ConsolePage(
    "jobs",
    "Jobs",
    "Operate",
    [
        *live_routes("jobs", "jobs", _state),
        PageRoute("jobs/cancel", _cancel, "POST"),
    ],
)
