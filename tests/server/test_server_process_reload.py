"""SIGHUP: what a running server takes over of its configuration, and what it says of the rest."""

from __future__ import annotations

import signal
import ssl
import urllib.error
import urllib.request

import psycopg
import pytest
import trustme


@pytest.fixture
def configured(start, tmp_path):
    """``configured(text)``: a server with this configuration file; ``.rewrite(text)`` has it read again."""
    path = tmp_path / "server.toml"

    def begin(text: str):
        path.write_text(text)
        server = start("--config", path).ready()

        def rewrite(text: str, said: str) -> dict[str, object]:
            path.write_text(text)
            server.signal(signal.SIGHUP)
            return server.wait_for(said)

        server.rewrite = rewrite
        return server

    return begin


def test_levels_and_the_limit_of_slow_statements_are_taken_over(configured):
    server = configured("[logging]\nslow_statement_s = -1\n")
    shown = "SELECT value FROM herdpy.settings WHERE name LIKE 'logging.%' ORDER BY name"
    with server.connect() as connection:
        before = connection.execute(shown).fetchall()
        said = server.rewrite(
            "[logging]\nslow_statement_s = 0\nlevel = 'debug'\n", "configuration read again"
        )
        assert said["changed"] == "logging.level, logging.slow_statement_s"
        connection.execute("SELECT 2")
        after = connection.execute(shown).fetchall()
    assert server.wait_for("slow statement")["statement"] == "SELECT 2"
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert changed == [(('"info"',), ('"debug"',)), (("-1.0",), ("0.0",))]


def test_what_needs_another_start_is_said_and_left(configured):
    server = configured("[postgres]\nmax_connections = 1\n")
    said = server.rewrite("[postgres]\nmax_connections = 2\n", "these settings need another start")
    assert said["message"] == "these settings need another start: postgres.max_connections"
    server.connect()
    with pytest.raises(psycopg.OperationalError, match="too many clients"):
        server.connect()


def test_a_wrong_configuration_changes_nothing_and_is_told(configured, tmp_path):
    server = configured("[logging]\nslow_statement_s = -1\n")
    said = server.rewrite(
        "[logging]\nslow_statement_s = 0\nlevl = 'debug'\n", "the configuration is not taken over"
    )
    assert said["level"] == "error"
    assert said["message"].endswith(
        f"{tmp_path / 'server.toml'}:3: there is no setting logging.levl; did you mean logging.level?"
    )
    with server.connect() as connection:
        connection.execute("SELECT 1")
    server.stop()
    assert "slow statement" not in [record["message"] for record in server.records()]


def test_rules_are_taken_over_and_who_is_in_stays(configured):
    server = configured("[authentication]\nrules = [{ method = 'trust', network = 'loopback' }]\n")
    inside = server.connect()
    server.rewrite(
        "[authentication]\n"
        "rules = [{ method = 'reject', user = 'ann' }, { method = 'trust', network = 'loopback' }]\n",
        "configuration read again",
    )
    with pytest.raises(psycopg.OperationalError, match='no rule lets user "ann" in'):
        server.connect()
    assert inside.execute("SELECT 1").fetchone() == (1,)
    assert server.connect(user="bob").execute("SELECT 2").fetchone() == (2,)


def test_a_new_certificate_is_used_from_then_on(configured, tmp_path):
    def issue() -> trustme.CA:
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        return authority

    def connect() -> bool:
        connection = server.connect(sslmode="verify-full", sslrootcert=str(tmp_path / "ca.pem"))
        return connection.pgconn.ssl_in_use

    def page() -> str:
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        with urllib.request.urlopen(
            f"https://127.0.0.1:{server.http_port}/console/", context=context
        ) as answer:
            return str(answer.headers["set-cookie"])

    text = f"[tls]\ncertificate = '{tmp_path}/both.pem'\nkey = '{tmp_path}/both.pem'\n[http]\ntls = true\n"
    issue()
    server = configured(text)
    assert connect()
    assert "; Secure" in page()
    issue()
    with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
        connect()
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        page()
    server.rewrite(text, "configuration read again")
    assert connect()
    assert "; Secure" in page()


def test_without_a_file_the_flags_still_hold(server):
    server.signal(signal.SIGHUP)
    assert server.wait_for("configuration read again")["changed"] == "nothing"
