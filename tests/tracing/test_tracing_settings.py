"""What is recorded without a client's word, over HTTP, and with a collector that is not there."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest

from herdpy.log import LSN
from herdpy_server.tracing import EntryTracer, SessionTrace, StatementTracer
from herdpy_server.tracing.spans import SpanQueue, SpanRecord
from tests.support.collector import Collector
from tests.support.server_process import RunningServer

STATEMENTS = 12


def rows_of(server: RunningServer) -> None:
    """A row that is read and written by its key, prepared, in blocks and without."""
    with server.connect(autocommit=True) as client:
        client.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
        client.execute("INSERT INTO t VALUES (1, 0)")
        for number in range(STATEMENTS):
            client.execute("UPDATE t SET b = %s WHERE a = %s", (number, 1), prepare=True)
            assert client.execute("SELECT b FROM t WHERE a = %s", (1,), prepare=True).fetchone() == (number,)
        with client.transaction():
            client.execute("UPDATE t SET b = %s WHERE a = %s", (99, 1), prepare=True)
            with pytest.raises(psycopg.Error), client.transaction():
                client.execute("INSERT INTO t VALUES (1, 1)")
        assert client.execute("SELECT b FROM t").fetchone() == (99,)


def test_all_is_recorded_where_the_ratio_is_one(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("authorization: Bearer abc\n\nX-Scope: shop\n")
    with Collector() as collector:
        given = [
            f"tracing.endpoint={collector.http_endpoint}",
            "tracing.protocol=http/protobuf",
            "tracing.sample_ratio=1",
            "tracing.query_text=full",
            f"tracing.headers_file={headers}",
        ]
        server = RunningServer(tmp_path / "data", *[word for one in given for word in ("--set", one)]).ready()
        try:
            rows_of(server)
            spans = collector.wait_for(
                lambda spans: sum(one.kind == "SERVER" for one in spans) >= 2 * STATEMENTS + 8
            )
        finally:
            server.close()
        texts = [one.attributes["db.query.text"] for one in spans if one.kind == "SERVER"]
        assert "INSERT INTO t VALUES (1, 0)" in texts
        assert texts.count("UPDATE t SET b = $1 WHERE a = $2") == STATEMENTS + 1
        assert texts.count("SELECT b FROM t WHERE a = $1") == STATEMENTS
        roots = [one for one in spans if not one.parent_id and one.kind == "SERVER"]
        assert len(roots) >= 2 * STATEMENTS
        # The block of three statements and a savepoint is one trace, below its BEGIN.
        (begin,) = [one for one in roots if one.name.startswith("BEGIN")]
        inside = [
            one.name.split()[0] for one in spans if one.parent_id == begin.span_id and one.kind == "SERVER"
        ]
        assert {"BEGIN", "COMMIT", "INSERT", "ROLLBACK", "UPDATE"} <= set(inside)
        assert collector.headers["authorization"] == "Bearer abc"
        assert collector.headers["x-scope"] == "shop"


@pytest.mark.parametrize("protocol", ["grpc", pytest.param("http/protobuf", marks=pytest.mark.soak)])
def test_a_collector_that_is_not_there_costs_its_spans_alone(tmp_path: Path, protocol: str) -> None:
    given = [
        "tracing.endpoint=http://127.0.0.1:1/v1/traces",  # nothing listens there
        f"tracing.protocol={protocol}",
        "tracing.sample_ratio=1",
        "tracing.queue=16",
    ]
    server = RunningServer(tmp_path / "data", *[word for one in given for word in ("--set", one)]).ready()
    try:
        rows_of(server)
        dropped = next(
            float(line.split()[1])
            for line in server.get("/metrics")[1].splitlines()
            if line.startswith('herdpy_trace_spans_total{outcome="dropped"}')
        )
        assert dropped > 0
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 20  # the last spans are not waited for
    finally:
        server.close()


def test_a_queue_that_is_full_drops_and_counts() -> None:
    queue = SpanQueue(2)
    for number in range(5):
        queue.put(SpanRecord(f"{number}", 1, 0).ends())
    assert queue.dropped == 3
    assert [one.name for one in queue.take(10)] == ["0", "1"]
    assert len(queue) == 0


class BrokenQueue(SpanQueue):
    """Takes nothing."""

    def put(self, span: SpanRecord) -> None:
        raise ValueError(span.name)


def test_a_mistake_in_a_watch_costs_its_spans_alone(caplog: pytest.LogCaptureFixture) -> None:
    queue = BrokenQueue(5)
    tracer = StatementTracer(queue, ratio=1.0, kind_of=str.upper, shown=lambda text, _chars: text)
    heard: list[str] = []
    session = SessionTrace(tracer, "d", lambda text, *_: heard.append(text), lambda: False)
    session.current = session.admit(None)
    span = session.child("plan")
    assert span is not None
    span.end()
    session.observe("select", 0.1, 1, None)
    entries = EntryTracer(queue, tracer.commits, ratio=1.0, log="l", tablespace="t")
    applying = entries.applying(LSN(1, 2))
    assert applying is not None
    entries.end(applying)
    assert heard == ["select"]
    assert session.current is None
    assert len(caplog.records) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["tracing.endpoint=localhost:4317"], "no URL with http"),
        (["tracing.endpoint=http://127.0.0.1:4318", "tracing.protocol=http/protobuf"], "/v1/traces"),
        (["tracing.endpoint=http://127.0.0.1:1", "tracing.sample_ratio=1.5"], "tracing.sample_ratio"),
        (["tracing.endpoint=http://127.0.0.1:1", "tracing.headers_file=/nowhere"], "cannot be read"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, settings: list[str], message: str) -> None:
    server = RunningServer(tmp_path / "data", *[word for one in settings for word in ("--set", one)])
    try:
        assert server.wait() == 2
    finally:
        server.close()
