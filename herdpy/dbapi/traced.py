"""A link whose statements are spans of the caller's trace, and say so to the server.

Beside ``link``; ``address`` wraps a link with it where the option ``trace`` says so. A statement, a commit or
a rollback is a span of the kind CLIENT while a span of the caller is recording; a server that traces puts
its own below it (``traceparent``, W3C). Without a recording span nothing is made, and nothing is sent.
OpenTelemetry is the program's: ``auto`` uses it where the program has given it a tracer provider, and never
loads it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from herdpy._version import __version__
from herdpy.dbapi.errors import Error, InterfaceError
from herdpy.dbapi.link import Link, Notice, Notification, StatementResult, TransactionStatus

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.dbapi.parameters import Translation

T = TypeVar("T")

MODES = ("auto", "on", "off")
"""Of the option ``trace``; auto: of servers, where the program has a tracer provider when it connects."""
_SYSTEM: Final = "postgresql"
_API: Final = "opentelemetry.trace"
_WORD: Final = 32


def is_wanted(mode: str, *, of_servers: bool) -> bool:
    """Whether a connection with this option is traced. InterfaceError for "on" without OpenTelemetry."""
    if mode == "off":
        return False
    if mode == "auto":
        return of_servers and _has_provider()
    try:
        import opentelemetry.trace  # noqa: F401 - whether it is there
    except ImportError as error:
        raise InterfaceError(
            "option trace is on, and OpenTelemetry is not installed", hint="Install opentelemetry-api."
        ) from error
    return True


def _has_provider() -> bool:
    """Whether the program has given OpenTelemetry a tracer provider."""
    api = sys.modules.get(_API)
    return api is not None and not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider)


class TracedLink:
    """A link, traced.

    Args:
        say: has the server know the span that statements are part of; "" for none. None: there is no server.
        attributes: of every span.
    """

    def __init__(
        self, link: Link, name: str, address: tuple[str, int] | None, say: Callable[[str], object] | None
    ) -> None:
        from opentelemetry import trace

        self.traced = link
        self.said = link.said
        self._trace = trace
        self._tracer = trace.get_tracer("herdpy", __version__)
        self._say = say
        self._name = name
        self._attributes: dict[str, str | int] = {"db.system.name": _SYSTEM, "db.namespace": name}
        if address is not None:
            self._attributes |= {"server.address": address[0], "server.port": address[1]}

    @contextlib.contextmanager
    def _span(self, operation: str) -> Iterator[Any]:
        """A span below the caller's, where that is recording, which the server is given."""
        trace = self._trace
        if not trace.get_current_span().is_recording():
            yield None
            return
        attributes = {**self._attributes, "db.operation.name": operation}
        with self._tracer.start_as_current_span(
            f"{operation} {self._name}",
            kind=trace.SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            context = span.get_span_context()
            if self._say is not None:
                self._say(f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}")
            try:
                yield span
            except Error as error:
                state = error.sqlstate or "XX000"
                span.set_attribute("db.response.status_code", state)
                span.set_attribute("error.type", state)
                span.set_status(trace.Status(trace.StatusCode.ERROR, state))
                raise
            finally:
                if self._say is not None:
                    self._say("")

    @property
    def autocommit(self) -> bool:
        """See Link."""
        return self.traced.autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self.traced.autocommit = value

    @property
    def commit_position(self) -> str | None:
        """Of its newest commit, as far as a server has reported it."""
        return getattr(self.traced, "commit_position", None)

    def execute(
        self, sql: str, params: Sequence[object] = (), source: Translation | None = None
    ) -> StatementResult:
        """See Link."""
        with self._span(_word(sql)) as span:
            return _counted(self.traced.execute(sql, params, source), span)

    def execute_arrow(
        self, sql: str, params: Sequence[object] = (), source: Translation | None = None
    ) -> StatementResult:
        """See Link."""
        with self._span(_word(sql)) as span:
            return _counted(self.traced.execute_arrow(sql, params, source), span)

    def execute_script(self, text: str) -> list[StatementResult]:
        """See Link."""
        with self._span(_word(text)):
            return self.traced.execute_script(text)

    def execute_many(self, statement: Translation, rows: Iterable[Sequence[object]]) -> StatementResult:
        """See Link."""
        with self._span(_word(statement.sql)) as span:
            return _counted(self.traced.execute_many(statement, rows), span)

    def ingest(
        self,
        table: str,
        data: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        mode: str,
        within: str | None = None,
    ) -> int:
        """See Link."""
        with self._span("COPY"):
            return self.traced.ingest(table, data, schema, mode, within)

    def commit(self) -> None:
        """See Link."""
        self._end("COMMIT", self.traced.commit)

    def rollback(self) -> None:
        """See Link."""
        self._end("ROLLBACK", self.traced.rollback)

    def _end(self, operation: str, end: Callable[[], None]) -> None:
        if self.traced.status() == TransactionStatus.IDLE:
            end()  # nothing is open, and nothing is sent
            return
        with self._span(operation):
            end()

    def close_cursor(self, name: str) -> None:
        """See Link."""
        self.traced.close_cursor(name)

    def limited(self, seconds: float) -> AbstractContextManager[None]:
        """See Link."""
        return self.traced.limited(seconds)

    def take_notices(self) -> list[Notice]:
        """See Link."""
        return self.traced.take_notices()

    def take_notification(self, timeout_s: float) -> Notification | None:
        """See Link."""
        return self.traced.take_notification(timeout_s)

    def cancel(self) -> None:
        """See Link."""
        self.traced.cancel()

    def status(self) -> TransactionStatus:
        """See Link."""
        return self.traced.status()

    def close(self) -> None:
        """See Link."""
        self.traced.close()


def _word(sql: str) -> str:
    """A statement's first word, in capitals: what it does."""
    word = sql.lstrip(" \t\r\n(")[:_WORD].split(None, 1)
    first = word[0].rstrip(";").upper() if word else ""
    return first if first.isalpha() else "QUERY"


def _counted(result: StatementResult, span: Any) -> StatementResult:
    if span is not None and result.rowcount >= 0:
        span.set_attribute("db.response.returned_rows", result.rowcount)
    return result
