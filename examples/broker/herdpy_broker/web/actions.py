"""What buttons do. Each leads back to its page, with a message, once the page shows what was done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.exceptions import HTTPException
from starlette.responses import Response

from herdpy_broker import groups, letters, schedule
from herdpy_broker.listing import DeadFilter
from herdpy_broker.retrying import retry_chosen, retry_each
from herdpy_broker.web.parts import task_id
from herdpy_broker.web.visit import Visit

MOST_RETRIED = 10_000
"""Dead letters that one press of a button takes up again."""


async def cancel(visit: Visit) -> Response:
    """Cancel a living task."""
    ident = await _id(visit)
    await visit.site.call(lambda connection: letters.cancel(connection, ident))
    return await visit.done(f"Task {ident} is cancelled.")


async def retry(visit: Visit) -> Response:
    """Take one dead letter up again."""
    ident = await _id(visit)
    await visit.site.call(lambda connection: letters.retry(connection, ident))
    return await visit.done(f"Task {ident} is tried again.")


async def retry_selected(visit: Visit) -> Response:
    """Take up again the dead letters that are selected."""
    ids = [task_id(text) for text in (await visit.form()).getlist("id")]
    if not ids:
        raise HTTPException(400, "select the tasks that are to be tried again")
    return await _retried(visit, await visit.site.call(lambda connection: retry_each(connection, ids)))


async def retry_all(visit: Visit) -> Response:
    """Take up again all dead letters of a filter, the first ``MOST_RETRIED``."""
    group, kind, reason = [await visit.given(name) or None for name in ("group", "type", "reason")]
    chosen = DeadFilter(group, kind, reason)
    return await _retried(
        visit, await visit.site.call(lambda connection: retry_chosen(connection, chosen, MOST_RETRIED))
    )


async def discard(visit: Visit) -> Response:
    """Give a dead letter up."""
    ident = await _id(visit)
    await visit.site.call(lambda connection: letters.discard(connection, ident))
    return await visit.done(f"Task {ident} is given up.")


async def set_group(visit: Visit) -> Response:
    """Set the weight and the limit of a group."""
    name, weight = await visit.given("name"), _whole("the weight", await visit.given("weight"))
    limit = (await visit.given("max_running")).strip()
    max_running = _whole("the limit", limit) if limit else 0
    await visit.site.call(
        lambda connection: groups.change_group(connection, name, weight=weight, max_running=max_running)
    )
    return await visit.done(f"Group {name} is set.")


async def pause_group(visit: Visit) -> Response:
    """Pause a group, or let it go on."""
    name, paused = await visit.given("name"), await visit.given("paused") == "true"
    await visit.site.call(lambda connection: groups.change_group(connection, name, paused=paused))
    return await visit.done(f"Group {name} {'is paused' if paused else 'goes on'}.")


async def pause_schedule(visit: Visit) -> Response:
    """Pause a schedule, or let it go on."""
    name, paused = await visit.given("name"), await visit.given("paused") == "true"
    await visit.site.call(lambda connection: schedule.pause(connection, name, paused))
    return await visit.done(f"Schedule {name} {'is paused' if paused else 'goes on'}.")


async def run_schedule(visit: Visit) -> Response:
    """Submit a schedule's task now."""
    name = await visit.given("name")
    ident = await visit.site.call(lambda connection: schedule.run_now(connection, name))
    return await visit.done(f"Schedule {name} has submitted task {ident}.")


async def _retried(visit: Visit, counts: tuple[int, int]) -> Response:
    done, missed = counts
    text = f"{done} {'task is' if done == 1 else 'tasks are'} tried again."
    if missed:
        text += f" {missed} {'was' if missed == 1 else 'were'} no dead letter any more."
    return await visit.done(text)


async def _id(visit: Visit) -> int:
    return task_id(await visit.given("id"))


def _whole(what: str, text: str) -> int:
    if not (text.strip().isascii() and text.strip().isdigit() and len(text) < 12):
        raise HTTPException(400, f"{what} is a whole number")
    return int(text)


ACTIONS: Mapping[str, Callable[[Visit], Awaitable[Response]]] = {
    "/task/cancel": cancel,
    "/dead/retry": retry,
    "/dead/retry-selected": retry_selected,
    "/dead/retry-all": retry_all,
    "/dead/discard": discard,
    "/group/set": set_group,
    "/group/pause": pause_group,
    "/schedules/pause": pause_schedule,
    "/schedules/run": run_schedule,
}
"""By their paths."""
