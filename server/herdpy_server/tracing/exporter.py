"""Spans to a collector, by OpenTelemetry's exporters (OTLP over gRPC or HTTP), from a thread of its own.

Top of the package, and all that knows OpenTelemetry: it is imported when a server traces, and the extra
``tracing`` has it. The thread sends what the queue has, at most four times a second. A collector that is not
there, or slow, costs its spans and nothing else: the queue is bounded, what does not fit is dropped and
counted, and the end waits a bounded time for the last ones.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from herdpy_server.tracing.spans import CLIENT, SERVER, SpanQueue, SpanRecord

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

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
        self._queue = queue
        self._exporter = exporter
        self._form = SpanForm(resource)
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
            result = self._exporter.export([self._form.of(one) for one in spans])
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


class SpanForm:
    """Makes of spans what OpenTelemetry's exporters take; all of one server.

    Args:
        resource: what made them.
    """

    def __init__(self, resource: Mapping[str, str]) -> None:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._made: Callable[..., ReadableSpan] = ReadableSpan
        self._context: Callable[..., Any] = trace.SpanContext
        self._link: Callable[..., Any] = trace.Link
        self._status: Callable[..., Any] = trace.Status
        self._error = trace.StatusCode.ERROR
        self._fine = trace.Status()
        self._sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)
        self._kinds = {SERVER: trace.SpanKind.SERVER, CLIENT: trace.SpanKind.CLIENT}
        self._internal = trace.SpanKind.INTERNAL
        self._resource = Resource(dict(resource))
        self._scope = InstrumentationScope(_SCOPE)

    def of(self, span: SpanRecord) -> ReadableSpan:
        """A span."""
        trace_id, sampled = span.trace_id, self._sampled
        parent = self._context(trace_id, span.parent_id, False, sampled) if span.parent_id else None
        return self._made(
            span.name,
            context=self._context(trace_id, span.span_id, False, sampled),
            parent=parent,
            resource=self._resource,
            attributes=span.attributes,
            links=[self._link(self._context(*one, False, sampled)) for one in span.links],
            kind=self._kinds.get(span.kind, self._internal),
            status=self._status(self._error, span.error) if span.error else self._fine,
            start_time=span.began_ns,
            end_time=span.ended_ns,
            instrumentation_scope=self._scope,
        )
