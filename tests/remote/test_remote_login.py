"""Passwords and TLS on the way to servers, and a server that falls silent."""

from __future__ import annotations

import signal

import pytest
import trustme

import herdpy
from herdpy.dbapi.remote import leader as remote_search
from herdpy.dbapi.remote import wire as remote_wire
from tests.support.server_process import RunningServer

RULES = "[{ method = 'trust', user = 'admin', network = 'loopback' }, { method = 'scram-sha-256' }]"


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A server with a certificate, which wants passwords, and the file of who signed it."""
    path = tmp_path_factory.mktemp("secured")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(path / "both.pem")
    (path / "both.pem").chmod(0o600)
    tls = [part for name in ("certificate", "key") for part in ("--set", f"tls.{name}={path}/both.pem")]
    server = RunningServer(path / "data", "--set", f"authentication.rules={RULES}", *tls).ready()
    with server.connect(user="admin") as admin:
        admin.execute("CREATE ROLE ann LOGIN SUPERUSER PASSWORD 'p@ss:word'")
    yield server, path / "ca.pem"
    server.close()


def test_a_password_over_an_encrypted_connection(secured):
    server, ca = secured
    options = f"sslmode=verify-full&sslrootcert={ca}"
    url = f"herdpy://ann:p%40ss%3Aword@127.0.0.1:{server.port}/test?{options}"
    with herdpy.connect(url) as conn:
        assert conn.execute("SELECT current_user").fetchone() == ("ann",)
        assert conn.shared_link.link._connection.wire.pgconn.ssl_in_use
        assert "p@ss" not in f"{conn!r} {conn.info!r} {conn.shared_link.link._options!r}"
    with herdpy.connect(f"herdpy://127.0.0.1:{server.port}/test?{options}", user="ann", password="p@ss:word"):
        pass


def test_the_environment_and_a_file_of_passwords_let_in(secured, tmp_path, monkeypatch):
    server, ca = secured
    monkeypatch.setenv("HERDPY_SSLMODE", "verify-full")
    monkeypatch.setenv("HERDPY_SSLROOTCERT", str(ca))
    monkeypatch.setenv("HERDPY_USER", "ann")
    url = f"herdpy://127.0.0.1:{server.port}/test"
    monkeypatch.setenv("HERDPY_PASSWORD", "p@ss:word")
    with herdpy.connect(url) as conn:
        assert conn.execute("SELECT current_user").fetchone() == ("ann",)
        assert conn.shared_link.link._connection.wire.pgconn.ssl_in_use
    monkeypatch.setenv("HERDPY_PASSWORD", "")
    passwords = tmp_path / "passwords"
    passwords.write_text(f"127.0.0.1:{server.port}:test:ann:p@ss\\:word\n")
    passwords.chmod(0o600)
    with herdpy.connect(url, passfile=passwords) as conn:
        assert conn.execute("SELECT current_user").fetchone() == ("ann",)
    with pytest.raises(herdpy.OperationalError) as caught:
        herdpy.connect(url)
    assert caught.value.sqlstate == "28P01"
    assert "no password supplied" in str(caught.value)


@pytest.mark.parametrize(
    ("login", "options", "sqlstate"),
    [
        ("ann:wrong", "sslmode=require", "28P01"),
        ("nobody:secret", "sslmode=require", "28P01"),
        ("ann:p%40ss%3Aword", "sslmode=verify-full", "08001"),  # who signed it is not known
    ],
)
def test_who_is_not_let_in(secured, login, options, sqlstate):
    server, _ca = secured
    with pytest.raises(herdpy.OperationalError) as caught:
        herdpy.connect(f"herdpy://{login}@127.0.0.1:{server.port}/test?connect_timeout=20&{options}")
    assert caught.value.sqlstate == sqlstate
    assert "p@ss" not in str(caught.value)


def test_a_new_connection_has_the_password_too(secured):
    server, ca = secured
    url = f"herdpy://ann:p%40ss%3Aword@127.0.0.1:{server.port}/test?sslmode=verify-full&sslrootcert={ca}"
    with herdpy.connect(url, autocommit=True) as conn, server.connect(user="admin") as admin:
        (pid,) = conn.execute("SELECT pg_backend_pid()").fetchone()
        assert admin.execute("SELECT pg_terminate_backend(%s)", (pid,)).fetchone() == (True,)
        (other,) = conn.execute("SELECT pg_backend_pid()").fetchone()
        assert other != pid


def test_a_server_that_falls_silent_is_lost_in_bounded_time(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_wire, "PROBE_AFTER_S", 0.1)
    monkeypatch.setattr("herdpy.dbapi.remote.leader._PROBE_TIMEOUT_S", 0.3)
    server = RunningServer(tmp_path / "data").ready()
    try:
        url = f"herdpy://ann@127.0.0.1:{server.port}/test?failover_timeout=0.5"
        with herdpy.connect(url, autocommit=True) as conn:
            conn.execute("CREATE TABLE t (n INTEGER)")
            server.signal(signal.SIGSTOP)
            with pytest.raises(herdpy.OperationalError) as caught:
                conn.execute("SELECT count(*) FROM t")
            assert caught.value.outcome == "not done"
            with pytest.raises(herdpy.OperationalError) as caught:
                conn.execute("INSERT INTO t VALUES (1)")
            assert caught.value.sqlstate in ("08001", "08006", "08007")
            server.signal(signal.SIGCONT)
            assert conn.execute("SELECT 1").fetchone() == (1,)
    finally:
        server.signal(signal.SIGCONT)
        server.close()


def test_after_a_server_fell_silent_the_one_that_leads_is_asked_first(tmp_path, server, monkeypatch):
    monkeypatch.setattr(remote_wire, "PROBE_AFTER_S", 0.1)
    began_with = []
    begin = remote_search.Search.__init__

    def noted(search, hosts, *args, **more):
        began_with.append(hosts[0][1])
        begin(search, hosts, *args, **more)

    silent = RunningServer(tmp_path / "data").ready()
    try:
        url = f"herdpy://ann@127.0.0.1:{silent.port},127.0.0.1:{server.port}/test"
        with herdpy.connect(url, autocommit=True) as conn:
            conn.execute("SELECT 1")
            monkeypatch.setattr(remote_search.Search, "__init__", noted)
            silent.signal(signal.SIGSTOP)
            assert conn.execute("SELECT 2").fetchone() == (2,)
    finally:
        silent.signal(signal.SIGCONT)
        silent.close()
    assert began_with[0] == silent.port  # is it alive?
    assert began_with[-1] == server.port


def test_a_statement_that_takes_long_is_waited_for(server, monkeypatch):
    monkeypatch.setattr(remote_wire, "PROBE_AFTER_S", 0.05)
    searches = []
    run = remote_search.Search.run

    def counted(*args):
        searches.append(args)
        return run(*args)

    monkeypatch.setattr(remote_search.Search, "run", counted)
    with herdpy.connect(f"herdpy://ann@127.0.0.1:{server.port}/test", autocommit=True) as conn:
        conn.execute("SELECT pg_sleep(0.5)")
    assert len(searches) > 1  # it was asked whether it is alive
