"""Who gets in, from where, under which name, and what nobody gets."""

from __future__ import annotations

import pytest

from herdpy_server.console.pages import PAGES
from tests.console.world import ELSEWHERE, LOOPBACK

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
CLUSTER = "<h1>Cluster</h1>"
LOGIN = 'name="password"'
PATHS = [
    route.path for page in PAGES for route in page.routes if route.method == "GET" and "{" not in route.path
]
FORMS = [
    route.path for page in PAGES for route in page.routes if route.method == "POST" and "{" not in route.path
]


def test_this_machine_gets_in_without_a_login_where_the_rules_trust_it(world):
    browser = world.browser()
    assert CLUSTER in browser.get("").text
    assert "herdpy<span" in browser.get("cluster").text


@pytest.mark.parametrize("header", ["x_forwarded_for", "forwarded", "via", "x_real_ip"])
def test_a_proxy_on_this_machine_is_not_this_machine(world, header):
    answer = world.browser().get("cluster", **{header: "198.51.100.1"})
    assert LOGIN in answer.text


def test_another_name_of_this_machine_needs_a_login(make_world):
    world = make_world(None, hosts=("db.example",))
    assert LOGIN in world.browser(origin="https://db.example").get("cluster").text


@pytest.mark.parametrize("path", ["", *PATHS])
def test_another_machine_gets_the_login_page_and_nothing_else(world, path):
    answer = world.browser(ELSEWHERE).get(path)
    assert (answer.status_code, LOGIN in answer.text) == (200, True)
    assert answer.url.path == "/console/login"


@pytest.mark.parametrize("path", ["static/console.css", "static/htmx.min.js", "static/console.js"])
def test_styles_and_scripts_are_for_everybody_and_kept(world, path):
    browser = world.browser(ELSEWHERE)
    answer = browser.get(path)
    assert answer.status_code == 200
    assert browser.get(path, if_none_match=answer.headers["etag"]).status_code == 304


@pytest.mark.parametrize(
    "path", ["static/../app.py", "static/%2e%2e/app.py", "static/htmx.LICENSE", "nothing"]
)
def test_what_is_no_page_is_not_there(world, path):
    assert world.browser(ELSEWHERE).get(path).status_code == 404


@pytest.mark.parametrize("path", ["", "login", "static/console.css", "nothing", *PATHS])
@pytest.mark.parametrize("address", [LOOPBACK, ELSEWHERE])
def test_every_answer_forbids_what_no_page_does(world, path, address):
    answer = world.browser(address).get(path, follow=False)
    assert answer.headers["content-security-policy"] == CONTENT_POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cache-control"] == ("no-cache" if path.startswith("static/") else "no-store")


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "localhost@evil.example", "", "a b"]
)
def test_a_name_that_others_have_pointed_at_us_is_refused(world, host):
    answer = world.browser().get("cluster", follow=False, host=host)
    assert (answer.status_code, CLUSTER in answer.text) == (421, False)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8480", "127.0.0.1:1", "[::1]:8480", "192.0.2.1"])
def test_names_of_this_machine_and_addresses_are_not(world, host):
    assert world.browser().get("cluster", follow=False, host=host).status_code in {200, 303}


def test_a_role_logs_in_by_its_password_and_out(world):
    browser = world.browser(origin="https://localhost:8480")
    browser.post("logout", {"csrf_token": browser.token()})
    browser = world.browser(ELSEWHERE, origin="https://192.0.2.1:8480")
    assert "password authentication failed" in browser.log_in("ann", "of boss").text
    answer = browser.log_in("ann", "of ann")
    assert (answer.status_code, CLUSTER in answer.text) == (200, True)
    assert LOGIN in browser.post("logout", {"csrf_token": browser.token()}).text
    assert LOGIN in browser.get("cluster").text


def test_the_cookie_is_for_our_pages_alone(world):
    browser = world.browser(ELSEWHERE, origin="https://192.0.2.1:8480")
    answer = browser.post("login", {"user": "ann", "password": "of ann"}, follow=False)
    cookie = answer.headers["set-cookie"].lower()
    for part in ("httponly", "samesite=strict", "secure", "path=/console"):
        assert part in cookie
    assert "secure" not in world.browser().get("cluster", follow=False).headers["set-cookie"].lower()


def test_a_password_is_not_taken_in_the_clear_from_another_machine(world):
    browser = world.browser(ELSEWHERE, origin="http://192.0.2.1:8480")
    assert "not encrypted" in browser.get("login").text
    answer = browser.log_in("ann", "of ann")
    assert (answer.status_code, "over TLS or from this machine" in answer.text) == (403, True)


def test_unless_something_else_encrypts(make_world):
    world = make_world(None, allow_plain_password=True)
    assert CLUSTER in world.browser(ELSEWHERE, "http://192.0.2.1").log_in("ann", "of ann").text


