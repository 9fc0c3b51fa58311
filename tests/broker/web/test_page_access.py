"""Who gets at the page: hosts, origins, tokens, CSRF; all routes are looked at."""

from __future__ import annotations

import pytest
from herdpy_broker.errors import InvalidValueError
from herdpy_broker.web.actions import ACTIONS
from herdpy_broker.web.guard import is_loopback
from herdpy_broker.web.pages import PAGES
from herdpy_broker.web.serving import check_access
from herdpy_broker.web.sessions import Sessions

from tests.broker.web.conftest import TOKEN

READ = [*PAGES, "/live?page=overview"]
OPEN = {"/login", "/healthz", "/static/{name}"}


@pytest.fixture
def stranger(guarded):
    """A browser that has not shown the token."""
    with guarded.client() as made:
        made.headers.update(guarded.same_origin)
        yield made


def log_in(client, token=TOKEN):
    return client.post("/login", data={"token": token})


def test_every_route_is_in_these_tests(served):
    assert set(served.app.paths) == {*PAGES, *ACTIONS, *OPEN, "/live", "/metrics", "/logout"}


@pytest.mark.parametrize("path", READ)
def test_pages_lead_to_the_login(stranger, path):
    answer = stranger.get(path)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")


@pytest.mark.parametrize("path", [*ACTIONS, "/logout"])
def test_forms_lead_to_the_login(stranger, path):
    answer = stranger.post(path, data={"id": "1"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")


@pytest.mark.parametrize("path", [*ACTIONS, "/logout"])
@pytest.mark.parametrize("csrf", [None, "wrong"])
def test_forms_need_the_csrf_token(served, client, path, csrf):
    answer = client.post(path, data={"csrf": csrf} if csrf else {}, headers=served.same_origin)
    assert answer.status_code == 403
    assert "load the page again" in answer.text


@pytest.mark.parametrize("path", [*ACTIONS, "/logout", "/login"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site", "origin": "OURS"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://127.0.0.1"},
    ],
)
def test_forms_of_other_sites_are_refused(served, client, path, headers):
    headers = {name: value.replace("OURS", served.address) for name, value in headers.items()}
    answer = client.post(path, data={"csrf": "x"}, headers=headers)
    assert (answer.status_code, answer.text) == (403, "403: the request comes from another site\n")


@pytest.mark.parametrize("path", [*READ, "/metrics", "/healthz", "/login", "/static/live.js"])
@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "localhost@evil.example", "", "a b"]
)
def test_other_names_are_refused(client, path, host):
    assert client.get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8090", "127.0.0.1:8090", "[::1]:8090", "10.1.2.3"])
def test_own_names_are_answered(client, host):
    assert client.get("/healthz", headers={"host": host}).status_code == 200


def test_the_token_lets_a_browser_in_until_it_logs_out(stranger):
    answer = log_in(stranger)
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    page = stranger.get("/")
    assert page.status_code == 200
    csrf = page.text.partition('name="csrf" value="')[2].partition('"')[0]
    kept = dict(stranger.cookies)
    assert stranger.post("/logout", data={"csrf": csrf}).headers["location"] == "/login"
    stranger.cookies.update(kept)
    assert stranger.get("/").headers["location"] == "/login"


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "\udcff"])
def test_other_tokens_let_nobody_in(stranger, token):
    answer = log_in(stranger, token.encode(errors="surrogatepass").decode(errors="replace"))
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert TOKEN not in answer.text


def test_a_cookie_of_ones_own_lets_nobody_in(stranger):
    stranger.cookies["herdpy_broker"] = "made-up"
    assert stranger.get("/").headers["location"] == "/login"


def test_metrics_take_the_token_of_a_program(stranger):
    assert stranger.get("/metrics").status_code == 401
    assert stranger.get("/metrics", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert stranger.get("/metrics", headers={"authorization": f"Basic {TOKEN}"}).status_code == 401
    assert stranger.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert stranger.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 303


def test_guessing_is_slowed_down(stranger):
    for _ in range(10):
        assert log_in(stranger, "wrong").status_code == 403
    answer = log_in(stranger)
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 61
    assert stranger.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 401


def test_wrong_tokens_count_for_their_address_and_are_forgotten():
    now_s = [0.0]
    sessions = Sessions(TOKEN, lambda: now_s[0])
    for _ in range(10):
        assert not sessions.admits("wrong", "10.0.0.1")
    assert sessions.wait_s("10.0.0.1") == 60
    assert sessions.admits(TOKEN, "10.0.0.2")
    now_s[0] = 60.0
    assert sessions.admits(TOKEN, "10.0.0.1")


def test_a_session_ends_after_its_time():
    now_s = [0.0]
    sessions = Sessions(TOKEN, lambda: now_s[0])
    ident = sessions.begin(TOKEN, "") or ""
    assert sessions.find(ident) is not None
    now_s[0] = 12 * 3600.0
    assert sessions.find(ident) is None


@pytest.mark.parametrize("path", [*READ[:-1], "/metrics", "/login", "/static/broker.css", "/nowhere"])
def test_every_answer_forbids_what_pages_never_do(client, path):
    headers = client.get(path).headers
    assert headers["content-security-policy"].startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'"
    )
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"


def test_pages_are_not_kept_by_browsers(client):
    assert client.get("/").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("data", "status"), [("x=" + "a" * (64 << 10), 413), ("&".join(["a=b"] * 2001), 400)]
)
def test_forms_are_limited(served, client, data, status):
    headers = {**served.same_origin, "content-type": "application/x-www-form-urlencoded"}
    assert client.post("/task/cancel", content=data, headers=headers).status_code == status


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::", "example.com"])
def test_other_machines_need_a_token(host):
    with pytest.raises(InvalidValueError, match="--token-file"):
        check_access(host, None)
    check_access(host, TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.9.9.9"])
def test_this_machine_needs_none(host):
    assert is_loopback(host)
    check_access(host, None)


def test_a_token_is_no_word():
    with pytest.raises(InvalidValueError, match="16 characters"):
        check_access("127.0.0.1", "short")
