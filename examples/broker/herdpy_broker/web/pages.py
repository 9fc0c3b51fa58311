"""The pages: what they read besides the snapshot, and which templates show it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.responses import Response

from herdpy_broker import listing, reading
from herdpy_broker.errors import NoSuchTaskError
from herdpy_broker.listing import REASONS, DeadFilter
from herdpy_broker.overview import STATES
from herdpy_broker.web.parts import LivePart, task_id, task_values
from herdpy_broker.web.visit import Visit

_LISTED = 100


async def overview(visit: Visit) -> Response:
    """Groups, rates, workers and failures; the newest dead letters."""
    return await _living(visit, LivePart("overview"), "overview.html")


async def group(visit: Visit) -> Response:
    """A group: its settings, and its first tasks of a state."""
    name, state = visit.query("name") or "", visit.query("state") or "ready"
    rows = await visit.site.call(lambda connection: listing.tasks(connection, state, name, most=_LISTED))
    found = (await visit.site.snapshot()).overview
    assert found is not None
    given = {
        "name": name,
        "state": state,
        "states": STATES,
        "tasks": rows,
        "listed": _LISTED,
        "now": found.at,
        "settings": found.group(name).settings,
    }
    return await _living(visit, LivePart("group", group=name), "group.html", **given)


async def task(visit: Visit) -> Response:
    """A task: its life, its payload, its result or error, and what it needs."""
    ident = task_id((visit.query("id") or "").strip())
    try:
        view, needs, needed_by = await visit.site.call(
            lambda connection: (
                reading.task(connection, ident),
                listing.needs_of(connection, ident),
                listing.needed_by(connection, ident),
            )
        )
    except NoSuchTaskError as error:
        return visit.problem(404, str(error))
    part, problem = LivePart("task", task_id=ident), visit.site.poller.snapshot.problem
    live = visit.site.render("task_live.html", problem=problem, **task_values(view))
    return visit.show(
        "task.html", task=view, needs=needs, needed_by=needed_by, live=live, stream=part.address
    )


async def dead(visit: Visit) -> Response:
    """Dead letters of a filter, a page at a time."""
    chosen = DeadFilter(visit.query("group"), visit.query("type"), visit.query("reason"))
    before = None if visit.query("before") is None else task_id(visit.query("before") or "")
    rows = await visit.site.call(
        lambda connection: listing.dead_letters(connection, chosen, before, _LISTED + 1)
    )
    return await _living(
        visit,
        LivePart("dead"),
        "dead.html",
        letters=rows[:_LISTED],
        has_more=len(rows) > _LISTED,
        chosen=chosen,
        reasons_known=REASONS,
    )


async def schedules(visit: Visit) -> Response:
    """Schedules, and when each fires next."""
    return await _living(visit, LivePart("schedules"), "schedules.html")


async def _living(visit: Visit, part: LivePart, template: str, **given: Any) -> Response:
    text = part.render(visit.site, await visit.site.snapshot())
    return visit.show(template, live=text, stream=part.address, **given)


PAGES: Mapping[str, Callable[[Visit], Awaitable[Response]]] = {
    "/": overview,
    "/group": group,
    "/task": task,
    "/dead": dead,
    "/schedules": schedules,
}
"""By their paths."""
