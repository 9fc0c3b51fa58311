"""A collector of OpenTelemetry in this process, for tests: OTLP over gRPC and HTTP; what came, as trees."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as stubs
from opentelemetry.proto.trace.v1 import trace_pb2

PATIENCE_S = 60.0


@dataclass
class Collected:
    """A span as it came."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: str
    began_ns: int
    ended_ns: int
    error: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    links: list[tuple[str, str]] = field(default_factory=list)


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


class Collector:
    """Context manager. ``endpoint`` is for gRPC, ``http_endpoint`` for HTTP.

    Attributes:
        spans: what has come so far. refuses: answer no request as it wants it.
        headers: those of the last request.
    """

    def __init__(self) -> None:
        self.spans: list[Collected] = []
        self.headers: dict[str, str] = {}
        self._changed = threading.Condition()
        self._server = grpc.server(ThreadPoolExecutor(2))
        stubs.add_TraceServiceServicer_to_server(_Servicer(self), self._server)  # type: ignore[no-untyped-call]
        self.endpoint = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.http_endpoint = f"http://127.0.0.1:{self._http.server_address[1]}/v1/traces"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    def __enter__(self) -> Collector:
        self._server.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    import gzip

                    body = gzip.decompress(body)
                collector.headers = {name.lower(): value for name, value in self.headers.items()}
                collector.take(service.ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def take(self, request: Any) -> None:
        """Keep the spans of one request."""
        with self._changed:
            for group in request.resource_spans:
                resource = _attributes(group.resource.attributes)
                for scope in group.scope_spans:
                    self.spans += [_collected(one, resource) for one in scope.spans]
            self._changed.notify_all()

    def wait_for(self, enough: Callable[[list[Collected]], object]) -> list[Collected]:
        """All spans, once there are enough of them; fails when that is not so in time."""
        with self._changed:
            there = self._changed.wait_for(lambda: enough(self.spans), PATIENCE_S)
            found = list(self.spans)
        came = Counter((one.trace_id, one.name, one.error) for one in found)
        assert there, "these spans came:\n" + "\n".join(f"{number} {one}" for one, number in came.items())
        return found

    def wait_for_names(self, trace_id: str, *names: str) -> Tree:
        """The spans of a trace, once those with these names are among them."""

        def enough(spans: list[Collected]) -> bool:
            there = {one.name for one in spans if one.trace_id == trace_id}
            return all(any(name in found for found in there) for name in names)

        return Tree([one for one in self.wait_for(enough) if one.trace_id == trace_id])


class Tree:
    """The spans of one trace."""

    def __init__(self, spans: list[Collected]) -> None:
        self.spans = spans

    def one(self, name: str) -> Collected:
        """The only span of this name."""
        (found,) = self.all(name)
        return found

    def all(self, name: str) -> list[Collected]:
        """Those of this name, in order of their beginnings."""
        return sorted((one for one in self.spans if one.name == name), key=lambda one: one.began_ns)

    def path(self, span: Collected) -> list[str]:
        """The names from the first span to this one."""
        by_id = {one.span_id: one for one in self.spans}
        names = [span.name]
        while span.parent_id in by_id:
            span = by_id[span.parent_id]
            names.append(span.name)
        return names[::-1]


def _collected(span: Any, resource: dict[str, Any]) -> Collected:
    return Collected(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        trace_pb2.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.message if span.status.code == trace_pb2.Status.STATUS_CODE_ERROR else "",
        _attributes(span.attributes),
        resource,
        [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
    )


class _Servicer(stubs.TraceServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request: Any, context: Any) -> Any:
        self._collector.headers = dict(context.invocation_metadata())
        self._collector.take(request)
        return service.ExportTraceServiceResponse()
