"""A real server's spans, as a collector gets them: which there are, how they hang together, what they say."""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import herdpy
from tests.support.collector import Collector
from tests.support.server_process import RunningServer
from tests.tracing.conftest import Context

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def test_a_commit_is_one_tree_from_its_client_to_the_log(client, collector: Collector, context: Context):
    client.execute("CREATE TABLE paid (a INT PRIMARY KEY, b TEXT)")
    client.execute(context.on("INSERT INTO paid VALUES (1, 'x')"))
    tree = collector.wait_for_names(context.trace_id, "INSERT")
    root = tree.one("INSERT test")
    assert (root.parent_id, root.kind, root.error) == (context.span_id, "SERVER", "")
    assert root.resource["service.name"] == "shop-db"
    expected = {
        "db.system.name": "postgresql",
        "db.namespace": "test",
        "db.operation.name": "INSERT",
        "db.query.text": "INSERT INTO paid VALUES (?, ?)",
        "db.response.returned_rows": 1,
    }
    assert root.attributes == expected
    assert tree.path(tree.one("apply")) == ["INSERT test", "durability wait", "log append", "apply"]
    assert {tree.path(tree.one(name))[0] for name in ("plan", "execute")} == {"INSERT test"}
    wait, append = tree.one("durability wait"), tree.one("log append")
    assert wait.attributes == {name: append.attributes[name] for name in wait.attributes}
    assert set(wait.attributes) == {"herdpy.ledger_id", "herdpy.entry_id"}
    for one in tree.spans:
        assert root.began_ns <= one.began_ns <= one.ended_ns <= root.ended_ns


def test_what_a_client_does_not_record_is_not_recorded(client, collector: Collector, context: Context):
    before = len(collector.spans)
    client.execute("SELECT 1")
    client.execute(context.on("SELECT 2").replace("-01'", "-00'"))
    client.execute(context.on("SELECT 3"))
    collector.wait_for_names(context.trace_id, "SELECT")
    assert {one.trace_id for one in collector.spans[before:]} <= {context.trace_id}
    assert [one.attributes["db.query.text"] for one in collector.spans if one.kind == "SERVER"][
        -1
    ] == "SELECT ?"


def test_a_failed_statement_has_its_sqlstate(client, collector: Collector, context: Context):
    client.execute("CREATE TABLE failing (a INT PRIMARY KEY)")
    client.execute("INSERT INTO failing VALUES (1)")
    cases: list[tuple[str, tuple[object, ...] | None, str]] = [
        ("SELECT 1 / 0", None, "22012"),
        ("SELECT nothing FROM nowhere", None, "42P01"),
        ("SELEC 1", None, "42601"),
        ("SELECT a / %s FROM failing", (0,), "22012"),
        ("INSERT INTO failing VALUES (%s)", (1,), "23505"),
        ("SELECT %s FROM nowhere", (1,), "42P01"),
        ("SELECT count(*) FROM failing GROUP BY a / (a - 1)", None, "22012"),
    ]
    for text, params, state in cases:
        with pytest.raises(psycopg.Error) as raised:
            client.execute(context.on(text), params)
        assert raised.value.sqlstate == state
    client.execute(context.on("SHOW timezone"))
    tree = collector.wait_for_names(context.trace_id, "SHOW")
    failed = sorted(
        (one for one in tree.spans if one.kind == "SERVER" and one.error), key=lambda one: one.began_ns
    )
    assert [one.error for one in failed] == [state for _text, _params, state in cases]
    for one in failed:
        assert one.attributes["db.response.status_code"] == one.attributes["error.type"] == one.error


def test_no_secret_is_in_a_span(client, collector: Collector, context: Context):
    client.execute("CREATE TABLE hidden (a TEXT PRIMARY KEY)")
    client.execute(context.on("CREATE ROLE spy LOGIN PASSWORD 'opensesame'"))
    client.execute(context.on("INSERT INTO hidden VALUES (%s)"), ("tellnobody",))
    client.execute(context.on("SELECT 'inthetext', * FROM hidden WHERE a = $tag$orhere$tag$ -- behind"))
    with pytest.raises(psycopg.Error):
        client.execute(context.on("INSERT INTO hidden VALUES (%s)"), ("tellnobody",))
    client.execute(context.on("SHOW timezone"))
    tree = collector.wait_for_names(context.trace_id, "SHOW", "CREATE", "INSERT", "SELECT")
    said = repr(tree.spans)
    assert "CREATE ROLE spy LOGIN PASSWORD ..." in said
    for secret in ("opensesame", "tellnobody", "inthetext", "orhere", "behind"):
        assert secret not in said


