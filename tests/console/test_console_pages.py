"""The pages, as a superuser and as a role with few rights."""

from __future__ import annotations

import json
import re

import pytest

from herdpy_server.console.pages import PAGES
from herdpy_server.console.pages.audit import newest
from herdpy_server.console.pages.tablespaces import literal
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
    assert answer.status_code < 500
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


# Tablespaces.


def test_a_change_of_a_cluster_is_shown_as_a_statement_first(world):
    answer = world.browser().get("tablespaces/confirm?action=lead&tablespace=a%22b&node=it's")
    assert "ALTER TABLESPACE &#34;a&#34;&#34;b&#34; LEADER &#39;it&#39;&#39;s&#39;" in answer.text


@pytest.mark.parametrize(
    "given", ["", "?action=lead&tablespace=t", "?action=shut&tablespace=t", "?action=drop"]
)
def test_what_is_no_action_is_refused(world, given):
    assert world.browser().get(f"tablespaces/confirm{given}").status_code == 400


def test_a_server_that_is_alone_has_no_tablespaces_to_change(world):
    answer = world.browser().act("tablespaces/act", action="lead", tablespace="herdpy", node="x")
    assert "this database is not part of a cluster" in answer.text
    assert "55000" in answer.text


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("tablespaces/act", {"action": "drop", "tablespace": "t"}),
        ("tablespaces/create", {"name": "t", "replicas": "1"}),
        ("backups/make", {"tablespace": "default", "scope": "full"}),
    ],
)
def test_a_role_with_few_rights_changes_nothing(ann, path, form):
    answer = ann.act(path, **form)
    assert (answer.status_code, "42501" in answer.text) == (403, True)


def test_texts_are_quoted():
    assert literal("it's") == "'it''s'"


# Backups, and jobs.


def job_of(world, browser, title):
    """The state of the newest job of that title, once it has ended, and the page."""
    world.run(world.console.jobs.finish())
    text = browser.get("jobs/live").text
    return re.search(rf'">{title}</h2>.*?badge \w*">(\w+)<', text, re.DOTALL)[1], text


def test_a_backup_is_made_and_listed(make_world, tmp_path):
    world = make_world(None, backup={"url": str(tmp_path / "repository")})
    world.sql("CREATE TABLE t (i INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    browser = world.browser()
    world.events.clear()
    assert "is being backed up" in browser.act("backups/make", tablespace="default", scope="full").text
    state, text = job_of(world, browser, "Back up default")
    assert (state, "full" in text) == ("done", True)
    assert ("call", "call") in [(kind, what) for kind, what, _ in world.events]


def test_without_a_repository_there_is_nothing_to_be_backed_up_to(world):
    browser = world.browser()
    assert "backup.url" in browser.get("backups").text
    assert "55000" in browser.act("backups/make", tablespace="default", scope="full").text


def test_others_do_not_see_the_jobs_of_a_role(make_world, tmp_path):
    world = make_world(None, backup={"url": str(tmp_path / "repository")})
    mine = world.browser()
    mine.act("backups/make", tablespace="default", scope="full")
    job_of(world, mine, "Back up default")
    ident = re.search(r'id="job-(\w+)"', mine.get("jobs").text)[1]
    ann = world.browser()
    ann.log_in("ann", "of ann")
    assert ident not in ann.get("jobs").text
    assert ann.act("jobs/cancel", job=ident).status_code == 404


# The audit log.


def test_the_audit_log_is_shown_newest_first(make_world, tmp_path):
    path = tmp_path / "audit.log"
    lines = [
        {
            "time": f"2026-01-01T00:00:0{number}Z",
            "class": "ddl",
            "event": "statement",
            "user": "bob",
            "statement": f"CREATE TABLE <b>t{number}</b>",
        }
        for number in range(5)
    ]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in lines) + '{"cut')
    world = make_world(None, audit={"classes": ("ddl",), "file": str(path)})
    text = world.browser().get("audit").text
    assert re.findall(r"&lt;b&gt;t(\d)&lt;/b&gt;", text) == list("43210")
    assert re.findall(r"&lt;b&gt;t(\d)", world.browser().get("audit?class=ddl&find=T3").text) == ["3"]
    assert "nothing like that" in world.browser().get("audit?class=login").text


@pytest.mark.parametrize("size", [1, 300 << 10])
def test_a_long_file_is_read_from_its_end(tmp_path, size):
    path = tmp_path / "audit.log"
    with path.open("w") as file:
        for number in range(5000):
            file.write(json.dumps({"number": number, "class": "ddl", "x": "x" * (size // 1000)}) + "\n")
    assert [one["number"] for one in newest(path, "", "", 3)] == [4999, 4998, 4997]
    assert [one["number"] for one in newest(path, "", '"number": 7,')] == [7]
    assert newest(tmp_path / "nothing", "", "") == []
