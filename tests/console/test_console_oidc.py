"""Logging in by OpenID Connect: what is let in, and every lie that is not."""

from __future__ import annotations

import time

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from tests.console.provider import CLIENT, CURVE_KEY, KEY, OTHER_KEY, SECRET, fake_provider, signed
from tests.console.world import ELSEWHERE, PASSWORDS, ROLES, ConsoleWorld

CLUSTER = "<h1>Cluster</h1>"


@pytest.fixture(scope="module")
def the_provider():
    with fake_provider() as found:
        yield found


@pytest.fixture
def provider(the_provider):
    """It is honest again for each test."""
    the_provider.claims, the_provider.discovery, the_provider.sign = {}, {}, signed
    the_provider.keys = {"k1": KEY}
    return the_provider


@pytest.fixture
def world(provider, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    made = ConsoleWorld(
        tmp_path / "data",
        PASSWORDS,
        oidc_issuer=provider.issuer,
        oidc_client_id=CLIENT,
        oidc_client_secret_file=str(secret),
    )
    made.sql(*ROLES)
    yield made
    made.close()


@pytest.fixture
def browser(world):
    return world.browser(ELSEWHERE, "https://192.0.2.1")


def log_in(browser, provider, **more):
    """Go there and back; the answer to the return."""
    sent = browser.get("login/oidc?next=/console/jobs", follow=False)
    assert sent.headers["location"].startswith(f"{provider.issuer}/authorize?")
    back = provider.authorize(sent.headers["location"]) | more
    return browser.get(
        "login/back?" + "&".join(f"{name}={value}" for name, value in back.items()), follow=False
    )


def test_a_role_that_the_provider_names_is_let_in(world, provider, browser):
    assert "Log in with 127.0.0.1" in browser.get("login").text
    world.events.clear()
    answer = log_in(browser, provider)
    assert 'content="0; url=/console/jobs"' in answer.text
    assert CLUSTER in browser.get("cluster").text
    assert [(kind, what) for kind, what, _ in world.events[:1]] == [("login", "login")]


def test_the_cookie_of_the_way_back_is_lax_and_for_the_login_alone(provider, browser):
    cookie = browser.get("login/oidc", follow=False).headers["set-cookie"].lower()
    for part in ("samesite=lax", "httponly", "secure", "path=/console/login"):
        assert part in cookie


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "http://evil.example"}, "Invalid issuer"),
        ({"aud": "another client"}, "Audience"),
        ({"aud": [CLIENT, "x"], "azp": "x"}, "another client"),
        ({"exp": int(time.time()) - 600}, "expired"),
        ({"exp": None}, "exp"),
        ({"iat": None}, "iat"),
        ({"nonce": "other"}, "another login"),
        ({"nonce": None}, "another login"),
        ({"preferred_username": None}, "names no role"),
        ({"preferred_username": ["ann"]}, "names no role"),
        ({"preferred_username": "nobody"}, "is no role that may log in"),
        ({"preferred_username": "herdpy"}, "is no role that may log in"),
        ({"preferred_username": "nologin"}, "is no role that may log in"),
    ],
)
def test_a_token_that_lies_is_refused(provider, browser, claims, reason):
    provider.claims = claims
    answer = log_in(browser, provider)
    assert (answer.status_code, reason in answer.text) == (403, True)
    assert CLUSTER not in browser.get("cluster").text


PUBLIC = KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)


@pytest.mark.parametrize(
    "sign",
    [
        lambda claims: signed(claims, OTHER_KEY),
        lambda claims: signed(claims, kid="k2"),
        lambda claims: jwt.encode(claims, None, "none", headers={"kid": "k1"}),
        lambda claims: jwt.encode(claims, b"x" * 64, "HS256", headers={"kid": "k1"}),
        lambda claims: signed(claims)[:-8] + "AAAAAAAA",
        lambda _claims: "nonsense",
    ],
    ids=["another key", "an unknown key", "none", "HS256", "spoilt", "no token"],
)
def test_a_signature_that_is_not_the_providers_is_refused(provider, browser, sign):
    provider.sign = sign
    assert log_in(browser, provider).status_code == 403
    assert CLUSTER not in browser.get("cluster").text


def test_a_provider_may_have_new_keys(provider, browser):
    log_in(browser, provider)
    provider.keys = {"k2": CURVE_KEY}
    provider.sign = lambda claims: signed(claims, CURVE_KEY, "ES256", "k2")
    assert log_in(browser, provider).status_code == 200


def test_a_return_is_good_once_and_in_its_browser(world, provider, browser):
    sent = browser.get("login/oidc", follow=False).headers["location"]
    back = provider.authorize(sent)
    other = world.browser(ELSEWHERE, "https://192.0.2.1")
    way = f"login/back?code={back['code']}&state={back['state']}"
    assert other.get(way, follow=False).status_code == 403
    assert browser.get(way, follow=False).status_code == 403  # the state is used up
    assert log_in(browser, provider, state="made-up").status_code == 403


@pytest.mark.parametrize(
    "more", [{"code": "made-up"}, {"iss": "http://evil.example"}, {"error": "access_denied"}]
)
def test_a_return_that_proves_nothing_is_refused(provider, browser, more):
    assert log_in(browser, provider, **more).status_code in {403, 503}
    assert CLUSTER not in browser.get("cluster").text


@pytest.mark.parametrize(
    "discovery",
    [{"issuer": "http://evil.example"}, {"token_endpoint": "file:///etc/passwd"}, {"jwks_uri": "ftp://x/"}],
)
def test_a_provider_that_is_another_one_is_refused(provider, browser, discovery):
    provider.discovery = discovery
    answer = browser.get("login/oidc", follow=False)
    assert (answer.status_code, 'role="alert"' in answer.text) == (403, True)


def test_nothing_goes_to_the_provider_in_the_clear(world, provider):
    plain = world.browser(ELSEWHERE, "http://192.0.2.1")
    assert "Log in with" not in plain.get("login").text
    assert log_in(plain, provider).status_code == 403


def test_a_role_that_is_dropped_is_logged_out(world, provider, browser):
    log_in(browser, provider)
    assert CLUSTER in browser.get("cluster").text
    world.sql("ALTER ROLE ann NOLOGIN")
    assert CLUSTER not in browser.get("cluster").text
