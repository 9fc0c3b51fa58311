"""What is said of a console that could not work, or not be reached."""

from __future__ import annotations

import pytest

from herdpy_server.config import load
from tests.config.kit import DATA, problems


@pytest.mark.parametrize(
    ("issuer", "is_taken"),
    [
        ("https://login.example/realms/a", True),
        ("http://127.0.0.1:8080/realm", True),
        ("http://login.example", False),
        ("login.example", False),
        ("https://login.example/?a=b", False),
        ("file:///etc/passwd", False),
    ],
)
def test_a_provider_is_reached_over_https(written, issuer, is_taken):
    path = written(f"[console]\noidc_issuer = '{issuer}'\noidc_client_id = 'console'\n")
    if is_taken:
        assert load(path, flags=[DATA]).config.console.oidc_issuer == issuer
    else:
        assert problems(path) == [
            f"{path}:2: console.oidc_issuer = {issuer!r} is no https URL (http is for this machine)"
        ]


def test_a_provider_needs_a_name_for_us_and_ours_a_provider(written):
    path = written("[console]\noidc_issuer = 'https://a.example'\n")
    assert problems(path) == [f"{path}:2: console.oidc_issuer needs console.oidc_client_id"]
    path = written("[console]\noidc_client_id = 'console'\noidc_ca = '/none.pem'\n")
    assert problems(path) == [
        f"{path}:2: console.oidc_client_id needs console.oidc_issuer",
        f"{path}:3: console.oidc_ca needs console.oidc_issuer",
    ]


def test_files_and_scopes_are_looked_at(written):
    path = written(
        "[console]\noidc_issuer = 'https://a.example'\noidc_client_id = 'c'\noidc_scopes = ['profile']\n"
        "oidc_client_secret_file = '/none'\n"
    )
    assert problems(path) == [
        f"{path}:4: console.oidc_scopes lacks openid",
        f"{path}:5: console.oidc_client_secret_file: /none cannot be read",
    ]


def test_a_console_that_others_reach_without_tls_is_warned_of(written):
    path = written("[http]\naddress = '0.0.0.0'\n")
    (warning,) = [one for one in load(path, flags=[DATA]).warnings if "console" in one]
    assert "other machines can reach the console at 0.0.0.0, without TLS" in warning
    path = written("[http]\naddress = '0.0.0.0'\n[console]\nenabled = false\n")
    assert not [one for one in load(path, flags=[DATA]).warnings if "console" in one]


def test_drills_need_a_place_and_commands(written, tmp_path):
    path = written("[console]\ndrill_directory = '/srv/drills'\n")
    assert problems(path) == [f"{path}:2: console.drill_directory needs console.drill_commands"]
    path = written(
        "[console]\ndrill_url = 'herdpy://a/b'\ndrill_directory = '/d'\ndrill_commands = '/none'\n"
    )
    assert problems(path) == [f"{path}:4: console.drill_commands: /none cannot be read"]
