"""Who is let in: the rules of the configuration, in order, and roles' passwords."""

from __future__ import annotations

import stat

import psycopg
import pytest

from herdpy_server.config import HostRule
from herdpy_server.process.front_ends import RuleAuthority

SCRAM = "[{ method = 'trust', user = 'admin', network = 'loopback' }, { method = 'scram-sha-256' }]"


def method(rules: list[HostRule], user: str, address: str | None) -> str:
    """What the rules say."""
    return RuleAuthority(rules, lambda name: None).method(user, address)


@pytest.mark.parametrize(
    ("user", "address", "found"),
    [
        ("ann", "127.0.0.1", "trust"),
        ("ann", "127.8.9.1", "trust"),
        ("ann", "::1", "trust"),
        ("ann", "::ffff:127.0.0.1", "trust"),
        ("ann", None, "trust"),
        ("bob", "10.1.2.3", "scram-sha-256"),
        ("bob", "::ffff:10.1.2.3", "scram-sha-256"),
        ("ann", "10.1.2.3", "reject"),
        ("bob", "11.1.2.3", "reject"),
        ("bob", "fe80::1%eth0", "reject"),
        ("bob", "not an address", "reject"),
    ],
)
def test_the_first_rule_that_fits_decides(user, address, found):
    rules = [
        HostRule(method="trust", network="loopback"),
        HostRule(method="reject", network="10.0.0.0/8", user="ann"),
        HostRule(method="scram-sha-256", network="10.0.0.0/8"),
    ]
    assert method(rules, user, address) == found


def test_all_is_everywhere():
    rules = [HostRule(method="scram-sha-256")]
    assert {method(rules, "x", address) for address in ("1.2.3.4", "2001:db8::1", "::1", None)} == {
        "scram-sha-256"
    }


def test_passwords_let_in_who_knows_them(start):
    server = start("--set", f"authentication.rules={SCRAM}").ready()
    with server.connect(user="admin") as admin:
        admin.execute("CREATE ROLE ann LOGIN PASSWORD 'right'")
    assert server.connect(user="ann", password="right").execute("SELECT current_user").fetchone() == ("ann",)
    for user, password in (("ann", "wrong"), ("nobody", "right")):
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            server.connect(user=user, password=password)


def test_roles_are_there_again_and_only_their_owner_may_read_them(start):
    server = start("--set", f"authentication.rules={SCRAM}").ready()
    with server.connect(user="admin") as admin:
        admin.execute("CREATE ROLE ann LOGIN PASSWORD 'right'")
    server.stop()
    (roles,) = server.data.glob("users.json")
    assert stat.S_IMODE(roles.stat().st_mode) == 0o600
    assert "right" not in roles.read_text()
    again = start("--set", f"authentication.rules={SCRAM}").ready()
    assert again.connect(user="ann", password="right").execute("SELECT 1").fetchone() == (1,)
    again.stop()
    assert "right" not in "\n".join(server.lines + again.lines)


def test_a_damaged_file_of_roles_is_told(start):
    server = start().ready()
    server.stop()
    (server.data / "users.json").write_text("{")
    again = start()
    assert again.wait() == 1
    said = again.wait_for("cannot start")
    assert said["sqlstate"] == "XX001"
    assert "users.json" in said["message"]


def test_limits_of_sessions_hold(start):
    server = start("--set", "sessions.statements=1", "--set", "sessions.statement_bytes=1024").ready()
    connection = server.connect()
    connection.execute("PREPARE a AS SELECT 1")
    with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
        connection.execute("PREPARE b AS SELECT 2")
    with pytest.raises(psycopg.errors.ProgramLimitExceeded):
        connection.execute("SELECT '" + "x" * 2000 + "'")
    assert connection.execute("EXECUTE a").fetchone() == (1,)
