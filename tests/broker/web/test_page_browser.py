"""The page in a real Chromium: it lives, obeys the keyboard, fits a phone, and complains of nothing."""

from __future__ import annotations

import pytest
from herdpy_broker import claim, finish, reading, workers
from herdpy_broker.submission import Submission, submit

GROUND = "getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"

WIDE = """[...document.querySelectorAll('*')].filter(one => one.getBoundingClientRect().right > 361)
  .map(one => one.tagName + '.' + one.className + '#' + one.id).slice(0, 9).join(' ')"""


@pytest.fixture
def work(connection):
    """Tasks in all states, a worker, and a dead letter: its id."""
    for number in range(3):
        submit(connection, Submission("mail", {"n": number}, group="news"))
    dead = submit(connection, Submission("mail", group="bad"))
    submit(connection, Submission("mail", group="news", delay_s=3600, slot="a-long-slot-name"))
    worker = workers.register(connection, "worker-with-a-long-name.example.com-12345", 4, 600.0)
    claim.claim(connection, worker, "bad", 1)
    finish.fail(connection, worker, dead, "ConnectionError: " + "no_route_to_host" * 20, may_retry=False)
    claim.claim(connection, worker, "news", 1)
    return dead


def test_a_submit_arrives_without_a_reload(living, connection, tab):
    tab.open(f"{living.address}/")
    tab.evaluate("window.isSamePage = true")
    tab.wait_for("document.body.innerText.includes('There is no group yet')")
    submit(connection, Submission("mail", group="fresh"))
    tab.wait_for("document.querySelector('#groups')?.innerText.includes('fresh')")
    assert tab.evaluate("window.isSamePage")
    assert tab.problems == []


def test_a_button_cancels_and_the_page_shows_it(living, connection, tab):
    ident = submit(connection, Submission("mail"))
    tab.open(f"{living.address}/task?id={ident}")
    with tab.loading():
        tab.click("button.danger")
    assert f"Task {ident} is cancelled." in tab.text
    assert tab.evaluate("document.querySelector('.badge').innerText") == "cancelled"
    assert reading.task(connection, ident).state == "cancelled"
    assert tab.problems == []


def test_the_selected_dead_letters_are_retried(living, connection, tab, work):
    tab.open(f"{living.address}/dead")
    tab.click("input[type=checkbox]")
    with tab.loading():
        tab.click("[formaction='/dead/retry-selected']")
    assert "1 task is tried again." in tab.text
    assert reading.task(connection, work).state == "ready"
    assert tab.problems == []


def test_the_keyboard_alone_pauses_a_group(living, connection, tab, work):
    tab.open(f"{living.address}/")
    tab.tab_to("Skip to the content")
    tab.press("Enter")
    tab.tab_to("Pause")
    focused = tab.evaluate("document.activeElement.getAttribute('aria-label')")
    submit(connection, Submission("mail", group="another"))
    tab.wait_for("document.querySelector('#groups').innerText.includes('another')")
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')") == focused
    with tab.loading():
        tab.press("Enter")
    assert "is paused." in tab.text
    assert connection.execute("SELECT count(*) FROM broker.task_group WHERE paused").fetchall() == [(1,)]
    assert tab.problems == []


def test_the_keyboard_alone_finds_a_task(living, connection, tab, work):
    tab.open(f"{living.address}/")
    tab.tab_to("Task")
    tab.type(str(work))
    with tab.loading():
        tab.press("Enter")
    assert "no_route_to_host" in tab.text
    with tab.loading():
        tab.tab_to("Retry")
        tab.press("Enter")
    assert f"Task {work} is tried again." in tab.text
    assert tab.problems == []


def test_nothing_is_wider_than_a_phone(living, tab, work):
    tab.resize(360, 740)
    for path in ("/", "/group?name=news", f"/task?id={work}", "/dead", "/schedules"):
        tab.open(living.address + path)
        tab.wait_for("document.querySelector('#live')")
        assert (path, tab.overflow) == (path, 0), tab.evaluate(WIDE)
        assert tab.problems == []


def test_it_is_dark_where_the_browser_prefers_that(living, tab, work):
    tab.open(f"{living.address}/")
    light = tab.evaluate(GROUND)
    tab.prefer(dark=True)
    dark = tab.evaluate(GROUND)
    assert min(light) > 200
    assert max(dark) < 60


def test_the_policy_forbids_what_is_inline(living, tab):
    tab.open(f"{living.address}/")
    tab.evaluate("document.body.insertAdjacentHTML('beforeend', '<p id=red style=\"color:red\">x</p>')")
    tab.wait_for_problem("violates the following Content Security Policy directive")
    colour = "getComputedStyle(document.querySelector('%s')).color"
    assert tab.evaluate(colour % "#red") == tab.evaluate(colour % "body")
    tab.problems.clear()


def test_a_browser_logs_in_by_keyboard(guarded, connection, tab):
    tab.open(f"{guarded.address}/")
    assert tab.address == "/login"
    tab.type("correct-horse-battery")
    with tab.loading():
        tab.press("Enter")
    assert tab.address == "/"
    submit(connection, Submission("mail", group="seen"))
    tab.wait_for("document.querySelector('#groups')?.innerText.includes('seen')")
    with tab.loading():
        tab.tab_to("Log out")
        tab.press("Enter")
    assert tab.address == "/login"
    assert tab.problems == []