@pytest.mark.parametrize("user", ["nobody", "nologin"])
def test_who_is_not_there_is_refused_as_who_has_another_password(world, user):
    answer = world.browser(ELSEWHERE, "https://192.0.2.1").log_in(user, f"of {user}")
    assert f"password authentication failed for user &#34;{user}&#34;" in answer.text


def test_logins_are_in_the_audit_log_refused_ones_too(world):
    world.events.clear()
    browser = world.browser("192.0.2.9", "https://192.0.2.1")
    browser.log_in("boss", "wrong")
    browser.log_in("boss", "of boss")
    about = {"user": "boss", "database": "herdpy", "address": "192.0.2.9", "tls": True, "door": "console"}
    assert world.events == [
        ("login", "refused", {**about, "sqlstate": "28P01"}),
        ("login", "login", about),
    ]


def test_a_form_of_another_site_does_nothing(world):
    browser = world.browser()
    token = browser.token()
    for headers in ({"origin": "http://evil.example"}, {"origin": None}, {"origin": "null"}):
        assert browser.post("logout", {"csrf_token": token}, **headers).status_code == 403
    assert browser.post("logout", {"csrf_token": token}, sec_fetch_site="cross-site").status_code == 403
    assert browser.post("login", {"user": "ann"}, origin="http://evil.example").status_code == 403
    assert CLUSTER in browser.get("cluster").text


def test_a_form_without_its_token_does_nothing(world):
    browser = world.browser()
    browser.get("cluster")
    for token in ("", "x", world.browser().token()):
        assert browser.post("logout", {"csrf_token": token}).status_code == 403


@pytest.mark.parametrize("path", FORMS)
def test_no_page_takes_a_form_without_its_token(world, path):
    browser = world.browser()
    browser.get("cluster")
    answer = browser.post(path, {"csrf_token": world.browser().token()})
    assert (answer.status_code, "older than the login" in answer.text) == (403, True)
    assert world.browser().post(path, {}).url.path == "/console/login"


def test_who_changes_his_password_is_logged_out_everywhere(make_world):
    world = make_world()
    browser = world.browser()
    assert CLUSTER in browser.log_in("ann", "of ann").text
    world.sql("ALTER ROLE ann PASSWORD 'new'")
    assert LOGIN in browser.get("cluster").text
    browser.log_in("ann", "new")
    world.sql("ALTER ROLE ann NOLOGIN")
    assert LOGIN in browser.get("cluster").text


def test_a_role_of_the_same_name_is_another_role(make_world):
    world = make_world(None)
    world.sql("CREATE ROLE eve LOGIN")
    browser = world.browser()
    browser.log_in("eve", "")
    assert "eve<span" in browser.get("cluster").text
    world.sql("DROP ROLE eve", "CREATE ROLE eve LOGIN SUPERUSER")
    assert "eve<span" not in browser.get("cluster").text


def test_rules_that_trust_nobody_any_more_end_what_they_let_in(make_world):
    world = make_world(None)
    browser = world.browser()
    assert CLUSTER in browser.get("cluster").text
    world.authority.set_rules([])
    assert LOGIN in browser.get("cluster").text


def test_guessing_passwords_gets_slow(make_world):
    world = make_world()
    browser = world.browser()
    for _ in range(5):
        assert "authentication failed" in browser.log_in("ann", "guess").text
    answer = browser.log_in("ann", "of ann")
    assert (answer.status_code, "too many tries" in answer.text) == (429, True)
    assert int(answer.headers["retry-after"]) >= 1
    assert CLUSTER in browser.log_in("boss", "of boss").text


def test_a_login_leads_to_our_own_pages_only(world):
    browser = world.browser(ELSEWHERE, "https://192.0.2.1")
    for target in ("https://evil.example/", "//evil.example/", "/console/\\evil", "/other", "/console//e"):
        answer = browser.post("login", {"user": "ann", "password": "of ann", "next": target}, follow=False)
        assert answer.headers["location"] == "/console/"
    given = {"user": "ann", "password": "of ann", "next": "/console/cluster?a=b"}
    assert browser.post("login", given, follow=False).headers["location"] == "/console/cluster?a=b"


def test_a_link_of_another_site_arrives_with_its_login(world):
    browser = world.browser(ELSEWHERE)
    arrival = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    answer = browser.get("cluster?x=1", follow=False, **arrival)
    assert 'content="0; url=/console/cluster?x=1"' in answer.text
    assert answer.status_code == 200


def test_what_a_page_asks_by_itself_does_not_keep_its_login(world):
    browser = world.browser()
    browser.get("cluster")
    login = world.console.logins.find(browser.client.cookies["herdpy_console_8480"], uses=False)
    login.used_s -= 100
    before_s = login.used_s
    assert "<h1>" not in browser.get("cluster/live", x_console_live="1").text
    assert login.used_s == before_s
    browser.get("cluster")
    assert login.used_s > before_s


def test_nothing_is_left_of_a_page_that_was_made(world):
    world.browser().get("cluster")
    assert len(world.registry) == 0
    assert not world.database.driver.waiting