def test_a_lock_wait_and_a_worker_are_steps(server, client, collector: Collector, context: Context):
    client.execute("CREATE TABLE held (a INT PRIMARY KEY, b INT)")
    client.execute("INSERT INTO held VALUES (1, 0)")
    with server.connect(autocommit=False) as holder, ThreadPoolExecutor(1) as pool:
        holder.execute("UPDATE held SET b = 1 WHERE a = 1")
        waiting = pool.submit(client.execute, context.on("UPDATE held SET b = b + 1 WHERE a = 1"))
        server.wait_for_metric("herdpy_lock_waiters 1.0")
        holder.commit()
        waiting.result()
    client.execute(context.on("SELECT b, count(*) FROM held GROUP BY b HAVING count(*) > 0"))
    tree = collector.wait_for_names(context.trace_id, "UPDATE", "SELECT")
    assert tree.path(tree.one("lock wait")) == ["UPDATE test", "execute", "lock wait"]
    query = tree.one("columnar query")
    assert tree.path(query) == ["SELECT test", "execute", "columnar query"]
    assert query.attributes["process.pid"] != server.pid


def test_a_transaction_is_one_trace_in_either_protocol(client, collector: Collector):
    client.execute("CREATE TABLE steps (a INT PRIMARY KEY)")
    for prepared in (False, True):
        context = Context(secrets.token_hex(16))
        client.execute(context.on("BEGIN"))
        for number in range(3):
            key = number + 10 * prepared
            client.execute("INSERT INTO steps VALUES (%s)", (key,), prepare=prepared)
        client.execute("COMMIT")
        tree = collector.wait_for_names(context.trace_id, "COMMIT")
        kinds = [one.name for one in sorted(tree.spans, key=lambda one: one.began_ns) if one.kind == "SERVER"]
        assert kinds == ["BEGIN test", *["INSERT test"] * 3, "COMMIT test"]
        assert {one.parent_id for one in tree.spans if one.kind == "SERVER"} == {context.span_id}
        assert tree.path(tree.one("log append"))[0] == "COMMIT test"


def test_a_text_of_several_statements_is_a_span_for_each(client, collector: Collector, context: Context):
    client.execute("CREATE TABLE many (a INT PRIMARY KEY)")
    client.execute(context.on("INSERT INTO many VALUES (1); SELECT * FROM many; DELETE FROM many"))
    tree = collector.wait_for_names(context.trace_id, "DELETE")
    kinds = [one.name for one in sorted(tree.spans, key=lambda one: one.began_ns) if one.kind == "SERVER"]
    assert kinds == ["INSERT test", "SELECT test", "DELETE test"]
    assert {one.parent_id for one in tree.spans if one.kind == "SERVER"} == {context.span_id}


def test_a_pipeline_is_traced_up_to_its_sync(client, collector: Collector, context: Context):
    client.execute("CREATE TABLE piped (a INT PRIMARY KEY)")
    with client.pipeline():
        for number in range(3):
            client.execute(context.on("INSERT INTO piped VALUES (%s)"), (number,))
    tree = collector.wait_for_names(context.trace_id, "COMMIT")
    assert len(tree.all("INSERT test")) == 3
    assert tree.path(tree.one("log append"))[0] == "COMMIT test"
    assert client.execute("SELECT count(*) FROM piped").fetchone() == (3,)


def test_copy_ends_with_its_data(client, collector: Collector, context: Context):
    client.execute("CREATE TABLE copied (a INT PRIMARY KEY, b TEXT)")
    with client.cursor().copy(context.on("COPY copied FROM STDIN")) as copy:
        for number in range(100):
            copy.write_row((number, "hushhush"))
    with client.cursor().copy(context.on("COPY copied TO STDOUT")) as copy:
        assert len(list(copy.rows())) == 100
    tree = collector.wait_for(
        lambda spans: sum(one.trace_id == context.trace_id and one.kind == "SERVER" for one in spans) == 2
    )
    inward, outward = [one for one in tree if one.trace_id == context.trace_id and one.kind == "SERVER"]
    assert inward.attributes["db.response.returned_rows"] == 100
    assert outward.attributes["db.response.returned_rows"] == 100
    assert any(one.name == "log append" and one.trace_id == context.trace_id for one in tree)
    assert "hushhush" not in repr(tree)


def test_a_portal_taken_in_parts_ends_with_its_last(client, collector: Collector, context: Context):
    with client.transaction(), client.cursor("part") as cursor:
        cursor.itersize = 2
        cursor.execute(context.on("SELECT n FROM generate_series(1, 5) AS s (n)"))
        assert [row[0] for row in cursor] == [1, 2, 3, 4, 5]
    tree = collector.wait_for_names(context.trace_id, "OTHER")
    assert {one.error for one in tree.spans} == {""}


def test_the_setting_is_the_context_of_statements_without_one(client, collector: Collector, context: Context):
    client.execute(f"SET herdpy.traceparent = '{context.traceparent}'")
    other = Context(secrets.token_hex(16))
    client.execute(other.on("SELECT 1"))
    client.execute("SELECT 2")
    client.execute("RESET herdpy.traceparent")
    client.execute("SELECT 3")
    tree = collector.wait_for_names(context.trace_id, "SELECT")
    collector.wait_for_names(other.trace_id, "SELECT")
    assert len(tree.all("SELECT test")) == 1
    with pytest.raises(psycopg.Error) as refused:
        client.execute("SET herdpy.traceparent = 'nonsense'")
    assert refused.value.sqlstate == "22023"


