"""The pages of sessions, statements, tables and SQL: as a superuser and as a role with few rights."""

from __future__ import annotations

import asyncio
import html
import io
import json
import re

import pyarrow as pa
import pytest

from herdpy_server.config import HostRule
from herdpy_sql.errors import SqlError
from tests.console.world import ConsoleWorld

ODD = '"a b"."quo""ted <script>alert(1)</script>"'
ODD_ADDRESS = "tables/one?schema=a+b&name=quo%22ted+%3Cscript%3Ealert%281%29%3C%2Fscript%3E"
XSS = "<img src=x onerror=alert(1)>"
LONG_TEXT = "SELECT 1; " * 2000 + "SELECT pg_sleep(60); SELECT 'after'"
TEXTS = re.compile(r"<td[^>]*>(.*?)</td>", re.DOTALL)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A console with tables, in which every role of this machine logs in by itself."""
    made = ConsoleWorld(tmp_path_factory.mktemp("data") / "data", (HostRule(network="all", method="trust"),))
    made.sql(
        "CREATE ROLE ann LOGIN",
        'CREATE SCHEMA "a b"',
        f'CREATE TABLE {ODD} (id int PRIMARY KEY, "{XSS}" text DEFAULT NULL,'
        " g int GENERATED ALWAYS AS (id + 1) STORED)",
        f"COMMENT ON TABLE {ODD} IS '{XSS}'",
        f"COMMENT ON COLUMN {ODD}.id IS 'back\\slash and ''quote'''",
        f"CREATE INDEX ON {ODD} (g DESC) WHERE id > 1",
        f"INSERT INTO {ODD} VALUES (1, '{XSS}'), (2, NULL)",
        "CREATE TABLE city (id int PRIMARY KEY, name text NOT NULL CHECK (name <> ''))",
        "INSERT INTO city SELECT g, 'n' || g FROM generate_series(1, 2500) g",
        'CREATE TABLE "a b".city (other int)',
        "CREATE VIEW names AS SELECT name FROM city",
        "CREATE SEQUENCE counter START 5",
        "CREATE TABLE secret (word text)",
        "INSERT INTO secret VALUES ('xyzzy')",
        "GRANT SELECT ON city TO ann",
    )
    yield made
    made.close()


@pytest.fixture
def boss(data):
    return data.browser()


@pytest.fixture
def ann(data):
    browser = data.browser()
    browser.log_in("ann", "")
    return browser


def run(browser, sql, **more):
    """Run a text as the editor's script does; the fragment."""
    return browser.post(
        "sql", {"csrf_token": browser.token("sql"), "sql": sql, "timeout_s": "30", **more}, hx_request="true"
    ).text


def cells(page):
    return [html.unescape(text) for text in TEXTS.findall(page)]


# The editor.


def test_an_answer_has_types_nulls_and_numbers(boss):
    page = run(boss, "SELECT 1.50::numeric(5,2) AS n, NULL::text AS t, '' AS e, true AS b")
    assert cells(page) == ["1.50", "NULL", "", "t"]
    assert '<td class="null">NULL</td>' in page
    assert "numeric(5,2)" in page
    assert page.count('<th scope="col" aria-sort="none" class="number">') == 1


EVERY_TYPE = {
    "'-32768'::smallint": "-32768",
    "9223372036854775807::bigint": "9223372036854775807",
    "123456789012345678901234567890.5::numeric": "123456789012345678901234567890.5",
    "'NaN'::float8": "NaN",
    "1.5::real": "1.5",
    "'\\x00ff'::bytea": "\\x00ff",
    "'0044-03-15 BC'::date": "0044-03-15 BC",
    "'23:59:59.5'::time": "23:59:59.5",
    "'2026-01-02 03:04:05.000001'::timestamp": "2026-01-02 03:04:05.000001",
    "'infinity'::timestamptz": "infinity",
    "'1 day 2 hours'::interval": "1 day 02:00:00",
    "'00000000-0000-0000-0000-000000000001'::uuid": "00000000-0000-0000-0000-000000000001",
    "'{\"a\": [1]}'::jsonb": '{"a": [1]}',
    "ARRAY['a,b', NULL, '\"']": '{"a,b",NULL,"\\""}',
    "'pg_class'::regclass": "pg_class",
    f"'{XSS}'::text": XSS,
    "'ünï\U0001f418'::varchar": "ünï\U0001f418",
}


