"""Spans to a collector, by OpenTelemetry's exporters (OTLP over gRPC or HTTP), from a thread of its own.

Top of the package, and all that knows OpenTelemetry: it is imported when a server traces, and the extra
``tracing`` has it. The thread sends what the queue has, at most four times a second. A collector that is not
there, or slow, costs its spans and nothing else: the queue is bounded, what does not fit is dropped and
counted, and the end waits a bounded time for the last ones.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from herdpy_server.tracing.spans import CLIENT, SERVER, SpanQueue, SpanRecord

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

logger = logging.getLogger("herdpy.tracing")

INTERVAL_S: Final = 0.25
BATCH: Final = 512
_TIMEOUT_S: Final = 5.0
_SCOPE: Final = "herdpy"


class TracingUnavailableError(Exception):
    """Spans cannot be sent: the extra is not installed, or the endpoint is no address."""


def make_exporter(protocol: str, endpoint: str, headers: Mapping[str, str]) -> SpanExporter:
    """OpenTelemetry's exporter. TracingUnavailableError when there can be none.

    Args:
        protocol: "grpc" or "http/protobuf". endpoint: a URL; of HTTP with its path, such as /v1/traces.
    """
    # They log each failure with its traceback; this module says it once.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    try:
        if protocol == "grpc":
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

            return OTLPSpanExporter(
                endpoint=endpoint,
                insecure=not endpoint.startswith("https://"),
                headers=dict(headers),
                timeout=_TIMEOUT_S,
            )
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

        return HttpExporter(endpoint=endpoint, headers=dict(headers), timeout=_TIMEOUT_S)
    except ImportError as error:
        raise TracingUnavailableError(
            f"tracing needs OpenTelemetry ({error.name} is missing): install herdpydb[tracing]"
        ) from error
    except ValueError as error:
        raise TracingUnavailableError(f"tracing.endpoint: {error}") from error


class SpanSender:
    """The thread that sends; a context for the time that a server serves."""

    def __init__(self, queue: SpanQueue, exporter: SpanExporter, resource: Mapping[str, str]) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._queue = queue
        self._exporter = exporter
        self._resource = Resource(dict(resource))
        self._scope = InstrumentationScope(_SCOPE)
        self._stop = threading.Event()
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="herdpy-tracing", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Send what is left, for so long at most; blocks. What is not sent then is lost."""
        self._stop.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._exporter.shutdown()  # wakes it, where it waits to try again
            self._thread.join(1.0)

    def _run(self) -> None:
        stopping = False
        while not stopping:
            stopping = self._stop.wait(INTERVAL_S)
            while spans := self._queue.take(BATCH):
                self._send(spans)
                if stopping and self._is_failing:
                    break
        self._exporter.shutdown()

    def _send(self, spans: Sequence[SpanRecord]) -> None:
        queue = self._queue
        try:
            result = self._exporter.export([readable(one, self._resource, self._scope) for one in spans])
            failure = "" if result.name == "SUCCESS" else "the collector does not take them"
        except Exception as error:  # noqa: BLE001 - whatever it is, only spans are lost
            failure = f"{type(error).__name__}: {error}"
        if failure:
            queue.failed += len(spans)
            if not self._is_failing:
                logger.warning("spans cannot be sent, and are lost: %s", failure)
        else:
            queue.exported += len(spans)
            if self._is_failing:
                logger.info("spans are sent again")
        self._is_failing = bool(failure)


def readable(span: SpanRecord, resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    """A span as OpenTelemetry's exporters take it."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode

    kinds = {SERVER: SpanKind.SERVER, CLIENT: SpanKind.CLIENT}
    status = Status(StatusCode.ERROR, span.error) if span.error else Status()
    return ReadableSpan(
        span.name,
        context=_context(span.trace_id, span.span_id),
        parent=_context(span.trace_id, span.parent_id) if span.parent_id else None,
        resource=resource,
        attributes=span.attributes,
        links=[Link(_context(*one)) for one in span.links],
        kind=kinds.get(span.kind, SpanKind.INTERNAL),
        status=status,
        start_time=span.began_ns,
        end_time=span.ended_ns,
        instrumentation_scope=scope,
    )


def _context(trace_id: int, span_id: int) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
