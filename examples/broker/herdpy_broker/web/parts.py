"""The parts of pages that live: what each shows of a snapshot.

A part is named by the address of its stream (``/live?page=group&name=mail``). Its text depends on the
snapshot alone, so all browsers that show it share one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException

from herdpy_broker.overview import STATES, Overview
from herdpy_broker.poller import Snapshot
from herdpy_broker.rates import KINDS
from herdpy_broker.reading import TaskView
from herdpy_broker.sample import SETTLE_S
from herdpy_broker.web.visit import Site

_MOST_GROUPS = 200
_MOST_WORKERS = 200
_MOST_SHOWN = 64 << 10
"""Characters of a payload or a result."""


@dataclass(frozen=True, slots=True)
class LivePart:
    """A part that lives.

    Attributes:
        page: "overview", "group", "task", "dead" or "schedules".
        group, task_id: what a page of a group or of a task shows.
    """

    page: str
    group: str | None = None
    task_id: int | None = None

    @property
    def address(self) -> str:
        """Of its stream."""
        named = {"page": self.page, "name": self.group, "id": self.task_id}
        return f"/live?{urlencode({key: value for key, value in named.items() if value is not None})}"

    def render(self, site: Site, snapshot: Snapshot) -> str | None:
        """Its text, made once of each snapshot; None: the snapshot does not have it yet."""
        is_absent = self.task_id is not None and self.task_id not in snapshot.tasks
        if is_absent or snapshot.overview is None:
            return None
        if self.address not in snapshot.rendered:
            given = _values(self, site, snapshot, snapshot.overview)
            snapshot.rendered[self.address] = site.render(f"{self.page}_live.html", **given)
        return snapshot.rendered[self.address]


def live_part(query: Mapping[str, str]) -> LivePart:
    """The part that the address of a stream names.

    Raises:
        HTTPException: 404, it names none.
    """
    page = query.get("page", "")
    if page in {"overview", "dead", "schedules"}:
        return LivePart(page)
    if page == "group":
        return LivePart(page, group=query.get("name", ""))
    if page == "task":
        return LivePart(page, task_id=task_id(query.get("id", "")))
    raise HTTPException(404, "no such page lives")


def task_id(text: str) -> int:
    """A task's id.

    Raises:
        HTTPException: 400, it is none.
    """
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 19):
        raise HTTPException(400, "an id is a positive whole number")
    return int(text)


def _values(part: LivePart, site: Site, snapshot: Snapshot, found: Overview) -> dict[str, Any]:
    given: dict[str, Any] = {"problem": snapshot.problem, "overview": found, "states": STATES}
    if part.page == "overview":
        groups = sorted(found.all_groups(), key=lambda one: not any(one.counts.values()))  # with work first
        rates = site.poller.rates
        given |= {
            "groups": groups[:_MOST_GROUPS],
            "more_groups": len(groups) - _MOST_GROUPS,
            "workers": found.workers[:_MOST_WORKERS],
            "more_workers": len(found.workers) - _MOST_WORKERS,
            "rates": {kind: rates.rate(kind, found.at, SETTLE_S) for kind in KINDS},
            "series": {kind: rates.series(kind, found.at, SETTLE_S) for kind in KINDS},
            "reasons": _reasons(found),
        }
    elif part.page == "group":
        given["group"] = group = found.group(part.group or "")
        given["types"] = sorted(group.queues, key=lambda one: (one.type, one.state))
    elif part.page == "task":
        given |= task_values(snapshot.tasks[part.task_id or 0])
    elif part.page == "dead":
        given["reasons"] = _reasons(found)
    return given


def task_values(view: TaskView | None) -> dict[str, Any]:
    """What the part of a task shows; None: its history was forgotten."""
    return {
        "task": view,
        "lives": view is not None and view.state in STATES,
        "payload": None if view is None else _json_text(view.payload),
        "result": None if view is None else _json_text(view.result),
    }


def _json_text(value: Any) -> str | None:
    """JSON for people, cut where it is long; None for no value."""
    if value is None:
        return None
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}\n… ({len(text)} characters in all)"


def _reasons(found: Overview) -> Mapping[str, int]:
    reasons: dict[str, int] = {}
    for one in found.dead:
        reasons[one.reason] = reasons.get(one.reason, 0) + one.count
    return reasons