def test_every_type_is_shown_as_postgresql_writes_it(boss):
    page = run(boss, "SELECT " + ", ".join(EVERY_TYPE))
    assert cells(page) == list(EVERY_TYPE.values())
    assert XSS not in page


def test_statements_are_answered_one_by_one_and_are_one_transaction(boss):
    page = run(boss, "CREATE TABLE made (a int); INSERT INTO made VALUES (1), (2); SELECT * FROM made")
    assert re.findall(r"</span> ([A-Z].*?)</h2>", page) == ["CREATE TABLE", "INSERT 0 2", "SELECT 2"]
    page = run(boss, "DROP TABLE made; SELECT 1/0")
    assert "22012" in page
    assert "were one transaction, which was rolled back" in page
    assert cells(run(boss, "SELECT count(*) FROM made; DROP TABLE made")) == ["2"]


def test_a_large_answer_that_is_not_the_last_ends_no_transaction(boss):
    page = run(boss, "CREATE TABLE gone (a int); SELECT * FROM city; SELECT 1/0", max_rows="100")
    assert "only the first 100 rows are shown" in page
    assert "42P01" in run(boss, "SELECT * FROM gone")


def test_a_block_that_is_open_at_the_end_is_rolled_back_and_said_so(boss):
    page = run(boss, "BEGIN; CREATE TABLE never (a int)")
    assert "was open at the end of the text, and was rolled back" in page
    assert "42P01" in run(boss, "TABLE never")
    page = run(boss, "BEGIN; CREATE TABLE kept (a int); COMMIT; SELECT 1")
    assert "rolled back" not in page
    assert "DROP TABLE" in run(boss, "DROP TABLE kept")
    page = run(boss, "BEGIN; SELECT 1/0")
    assert "was open at the end of the text, and was rolled back" in page


def test_rows_are_cut_and_said_so(boss):
    page = run(boss, "SELECT * FROM city", max_rows="100")
    assert len(cells(page)) == 200
    assert "only the first 100 rows are shown" in page
    assert "only the first" not in run(boss, "SELECT * FROM city", max_rows="10000")


def test_long_values_and_wide_answers_are_bounded(boss):
    page = run(boss, "SELECT repeat('x', 1000000)")
    assert "… (1000000 characters)" in page
    assert len(page) < 10_000
    page = run(boss, "SELECT " + ", ".join(f"{number} AS c{number}" for number in range(300)))
    assert len(cells(page)) == 300
    page = run(boss, "SELECT repeat('x', 1900) FROM generate_series(1, 10000)", max_rows="10000")
    assert len(page) < 5_500_000
    assert "only the first" in page


def test_an_error_says_where_it_is(boss):
    page = run(boss, "SELECT 1;\r\nSELECT nam\r\nFROM city", offset="40")
    assert "42703" in page
    assert 'data-offset="57" data-length="3"' in page  # 40 before the selection, and lines end with LF
    assert "<mark>nam</mark>" in page


def test_details_and_hints_are_shown(boss):
    page = run(boss, "INSERT INTO city VALUES (1, 'again')")
    assert "23505" in page
    assert "Key (id)=(1) already exists." in html.unescape(page)


@pytest.mark.parametrize("sql", ["COPY city FROM STDIN", "COPY city TO STDOUT"])
def test_copy_is_refused_and_the_session_lives(boss, sql):
    assert "0A000" in run(boss, sql)


@pytest.mark.parametrize(
    "more",
    [
        {"timeout_s": "7"},
        {"timeout_s": "x"},
        {"max_rows": "5"},
        {"offset": "x"},
        {"sql": " \n"},
        {"read_level": "x"},
    ],
)
def test_what_the_form_does_not_offer_is_refused(boss, more):
    assert "22023" in run(boss, **{"sql": "SELECT 1", **more})


def test_without_scripts_a_form_answers_with_a_page(boss):
    page = boss.act("sql", sql="SELECT 4 + 3", timeout_s="30", offset="0").text
    assert "<h1>SQL</h1>" in page
    assert cells(page) == ["7"]
    assert "SELECT 4 + 3" in page


def test_a_statement_that_takes_too_long_ends(boss):
    page = run(boss, "SET statement_timeout = 50; SELECT pg_sleep(60)")
    assert "57014" in page


