"""A server's traces: what is made of the configuration, and what metrics show of it.

Above ``herdpy_server.tracing``, below ``server``. A server whose configuration names no endpoint has none of
this, and OpenTelemetry is not imported.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from socket import gethostname
from time import time
from typing import TYPE_CHECKING

from herdpy.log.log_counts import SYNC_S
from herdpy_server.process.statements import BUCKETS_S, kind_of, shown
from herdpy_server.tracing import EntryTracer, SpanQueue, StatementTracer
from herdpy_server.tracing.exporter import SpanSender, TracingUnavailableError, make_exporter

if TYPE_CHECKING:
    from herdpy_server.cluster.tablespaces import TablespaceInfo
    from herdpy_server.config.sections import TracingSection

Exemplar = tuple[int, float, float]
"""A trace's id, what was observed, and when (seconds since 1970 UTC)."""


class Exemplars:
    """The newest trace of each bucket of some histograms, for metrics to point at."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._newest: dict[tuple[str, int], Exemplar] = {}

    def observe(self, label: str, seconds: float, trace_id: int) -> None:
        """Something took so long, and its trace is recorded."""
        self._newest[label, bisect_left(self._bounds, seconds)] = trace_id, seconds, time()

    def of(self, label: str) -> dict[int, Exemplar]:
        """The newest by buckets, of one series."""
        return {bucket: one for (name, bucket), one in list(self._newest.items()) if name == label}


def headers_of(path: str) -> dict[str, str]:
    """The headers in a file, by their names in small letters; none without a file.

    Raises:
        TracingUnavailableError: it cannot be read, or a line is no header; the message has no value.
    """
    if not path:
        return {}
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TracingUnavailableError(f"tracing.headers_file: {path} cannot be read: {error}") from error
    found = {}
    for number, line in enumerate(lines, 1):
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon or not name.strip() or not value.strip():
            raise TracingUnavailableError(f"tracing.headers_file: line {number} of {path} is not name: value")
        found[name.strip().lower()] = value.strip()
    return found


class ServerTracing:
    """What a server that traces has. TracingUnavailableError when it cannot.

    Attributes:
        statements: is given the statements of sessions.
        queue: of spans, with the counts of what became of them.
        of_statements, of_syncs: exemplars by kinds of statements, and by tablespaces.
    """

    def __init__(self, config: TracingSection, version: str, node: str) -> None:
        self.queue = SpanQueue(config.queue)
        self.of_statements = Exemplars(BUCKETS_S)
        self.of_syncs = Exemplars(SYNC_S)
        self._ratio = config.sample_ratio
        self.statements = StatementTracer(
            self.queue,
            ratio=config.sample_ratio,
            kind_of=kind_of,
            shown=shown,
            query_text=config.query_text,
            query_chars=config.query_chars,
            ended=self.of_statements.observe,
        )
        resource = {
            "service.name": config.service_name,
            "service.version": version,
            "service.instance.id": node or gethostname(),
            "host.name": gethostname(),
        }
        exporter = make_exporter(config.protocol, config.endpoint, headers_of(config.headers_file))
        self._sender = SpanSender(self.queue, exporter, resource)
        self._tracers: dict[str, EntryTracer] = {}

    def start(self) -> None:
        """Begin to send spans."""
        self._sender.start()

    def stop(self, timeout_s: float) -> None:
        """Send what is left, for so long at most; blocks."""
        self._sender.stop(timeout_s)

    def of_log(self, log: str, tablespace: str) -> EntryTracer:
        """What is given the entries of a log: ``log`` names it on all replicas alike."""
        found = self._tracers.get(log)
        if found is None:
            synced: Callable[[float, int], object] = partial(self.of_syncs.observe, tablespace)
            found = self._tracers[log] = EntryTracer(
                self.queue,
                self.statements.commits,
                ratio=self._ratio,
                log=log,
                tablespace=tablespace,
                synced=synced,
            )
        return found

    def of_tablespace(self, info: TablespaceInfo) -> EntryTracer:
        """The same, of a tablespace of the cluster."""
        return self.of_log(info.uuid, info.name)
