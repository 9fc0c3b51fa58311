"""Traces: what became of a statement, from its client to the bookies, as OpenTelemetry's spans.

``traceparent`` (the context that a client sends) and ``spans`` (records, and their queue) at the bottom,
``statements`` and ``entries`` (which make them) above, ``exporter`` (which sends them) on top. Sessions and
the log know a watch, or none: where a server does not trace, there is nothing of this in their way.
"""

from herdpy_server.tracing.entries import EntryTracer
from herdpy_server.tracing.spans import SpanQueue
from herdpy_server.tracing.statements import SessionTrace, StatementTracer
from herdpy_server.tracing.traceparent import Parent, parse_traceparent, without_traceparent

__all__ = [
    "EntryTracer",
    "Parent",
    "SessionTrace",
    "SpanQueue",
    "StatementTracer",
    "parse_traceparent",
    "without_traceparent",
]