def test_a_run_is_cancelled_by_its_name_and_only_by_its_login(data, boss, ann):
    token, other = boss.token("sql"), ann.token("sql")
    form = {"csrf_token": token, "sql": LONG_TEXT, "timeout_s": "120", "run": "r1"}
    headers = {"origin": "http://localhost:8480", "hx-request": "true"}

    async def act():
        running = asyncio.ensure_future(boss.client.post("/console/sql", data=form, headers=headers))
        while True:
            strange = await ann.client.post(
                "/console/sql/cancel", data={"csrf_token": other, "run": "r1"}, headers=headers
            )
            assert strange.json() == {"cancelled": False}
            mine = await boss.client.post(
                "/console/sql/cancel", data={"csrf_token": token, "run": "r1"}, headers=headers
            )
            if mine.json()["cancelled"]:
                return await running
            await asyncio.sleep(0)

    page = data.run(act()).text
    assert "57014" in page
    assert "after" not in page


def test_a_browser_that_goes_away_ends_its_run(data, boss):
    body = f"csrf_token={boss.token('sql')}&sql=SELECT+pg_sleep(60)&timeout_s=120&offset=0".encode()
    cookie = "; ".join(f"{name}={value}" for name, value in boss.client.cookies.items())
    fields = {
        "host": "localhost:8480",
        "origin": "http://localhost:8480",
        "content-type": "application/x-www-form-urlencoded",
        "cookie": cookie,
        "hx-request": "true",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/console/sql",
        "raw_path": b"/console/sql",
        "query_string": b"",
        "scheme": "http",
        "http_version": "1.1",
        "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
        "client": ("127.0.0.1", 4),
        "server": ("127.0.0.1", 8480),
    }

    async def act():
        gone, sent = asyncio.Event(), []

        async def receive():
            if not sent:
                sent.append(body)
                return {"type": "http.request", "body": body, "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        request = asyncio.ensure_future(data.console(scope, receive, send))
        while not any("pg_sleep" in one.query for one in data.registry.activity()):
            await asyncio.sleep(0.005)
        gone.set()
        await request
        assert not any("pg_sleep" in one.query for one in data.registry.activity())

    data.run(act())


# Plans.


def explain(browser, sql, **more):
    form = {"csrf_token": browser.token("sql"), "sql": sql, "timeout_s": "30", **more}
    return browser.post("sql/explain", form, hx_request="true").text


def test_a_plan_is_a_tree(boss):
    page = explain(
        boss, "SELECT c.name, count(*) FROM city c JOIN city d ON c.id = d.id + 1 GROUP BY 1 LIMIT 5;"
    )
    assert page.count('class="step"') >= 3
    assert 'class="bar' not in page


def test_a_measured_plan_has_bars_and_changes_nothing(boss):
    page = explain(boss, "DELETE FROM city WHERE id = 7", analyze="on")
    assert 'class="step"' in page
    assert cells(run(boss, "SELECT count(*) FROM city WHERE id = 7")) == ["1"]
    assert 'class="bar time"' in explain(boss, "SELECT * FROM city WHERE id = 7", analyze="on")


def test_an_error_in_what_is_explained_is_marked_there(boss):
    page = explain(boss, "SELECT nam FROM city")
    assert 'data-offset="7" data-length="3"' in page
    assert "42601" in explain(boss, "SELECT 1; SELECT 2")


def test_explain_json_in_the_text_is_drawn_too(boss):
    assert 'class="step"' in run(boss, "EXPLAIN (FORMAT json) SELECT * FROM city")


# Downloads.


def download(browser, sql, form):
    return browser.act("sql/download", sql=sql, format=form, timeout_s="600")


def test_an_answer_as_csv_is_what_copy_writes(boss):
    answer = download(boss, "SELECT 'a\"b,c' AS \"x y\", NULL AS n, '' AS e, E'l1\\nl2' AS l", "csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert "attachment" in answer.headers["content-disposition"]
    assert answer.text == 'x y,n,e,l\n"a""b,c",,"","l1\nl2"\n'
    lines = download(boss, "SELECT * FROM city ORDER BY id -- with a comment", "csv").text.splitlines()
    assert (len(lines), lines[2500]) == (2501, "2500,n2500")


def test_an_answer_as_arrow_is_a_stream(boss):
    answer = download(boss, "SELECT * FROM city ORDER BY id", "arrow")
    table = pa.ipc.open_stream(io.BytesIO(answer.content)).read_all()
    assert (table.num_rows, table.column_names) == (2500, ["id", "name"])


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        ("SELECT nothing", "42703"),
        ("SELECT 1) TO STDOUT; DROP TABLE city; COPY (SELECT 1", "42601"),
        ("", "42601"),
        ("CREATE TABLE x (a int)", "0A000"),
    ],
)
def test_what_cannot_be_downloaded_is_a_page_that_says_why(boss, sql, state):
    answer = download(boss, sql, "csv")
    assert state in answer.text
    assert "content-disposition" not in answer.headers
    assert cells(run(boss, "SELECT count(*) FROM city")) == ["2500"]