def test_sessions_at_once_are_not_mixed(server, client, collector: Collector):
    client.execute("CREATE TABLE apart (a INT, b INT, PRIMARY KEY (a, b))")
    start = threading.Barrier(4)

    def work(number: int) -> Context:
        context = Context(secrets.token_hex(16))
        with server.connect(autocommit=True) as one:
            start.wait(30)
            for row in range(20):
                one.execute(context.on("INSERT INTO apart VALUES (%s, %s)"), (number, row))
        return context

    with ThreadPoolExecutor(4) as pool:
        contexts = list(pool.map(work, range(4)))

    def all_there(spans) -> bool:
        ended = [one.trace_id for one in spans if one.name == "INSERT test"]
        return all(ended.count(one.trace_id) == 20 for one in contexts)

    spans = collector.wait_for(all_there)
    by_id = {one.span_id: one for one in spans}
    for context in contexts:
        own = [one for one in spans if one.trace_id == context.trace_id]
        assert sum(one.name == "durability wait" for one in own) == 20
        for one in own:
            assert one.parent_id == context.span_id or by_id[one.parent_id].trace_id == context.trace_id
        # A commit that went along with another's has a link to the entry.
        linked = [by_id[link[1]] for one in own if one.name == "durability wait" for link in one.links]
        assert all(one.name == "log append" for one in linked)
        assert sum(one.name == "log append" for one in own) + len(linked) == 20


def test_histograms_have_exemplars_in_openmetrics_alone(
    server: RunningServer, client, collector: Collector, context: Context
):
    client.execute("CREATE TABLE shown (a INT PRIMARY KEY)")
    client.execute(context.on("INSERT INTO shown VALUES (1)"))
    collector.wait_for_names(context.trace_id, "INSERT")
    status, text = server.get("/metrics", Accept=OPENMETRICS)
    assert status == 200
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.exemplar is not None:
                found.setdefault(sample.name, set()).add(sample.exemplar.labels["trace_id"])
                assert sample.exemplar.value <= float(sample.labels["le"])
    assert context.trace_id in found["herdpy_statement_seconds_bucket"]
    assert context.trace_id in found["herdpy_log_sync_seconds_bucket"]
    assert "trace_id" not in server.get("/metrics")[1]
    assert 'herdpy_trace_spans_total{outcome="dropped"} 0.0' in server.get("/metrics")[1]


def test_a_plan_is_found_whatever_the_trace(client, server: RunningServer, context: Context):
    client.execute("CREATE TABLE planned (a INT PRIMARY KEY)")
    for _ in range(3):
        client.execute(Context(secrets.token_hex(16)).on("SELECT a AS found FROM planned WHERE a = 1"))
    (text,) = {
        row[0]
        for row in client.execute(context.on("SELECT query FROM pg_stat_activity"))
        if "planned" in row[0]
    } or {""}
    assert "traceparent" not in text


def test_the_driver_and_the_server_make_one_tree(server: RunningServer, collector: Collector, tmp_path: Path):
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    made = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    from herdpy.dbapi import traced

    url = f"herdpy://127.0.0.1:{server.port}/test?user=ann&trace=on"
    tracer = provider.get_tracer("program")
    with herdpy.connect(url) as connection:
        link = connection.shared_link.link
        assert isinstance(link, traced.TracedLink)
        link._tracer = tracer  # the program's provider; there is one in a process
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE driven (a INT PRIMARY KEY, b TEXT)")
        connection.commit()
        with tracer.start_as_current_span("order") as order:
            cursor.execute("INSERT INTO driven VALUES (%s, %s)", (1, "x"))
            cursor.executemany("INSERT INTO driven VALUES (%s, %s)", [(2, "y"), (3, "z")])
            assert (
                cursor.execute("SELECT b FROM driven ORDER BY a", arrow=True).fetch_arrow_table().num_rows
                == 3
            )
            with pytest.raises(herdpy.Error):
                cursor.execute("INSERT INTO driven VALUES (%s, %s)", (1, "x"))
            connection.rollback()
            cursor.execute("INSERT INTO driven VALUES (%s, %s)", (9, "x"))
            connection.commit()
            cursor.execute("SELECT 1;")
            connection.rollback()
    trace_id = f"{order.get_span_context().trace_id:032x}"
    client_spans = {one.name: one for one in made.get_finished_spans()}
    assert {"INSERT test", "SELECT test", "COMMIT test", "ROLLBACK test", "order"} == set(client_spans)
    failed = [one for one in made.get_finished_spans() if one.status.description]
    assert [one.status.description for one in failed] == ["23505"]
    tree = collector.wait_for_names(trace_id, "COMMIT", "ROLLBACK", "log append")
    own = {f"{one.context.span_id:016x}": one.name for one in made.get_finished_spans()}
    servers = [one for one in tree.spans if one.kind == "SERVER"]
    assert {own.get(one.parent_id, "").split()[0] for one in servers} == {
        "INSERT",
        "SELECT",
        "COMMIT",
        "ROLLBACK",
    }
    assert tree.path(tree.one("log append"))[0] == "COMMIT test"
