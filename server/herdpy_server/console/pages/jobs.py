"""Jobs: what was begun on other pages and takes its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.console.visit import ConsolePage, PageRoute

if TYPE_CHECKING:
    from starlette.responses import Response

    from herdpy_server.console.visit import Visit


async def _show(visit: Visit) -> Response:
    return visit.show("jobs.html", jobs=visit.jobs.of(visit.login.user, is_superuser=visit.is_superuser))


async def _live(visit: Visit) -> Response:
    return visit.fragment(
        "jobs_live.html", jobs=visit.jobs.of(visit.login.user, is_superuser=visit.is_superuser)
    )


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
        PageRoute("jobs", _show),
        PageRoute("jobs/live", _live),
        PageRoute("jobs/cancel", _cancel, "POST"),
    ],
)
