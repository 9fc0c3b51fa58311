"""Who leads, as the servers themselves say: every change becomes an event of the history.

Layer: above control (the view) and recorder, below the runner. Each server is asked at /status by a thread of
its own, so that one which is paused holds up nobody. One that refuses connections does not lead; one that is
silent leads until another says so, or until it was silent for a while.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from types import TracebackType
from typing import Any, Self

from herdpy.drill.control import ClusterObserver, ProcessPlace
from herdpy.drill.recorder import Recorder

_EVERY_S = 0.1
_SILENT_S = 3.0
_PAGE_TIMEOUT_S = 1.0


class LeaderWatch:
    """Adds an event "leader" whenever another server leads, or none; a context manager."""

    def __init__(self, view: ClusterObserver, recorder: Recorder) -> None:
        self._tablespace = view.tablespace
        self._recorder = recorder
        self._said: dict[str, tuple[float, int | None]] = {}  # when, and the term that it leads
        self._leader: str | None = None
        self._has_told = False
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(place,), name=f"drill-watch-{place.name}", daemon=True)
            for place in view.places("server")
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, place: ProcessPlace) -> None:
        while not self._over.is_set():
            try:
                told = _standing(place, self._tablespace)
                term = int(told["epoch"]) if told.get("role") == "leader" else None
                said: tuple[float, int | None] | None = (time.monotonic(), term)
            except OSError as error:
                said = None if isinstance(error, TimeoutError) or _is_timeout(error) else (0.0, None)
            with self._lock:
                if said is not None:
                    self._said[place.name] = said
                self._note()
            self._over.wait(_EVERY_S)

    def _note(self) -> None:
        now = time.monotonic()
        leading = [
            (term, name)
            for name, (said_at, term) in self._said.items()
            if term is not None and now - said_at < _SILENT_S
        ]
        term, leader = max(leading) if leading else (None, None)
        if self._has_told and leader == self._leader:
            return
        if not self._has_told and leader is None:
            return  # not everybody was asked yet
        self._has_told, self._leader = True, leader
        if leader is None:
            self._recorder.event("leader", "nobody leads", server=None)
        else:
            self._recorder.event("leader", f"{leader} leads", server=leader, epoch=term)


def _standing(place: ProcessPlace, tablespace: str) -> dict[str, Any]:
    """What a server says of its replica; {} of one that it has not. Raises OSError."""
    url = f"http://{place.host}:{place.ports['http']}/status"
    with urllib.request.urlopen(url, timeout=_PAGE_TIMEOUT_S) as answer:
        told = json.load(answer)
    return next((one for one in told["tablespaces"] if one["name"] == tablespace), {})


def _is_timeout(error: OSError) -> bool:
    return isinstance(getattr(error, "reason", None), TimeoutError)
