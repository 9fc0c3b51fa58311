"""Pages that live: server-sent events, one stream a page, made of the poller's snapshots alone.

A stream sends the part of its page that lives as often as that changes, and a comment when nothing has been
sent for ``BEAT_S``, so that both sides notice when the other is gone. It ends with its session, with the
server, and after ``LONGEST_S`` (the browser begins a new one then).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from herdpy_broker.web.parts import LivePart, live_part
from herdpy_broker.web.sessions import Sessions
from herdpy_broker.web.visit import COOKIE, Visit

BEAT_S = 15.0
LONGEST_S = 3600.0


class Streams:
    """The streams that are open.

    Args:
        sessions: a stream ends with the one that it was opened in.
        most: one more is refused (503), and tried again by the browser later.
    """

    def __init__(self, sessions: Sessions, most: int, beat_s: float) -> None:
        self._sessions = sessions
        self._most = most
        self._beat_s = beat_s
        self.open = 0

    async def answer(self, visit: Visit) -> Response:
        """A stream for the page that the address names."""
        part = live_part(visit.request.query_params)
        if self.open >= self._most:
            return PlainTextResponse("503: too many pages are live\n", 503, {"retry-after": "10"})
        return _Stream(self, self._events(visit, part))

    async def _events(self, visit: Visit, part: LivePart) -> AsyncIterator[str]:
        poller = visit.site.poller
        cookie, until_s = visit.request.cookies.get(COOKIE, ""), time.monotonic() + LONGEST_S
        sent: str | None = None
        version = -1
        yield "retry: 2000\n\n"
        with poller.viewer(part.task_id):
            while self._sessions.find(cookie) is visit.session and time.monotonic() < until_s:
                try:
                    async with asyncio.timeout(self._beat_s):
                        snapshot = await poller.newer_than(version)
                except TimeoutError:
                    yield ": beat\n\n"
                    continue
                if snapshot is None:
                    return
                version, text = snapshot.version, part.render(visit.site, snapshot)
                if text is not None and text != sent:
                    sent = text
                    yield _event(text)


class _Stream(StreamingResponse):
    """A stream that is counted while it is open."""

    def __init__(self, streams: Streams, events: AsyncIterator[str]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._streams.open += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.open -= 1


def _event(text: str) -> str:
    """An event of several lines."""
    return "".join(f"data: {line}\n" for line in text.splitlines()) + "\n"
