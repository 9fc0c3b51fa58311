"""The pages, as a superuser and as a role with few rights."""

from __future__ import annotations

import pytest

from herdpy_server.console.pages import PAGES
from tests.console.world import ELSEWHERE

SHOWN = [
    route.path for page in PAGES for route in page.routes if route.method == "GET" and "{" not in route.path
]


@pytest.fixture
def ann(world):
    """A browser in which a role with few rights is logged in."""
    browser = world.browser(ELSEWHERE, "https://192.0.2.1")
    browser.log_in("ann", "of ann")
    return browser


@pytest.mark.parametrize("path", SHOWN)
def test_a_superuser_sees_every_page(world, path):
    answer = world.browser().get(path)
    assert answer.status_code in {200, 404}
    assert "internal error" not in answer.text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_others_see_what_is_not_for_superusers(world, ann, page):
    answer = ann.get(page.path)
    assert answer.status_code == (403 if page.superusers else 200)
    assert (f'href="/console/{page.path}"' in ann.get("cluster").text) == (not page.superusers)


def test_the_cluster_of_a_server_that_is_alone(world):
    text = world.browser().get("cluster").text
    assert "files of this server" in text
    assert "Nothing needs attention" in text


def test_names_are_texts_whatever_is_in_them(make_world):
    world = make_world(None)
    world.sql('CREATE ROLE "<script>alert(1)</script>" LOGIN')
    browser = world.browser()
    text = browser.log_in("<script>alert(1)</script>", "").text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;<span" in text
    assert "<script>alert" not in text