def test_another_format_is_refused(boss):
    assert "22023" in download(boss, "SELECT 1", "xlsx").text


def test_a_download_that_is_over_leaves_no_session(data, boss):
    download(boss, "SELECT * FROM city", "csv")
    assert [one.pid for one in data.registry.activity()] == []


# Completion.


def test_names_are_written_as_sql_has_them(boss):
    names = json.loads(boss.get("sql/names").text)
    relations = {(one["schema"], one["name"]): one for one in names["relations"]}
    assert relations["public", "city"]["columns"] == ["id", "name"]
    assert relations["public", "city"]["visible"]
    assert relations['"a b"', "city"]["columns"] == ["other"]
    assert not relations['"a b"', "city"]["visible"]
    assert ('"a b"', '"quo""ted <script>alert(1)</script>"') in relations
    assert {"count", "lower", "row_number"} <= set(names["functions"])
    assert '"a b"' in names["schemas"]


# Tables.


def test_tables_are_listed_by_schema_whatever_they_are_called(boss):
    page = boss.get("tables").text
    assert page.count(">city</a>") == 2
    assert "<script>alert" not in page
    assert XSS not in page
    assert ODD_ADDRESS.partition("&")[0] in html.unescape(page)
    assert "counter" in page
    assert '<td class="number">2\u202f500</td>' in page
    assert '<td class="number">0</td>' in page
    assert "pg_class" not in page
    assert "pg_class" in boss.get("tables?system=on").text
    assert ">city</a>" not in boss.get("tables?having=names").text


def test_a_table_with_odd_names_is_shown_whole(boss):
    answer = boss.get(ODD_ADDRESS)
    page = html.unescape(answer.text)
    assert answer.status_code == 200
    assert "<script>alert" not in answer.text
    assert XSS not in answer.text
    for part in (XSS, "(id + 1)", "back\\slash and 'quote'", "PRIMARY KEY (id)", f"CREATE TABLE {ODD} ("):
        assert part in page
    assert boss.get(ODD_ADDRESS.replace("tables/one", "tables/count")).text.strip() == "2"


def test_the_ddl_makes_the_same_table_again(data, boss):
    def ddl():
        return html.unescape(
            re.search(r'<pre class="ddl card">(.*?)</pre>', boss.get(ODD_ADDRESS).text, re.DOTALL)[1]
        )

    before = ddl()
    assert "GENERATED ALWAYS AS (id + 1) STORED" in before
    data.sql(f"ALTER TABLE {ODD} RENAME TO old", 'DROP INDEX IF EXISTS "a b".keep')
    try:
        indexes = cells(run(boss, "SELECT indexname FROM pg_indexes WHERE tablename = 'old'"))
        data.sql(
            *(
                f'ALTER INDEX "a b"."{name.replace(chr(34), chr(34) * 2)}" RENAME TO "old {n}"'
                for n, name in enumerate(indexes)
            )
        )
        assert "problem" not in run(boss, before)
        assert ddl() == before
    finally:
        data.sql(f"DROP TABLE IF EXISTS {ODD}", f'ALTER TABLE "a b".old RENAME TO {ODD[6:]}')


def test_views_and_sequences_have_theirs(boss):
    view = html.unescape(boss.get("tables/one?schema=public&name=names").text)
    assert "CREATE VIEW public.names AS" in view
    assert "n1" in view
    sequence = html.unescape(boss.get("tables/one?schema=public&name=counter").text)
    assert "CREATE SEQUENCE public.counter AS bigint START WITH 5" in sequence


def test_same_names_in_two_schemas_are_two_tables(boss):
    assert "other" in boss.get("tables/one?schema=a+b&name=city").text
    assert ">other<" not in boss.get("tables/one?schema=public&name=city").text


def test_a_table_that_is_not_there(boss):
    answer = boss.get("tables/one?schema=public&name=nothing")
    assert (answer.status_code, "42P01" in answer.text) == (404, True)


def test_the_editor_opens_with_a_table(boss):
    assert 'SELECT * FROM "a b".city LIMIT 100' in html.unescape(boss.get("sql?schema=a+b&table=city").text)


# Sessions and statements.


