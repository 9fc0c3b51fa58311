"""The console in a real Chromium: by keyboard, on a phone, in the dark; it complains of nothing."""

from __future__ import annotations

import pytest

from tests.console.browsing import log_in


def test_a_role_logs_in_by_keyboard_and_skips_to_the_content(console_url, tab):
    tab.open(f"{console_url}login")
    log_in(tab)
    assert tab.address == "/console/cluster"
    tab.press("Tab")
    assert tab.focus == "Skip to the content"
    tab.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"
    assert tab.problems == []


def test_a_page_lives(console_url, tab):
    tab.open(f"{console_url}cluster")
    tab.evaluate("document.querySelector('#live').firstElementChild.id = 'old'")
    tab.wait_for("document.querySelector('#live') && !document.querySelector('#old')")
    assert tab.problems == []


@pytest.mark.parametrize("path", ["login", "cluster"])
def test_nothing_is_wider_than_a_phone(console_url, tab, path):
    tab.resize(360, 740)
    tab.open(f"{console_url}{path}")
    assert tab.overflow == 0
    assert tab.problems == []


def test_it_is_dark_where_the_browser_prefers_that(console_url, tab):
    tab.open(f"{console_url}cluster")
    ground = (
        "getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    )
    light = tab.evaluate(ground)
    tab.prefer(dark=True)
    dark = tab.evaluate(ground)
    assert min(light) > 200
    assert max(dark) < 60
    tab.open(f"{console_url}cluster")
    assert tab.evaluate(ground) == dark


def test_the_policy_forbids_what_is_not_ours(console_url, tab):
    tab.open(f"{console_url}cluster")
    tab.evaluate("document.body.insertAdjacentHTML('beforeend', '<p style=\"color:red\">x</p>')")
    tab.wait_for_problem("violates the following Content Security Policy directive")
    tab.problems.clear()
    tab.evaluate("document.head.appendChild(Object.assign(document.createElement('script'), {text: '1'}))")
    tab.wait_for_problem("violates the following Content Security Policy directive")
