"""Spans, before an exporter takes them: plain records in a bounded queue. Nothing of OpenTelemetry here.

What makes spans runs on the server's loop and must not wait, so a span is a record with integers, and a
full queue drops it and counts that. The exporter's thread (``exporter``) takes them from the other end.
"""

from __future__ import annotations

import functools
import logging
import random
from collections import deque
from collections.abc import Callable
from time import time_ns
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
logger = logging.getLogger("herdpy.tracing")


def harmless(method: Callable[P, R]) -> Callable[P, R | None]:
    """What sessions and the log call: a mistake in it is logged, and costs a span, never a commit."""

    @functools.wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return method(*args, **kwargs)
        except Exception:
            logger.exception("a span is lost: %s failed", method.__qualname__)
            return None

    return guarded


Attributes = dict[str, str | int | float | bool]
Reference = tuple[int, int]
"""A span by its trace's and its own id."""

SERVER: Final = "server"
INTERNAL: Final = "internal"
CLIENT: Final = "client"

_bits = random.getrandbits


def new_trace_id() -> int:
    """An id that no other trace has."""
    return _bits(128) or 1


def new_span_id() -> int:
    """An id that no other span of its trace has."""
    return _bits(64) or 1


class SpanRecord:
    """One step of a trace.

    Attributes:
        name: what it does.
        trace_id, span_id, parent_id: parent_id 0: it is the first of its trace.
        kind: SERVER, INTERNAL or CLIENT.
        began_ns, ended_ns: nanoseconds since 1970 UTC; ended_ns 0 while it is under way.
        attributes: what is known of it.
        links: spans that it belongs to besides its parent.
        error: a short text for a step that failed; "" for one that did not.
    """

    __slots__ = (
        "attributes",
        "began_ns",
        "ended_ns",
        "error",
        "kind",
        "links",
        "name",
        "parent_id",
        "span_id",
        "trace_id",
    )

    def __init__(
        self,
        name: str,
        trace_id: int,
        parent_id: int,
        *,
        kind: str = INTERNAL,
        began_ns: int = 0,
        span_id: int = 0,
        attributes: Attributes | None = None,
    ) -> None:
        self.name = name
        self.trace_id = trace_id
        self.span_id = span_id or new_span_id()
        self.parent_id = parent_id
        self.kind = kind
        self.began_ns = began_ns or time_ns()
        self.ended_ns = 0
        self.attributes: Attributes = {} if attributes is None else attributes
        self.links: tuple[Reference, ...] = ()
        self.error = ""

    def ends(self, at_ns: int = 0) -> SpanRecord:
        """It is over; never before it began, though the clock was set. Itself."""
        self.ended_ns = max(at_ns or time_ns(), self.began_ns)
        return self


class SpanQueue:
    """Spans that wait for the exporter.

    Attributes:
        dropped: how many found it full. exported: how many the collector has taken.
        failed: how many it has not, after which they were given up.
    """

    def __init__(self, most: int) -> None:
        self._spans: deque[SpanRecord] = deque()
        self._most = most
        self.dropped = self.exported = self.failed = 0

    def __len__(self) -> int:
        return len(self._spans)

    def put(self, span: SpanRecord) -> None:
        """Take a span that is over; never waits, never raises."""
        if len(self._spans) >= self._most:
            self.dropped += 1
        else:
            self._spans.append(span)

    def take(self, most: int) -> list[SpanRecord]:
        """The oldest ones, which are the caller's then; from any thread."""
        spans = self._spans
        taken: list[SpanRecord] = []
        while spans and len(taken) < most:
            taken.append(spans.popleft())
        return taken
