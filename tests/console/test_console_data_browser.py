"""The pages of data in a real Chromium: typed, completed, run, sorted and drawn by keyboard; on a phone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.console.browsing import log_in
from tests.support.chromium import CONTROL, Tab
from tests.support.server_process import RunningServer

ANSWER = "document.querySelector('#results .answer')"
COLUMN = "[...document.querySelectorAll('.grid tbody tr')].map((row) => row.cells[%d].textContent)"


@pytest.fixture(scope="module", autouse=True)
def tables(console_server: RunningServer) -> Iterator[None]:
    with console_server.connect(user="herdpy") as connection:
        connection.execute("CREATE TABLE cattle (id int PRIMARY KEY, weight numeric, name text)")
        connection.execute(
            "INSERT INTO cattle VALUES (1, 9, 'Berta'), (2, 100.5, NULL),"
            " (3, NULL, '<img src=x onerror=alert(1)>')"
        )
        yield
        connection.execute("DROP TABLE cattle")


def column(tab: Tab, number: int) -> list[str]:
    found: list[str] = json.loads(tab.evaluate(f"JSON.stringify({COLUMN % number})"))
    return found


def write(tab: Tab, text: str) -> None:
    """Type into the empty editor."""
    tab.evaluate("document.getElementById('sql').value = ''")
    tab.evaluate("document.getElementById('sql').focus()")
    tab.type(text)


def test_a_query_is_typed_completed_run_sorted_and_drawn_by_keyboard(console_url, tab):
    tab.open(f"{console_url}sql")
    tab.tab_to("Text to run")
    tab.type("select * from catt")
    tab.wait_for("document.querySelector('#names li[aria-selected=true]')")
    tab.press("Enter")
    tab.type(" where ca")
    tab.press("Escape")
    assert tab.evaluate("document.getElementById('sql').value") == "select * from cattle where ca"
    write(tab, "select * from cattle c where c.na")
    tab.wait_for("document.querySelector('#names li')?.dataset.text === 'c.name'")
    tab.press("Tab")
    tab.type(" is null or true order by id")
    tab.press("Escape")
    tab.press("Enter", modifiers=CONTROL)
    tab.wait_for(ANSWER)
    assert column(tab, 0) == ["1", "2", "3"]
    tab.tab_to("weight")
    tab.press("Enter")
    assert column(tab, 1) == ["9", "100.5", "NULL"]
    tab.press("Enter")
    assert column(tab, 1) == ["100.5", "9", "NULL"]
    tab.press("Enter")
    assert column(tab, 0) == ["1", "2", "3"]
    tab.tab_to("Chart")
    tab.press("Enter")
    tab.wait_for("document.querySelectorAll('.picture rect').length === 2")
    for kind, mark in (("line", "polyline"), ("scatter", "circle")):
        tab.evaluate(
            f"document.querySelector('.chart select').value = '{kind}';"
            "document.querySelector('.chart select').dispatchEvent(new Event('change'))"
        )
        tab.wait_for(f"document.querySelector('.picture {mark}')")
    assert tab.problems == []


def test_only_what_is_selected_is_run_and_an_error_is_selected(console_url, tab):
    tab.open(f"{console_url}sql")
    write(tab, "SELECT 'é\U0001f418'; SELECT nam FROM cattle")
    tab.press("Escape")
    tab.evaluate("document.getElementById('sql').setSelectionRange(14, 40)")
    tab.click("#run-it")
    tab.wait_for("document.querySelector('.answer.failed .place')")
    assert tab.evaluate("document.querySelectorAll('.answer').length") == 1
    assert tab.evaluate("getSelection().toString()") == "nam"
    assert tab.problems == []


def test_a_run_is_cancelled_by_its_button_and_the_history_has_it(console_url, tab):
    tab.open(f"{console_url}sql")
    write(tab, "SELECT pg_sleep(100)")
    tab.press("Escape")
    tab.click("#run-it")
    tab.wait_for("!document.getElementById('cancel-it').hidden")
    tab.click("#cancel-it")
    tab.wait_for("document.querySelector('.answer.failed')?.textContent.includes('57014')")
    tab.open(f"{console_url}sql")
    assert tab.evaluate("document.getElementById('sql').value") == "SELECT pg_sleep(100)"
    tab.click("#history summary")
    assert tab.evaluate("document.querySelector('#history li button').textContent") == "SELECT pg_sleep(100)"
    assert tab.problems == []


@pytest.mark.soak
def test_a_download_is_the_whole_answer(console_url, tab):
    tab.open(f"{console_url}sql")
    write(tab, "SELECT g FROM generate_series(1, 2000) g")
    tab.press("Escape")
    tab.click("#run-it")
    tab.wait_for(ANSWER)
    text = tab.evaluate(
        "(async () => { const form = document.querySelector('.download');"
        " const body = new URLSearchParams(new FormData(form, form.querySelector('button')));"
        " return (await fetch(form.action, { method: 'POST', body })).text(); })()"
    )
    assert text.splitlines() == ["g", *map(str, range(1, 2001))]
    assert tab.problems == []


def test_a_plan_is_a_tree_that_the_keyboard_folds(console_url, tab):
    tab.open(f"{console_url}sql")
    write(tab, "SELECT name, count(*) FROM cattle GROUP BY 1")
    tab.press("Escape")
    tab.tab_to("Explain analyze")
    tab.press("Enter")
    tab.wait_for("document.querySelectorAll('.plan .step').length > 1")
    tab.evaluate("document.querySelector('.plan .step summary').focus()")
    tab.press("Enter")
    tab.wait_for("!document.querySelector('.plan .step').open")
    assert tab.problems == []


@pytest.mark.parametrize(
    "path", ["sql", "tables", "tables/one?schema=public&name=cattle", "sessions", "statements"]
)
def test_nothing_is_wider_than_a_phone(console_url, tab, path):
    tab.resize(360, 740)
    tab.open(f"{console_url}{path}")
    assert tab.overflow == 0
    if path == "sql":
        write(tab, "SELECT g, repeat('x', 300) FROM generate_series(1, 5) g")
        tab.press("Escape")
        tab.click("#run-it")
        tab.wait_for(ANSWER)
        assert tab.overflow == 0
    if "one" in path:
        tab.wait_for("document.querySelector('.facts').textContent.includes('3')")  # counted by htmx
        assert column(tab, 2)[2] == "<img src=x onerror=alert(1)>"
    assert tab.problems == []


def test_a_session_is_ended_after_a_question_that_stays_open(console_server, console_url, tab):
    victim = console_server.connect(application_name="victim")
    pid = victim.info.backend_pid
    tab.open(f"{console_url}sessions")
    tab.evaluate(f"document.getElementById('row-end-{pid}').focus()")
    tab.press("Enter")
    tab.wait_for("document.querySelector('details.confirm[open] .danger')")
    tab.tab_to(f"Yes, end session {pid}")
    with tab.loading():
        tab.press("Enter")
    assert f"Session {pid} is ended." in tab.text
    assert tab.problems == []


def test_a_server_that_stops_meanwhile_is_said(tmp_path: Path, tab):
    server = RunningServer(tmp_path / "data").ready()
    try:
        tab.open(f"http://127.0.0.1:{server.http_port}/console/sql")
        server.process.kill()
        server.wait()
        write(tab, "SELECT 1")
        tab.press("Escape")
        tab.click("#run-it")
        tab.wait_for("document.querySelector('#results .problem')?.textContent.includes('does not answer')")
    finally:
        server.close()


def test_waits_are_a_tree_that_lives(console_server, console_url, tab):
    with (
        console_server.connect(user="herdpy", autocommit=False) as holder,
        console_server.connect(user="herdpy") as waiter,
    ):
        holder.execute("UPDATE cattle SET weight = 1 WHERE id = 1")
        pids = [one.info.backend_pid for one in (holder, waiter)]
        tab.open(f"{console_url}sessions")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(waiter.execute, "UPDATE cattle SET weight = 2 WHERE id = 1")
            tab.wait_for(f"document.querySelector('.waits .holder')?.textContent.includes('{pids[0]}')")
            inner = "document.querySelector('.waits .tree ul .step').textContent"
            tab.wait_for(f"{inner}.includes('{pids[1]}') && {inner}.includes('SET weight = 2')")
            holder.rollback()
            waiting.result(30)
        tab.wait_for("!document.querySelector('.waits')")
    assert tab.problems == []


def test_a_statement_is_opened_in_the_editor(console_server, console_url, tab):
    with console_server.connect(user="herdpy", dbname="herdpy") as connection:
        connection.execute("SELECT name FROM cattle WHERE weight > 5 AND id = 1")
    tab.open(f"{console_url}statements?order=calls")
    row = "[...document.querySelectorAll('tbody')].find((one) => one.textContent.includes('weight > $1'))"
    with tab.loading():
        tab.evaluate(f"{row}.querySelector('a').click()")
    assert tab.evaluate("document.getElementById('sql').value") == (
        "SELECT name FROM cattle WHERE weight > $1 AND id = $2"
    )
    assert tab.problems == []


def test_texts_of_others_statements_are_not_shown(console_server, console_url, tab):
    for user, text in (("herdpy", "SELECT 1 AS boss_column"), ("ann", "SELECT 1 AS ann_column")):
        with console_server.connect(user=user, dbname="herdpy") as connection:
            connection.execute(text)
    tab.open(f"{console_url}login?next=/console/statements?order=calls")
    log_in(tab)
    assert "ann_column" in tab.text
    assert "boss_column" not in tab.text
    tab.open(f"{console_url}sql")
    write(tab, "SELECT pg_stat_statements_reset()")
    tab.press("Enter", modifiers=CONTROL)
    tab.wait_for("document.querySelector('.answer.failed')?.textContent.includes('42501')")
    assert tab.problems == []
