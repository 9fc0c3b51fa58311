"""A program with OpenTelemetry: its spans, the driver's and the server's are one tree, in one collector."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.collector import Collector
from tests.support.server_process import RunningServer

PROGRAM = """
import asyncio, sys
import herdpy, herdpy.aio
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

endpoint, url = sys.argv[1:]
with herdpy.connect(url) as early:  # there is no provider yet
    early.execute("CREATE TABLE ordered (a INT PRIMARY KEY, b TEXT)")
    early.commit()
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint, insecure=True)))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("program")


async def late(connection):
    async with connection:
        with tracer.start_as_current_span("async order") as span:
            await connection.execute("INSERT INTO ordered VALUES (2, %s)", ("x",))
            await connection.commit()
    return span


async def main():
    return await late(await herdpy.aio.connect(url))


with herdpy.connect(url) as connection, herdpy.connect(url + "&trace=off") as silent:
    connection.execute("SELECT 'before any span'")
    connection.rollback()
    with tracer.start_as_current_span("order") as order:
        for _ in range(4):  # prepared after two
            connection.execute("SELECT b FROM ordered WHERE a = %s", (1,))
        connection.execute("INSERT INTO ordered VALUES (1, %s)", ("x",))
        silent.execute("SELECT 'not this one'")
        connection.commit()
    silent.rollback()
asynchronous = asyncio.run(main())
provider.shutdown()
for span in (order, asynchronous):
    print(f"{span.get_span_context().trace_id:032x}")
"""


@pytest.fixture(scope="module")
def traces(
    server: RunningServer, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """The ids of the program's traces, after it has run."""
    program = tmp_path_factory.mktemp("program") / "program.py"
    program.write_text(PROGRAM)
    url = f"herdpy://127.0.0.1:{server.port}/test?user=ann"
    command = [sys.executable, "-W", "ignore", str(program), collector.endpoint, url]
    ran = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


@pytest.mark.parametrize(("which", "root"), [(0, "order"), (1, "async order")])
def test_program_driver_and_server_make_one_tree(
    traces: list[str], collector: Collector, which: int, root: str
) -> None:
    tree = collector.wait_for_names(traces[which], root, "log append", "COMMIT")
    collector.wait_for(
        lambda spans: (
            {"CLIENT", "SERVER"}
            <= {s.kind for s in spans if s.trace_id == traces[which] and "COMMIT" in s.name}
        )
    )
    tree.spans = [one for one in collector.spans if one.trace_id == traces[which]]
    way = [root, "COMMIT test", "COMMIT test", "durability wait", "log append", "apply"]
    assert tree.path(tree.one("apply")) == way
    clients = [one for one in tree.spans if one.kind == "CLIENT"]
    own = {"BEGIN", "SELECT herdpy.commit_position()"}  # of the driver, for a statement and a commit
    servers = [
        one for one in tree.spans if one.kind == "SERVER" and one.attributes["db.query.text"] not in own
    ]
    assert len(clients) == len(servers)
    by_id = {one.span_id: one for one in tree.spans}
    for one in servers:
        client = by_id[one.parent_id]
        assert client.kind == "CLIENT"
        assert client.name == one.name
        assert client.began_ns <= one.began_ns <= one.ended_ns <= client.ended_ns
        assert client.attributes["server.port"]


def test_what_is_in_no_span_is_not_traced(traces: list[str], collector: Collector) -> None:
    texts = [one.attributes.get("db.query.text", "") for one in collector.spans if one.kind == "SERVER"]
    assert not any(text.startswith("SELECT ?") for text in texts)
    assert {one.trace_id for one in collector.spans} == set(traces)