def test_a_session_that_sleeps_is_shown_and_terminated(data, boss):
    async def sleep():
        session = data.node.session("")
        entry = data.registry.add(session, user="herdpy", database="herdpy", end=session.waits.end)
        try:
            await data.database.driver.call(session.simple_query(f"SELECT pg_sleep(60), '{XSS}'").step())
        finally:
            await data.database.driver.call(session.close())
            data.registry.remove(entry)

    async def act():
        sleeping = asyncio.ensure_future(sleep())
        while not (found := [one.pid for one in data.registry.activity() if "pg_sleep" in one.query]):
            await asyncio.sleep(0.005)
        page = (await boss.client.get("/console/sessions")).text
        assert html.escape(XSS) in page
        assert XSS not in page
        token = re.search(r'name="csrf_token" value="([^"]+)"', page)[1]
        form = {"csrf_token": token, "pid": str(found[0])}
        headers = {"origin": "http://localhost:8480"}
        answer = await boss.client.post("/console/sessions/terminate", data=form, headers=headers)
        assert answer.status_code == 303
        with pytest.raises(SqlError):
            await sleeping
        return (await boss.client.get("/console/sessions")).text

    boss.get("sessions")
    assert "is ended" in data.run(act())


@pytest.mark.parametrize("pid", ["", "x", "1; DROP TABLE city", "99999999999"])
def test_what_is_no_pid_is_refused(boss, pid):
    assert "22023" in boss.act("sessions/cancel", pid=pid).text


def test_a_session_that_is_not_there(boss):
    assert "There is no session 999999" in boss.act("sessions/terminate", pid="999999").text


@pytest.mark.parametrize("order", ["total", "mean", "max", "calls", "rows"])
def test_statements_are_shown_in_every_order(boss, order):
    assert boss.get(f"statements?order={order}").status_code == 200


def test_another_order_is_refused(boss):
    assert "22023" in boss.get("statements?order=query;drop").text


# A role with few rights.


def test_a_role_sees_and_does_what_it_may(ann):
    assert cells(run(ann, "SELECT current_user")) == ["ann"]
    page = run(ann, "SELECT * FROM secret")
    assert "42501" in page
    assert "xyzzy" not in page
    assert len(cells(run(ann, "SELECT * FROM city", max_rows="100"))) == 200
    assert "42501" in run(ann, "DELETE FROM city")
    assert "42501" in download(ann, "SELECT * FROM secret", "csv").text
    assert "42501" in explain(ann, "SELECT * FROM secret", analyze="on")


def test_a_table_without_the_right_to_its_rows_shows_none(ann):
    answer = ann.get("tables/one?schema=public&name=secret")
    assert "42501" in answer.text
    assert "xyzzy" not in answer.text
    count = ann.get("tables/count?schema=public&name=secret").text
    assert "42501" in count


def test_a_read_level_holds_for_its_text(boss):
    assert cells(run(boss, "SHOW herdpy.read_level", read_level="bounded")) == ["bounded"]
    assert cells(run(boss, "SHOW herdpy.read_level")) == ["linearizable"]


def test_others_are_not_ended_by_a_role_without_rights(data, ann):
    async def act():
        session = data.node.session("")
        entry = data.registry.add(session, user="herdpy", database="herdpy", end=session.waits.end)
        try:
            await data.database.driver.call(session.simple_query("SELECT 'a secret text'").step())
            page = (await ann.client.get("/console/sessions")).text
            token = re.search(r'name="csrf_token" value="([^"]+)"', page)[1]
            (pid,) = [one.pid for one in data.registry.activity()]
            headers = {"origin": "http://localhost:8480"}
            form = {"csrf_token": token, "pid": str(pid)}
            answer = await ann.client.post("/console/sessions/terminate", data=form, headers=headers)
            return page, answer.text
        finally:
            await data.database.driver.call(session.close())
            data.registry.remove(entry)

    ann.get("sessions")
    page, answer = data.run(act())
    assert "a secret text" not in page
    assert "42501" in answer


@pytest.mark.parametrize("path", ["sql", "sql/explain", "sql/cancel", "sql/download", "sessions/cancel"])
def test_nothing_is_run_without_the_token(boss, path):
    boss.get("sql")
    form = {"sql": "DROP TABLE city", "timeout_s": "30", "format": "csv", "pid": "1"}
    assert boss.post(path, form).status_code == 403
    assert boss.post(path, {**form, "csrf_token": "wrong"}).status_code == 403
