"""From a URL to a server: its gRPC address, TLS, roles and passwords. One server, that is alone."""

from __future__ import annotations

import pytest
import trustme

from herdpy.testing.process import PortReservation
from herdpy_spark.access import AccessError, find, find_in_zookeeper
from herdpy_spark.options import OptionError, Options
from tests.spark.reading import read
from tests.support.server_process import RunningServer

RULES = """
[authentication]
rules = [
    { method = "trust", network = "loopback", user = "local" },
    { method = "scram-sha-256", network = "all" },
]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with TLS that asks for passwords, and roles that may log in or replicate."""
    folder = tmp_path_factory.mktemp("access")
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    certificate.private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    (folder / "server.toml").write_text(RULES)
    port = PortReservation()
    arguments = ["--config", folder / "server.toml", "--set", f"grpc.port={port.port}"]
    for name in ("certificate", "key"):
        arguments += ["--set", f"tls.{name}={folder / 'both.pem'}"]
    running = RunningServer(folder / "data", *arguments).ready()
    running.ca = folder / "ca.pem"
    with running.connect(user="local") as connection:
        connection.execute("CREATE ROLE plain LOGIN PASSWORD 'of the plain'")
        connection.execute("CREATE ROLE copier REPLICATION LOGIN PASSWORD 'of the copier'")
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        connection.execute("GRANT SELECT ON t TO plain")
        connection.execute("INSERT INTO t SELECT g FROM generate_series(1, 10) AS s (g)")
    yield running
    running.close()
    port.close()


def url(server, login=""):
    return f"herdpy://{login}127.0.0.1:{server.port}/data?sslmode=verify-full&sslrootcert={server.ca}"


def test_the_door_of_a_server_that_is_alone_is_found_and_tls_kept(server):
    (place,) = find(Options.parse({"url": url(server, "local@"), "table": "t"})).servers.places
    assert (place.port, place.tls, place.ca) == (server.grpc_port, True, server.ca)


@pytest.mark.parametrize("given", [{}, {"by_url": True}])
def test_a_role_with_its_password_reads_from_the_server(server, given):
    door = f"localhost:{server.grpc_port}"  # only superusers get it
    if given:
        found = read(url(server, "plain:of%20the%20plain@"), table="t", grpc=door)
    else:
        found = read(url(server), table="t", user="plain", password="of the plain", grpc=door)
    assert len(found.rows()) == 10


def test_a_wrong_password_is_told_without_it(server):
    with pytest.raises(AccessError, match="password authentication failed") as caught:
        read(url(server), table="t", user="plain", password="of nobody")
    assert "of nobody" not in str(caught.value)


def test_the_log_is_for_roles_that_replicate(server):
    door = f"localhost:{server.grpc_port}"
    with pytest.raises(AccessError, match="42501"):
        read(url(server), table="t", source="log", user="plain", password="of the plain", grpc=door)
    found = read(url(server), table="t", source="log", user="copier", password="of the copier", grpc=door)
    assert len(found.rows()) == 10  # out of its files: it is on this machine


def test_doors_may_be_named(server):
    login = {"user": "plain", "password": "of the plain"}
    door = f"127.0.0.1:{server.grpc_port}"
    assert len(read(url(server), table="t", grpc=f"127.0.0.1:1,{door}", **login).rows()) == 10
    with pytest.raises(AccessError, match="no server answers: 127"):
        read(url(server), table="t", grpc="127.0.0.1:1", **login)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("postgres://h/t", "the option url: not a HerdPy URL"),
        ("herdpy://h:99999/t", "the option url: not a host and port"),
        ("herdpy://h/t?nothing=1", "the option url: an option is not known: nothing"),
        ("herdpy+zk:///herdpy", "no host of ZooKeeper is named"),
        ("herdpy+zk://h/herdpy?nothing=1", "an option is not known: nothing"),
    ],
)
def test_urls_that_make_no_sense(text, says):
    with pytest.raises(OptionError, match=says):
        find(Options.parse({"url": text, "table": "t"}))


def test_a_zookeeper_that_does_not_answer(monkeypatch):
    monkeypatch.setattr("herdpy_spark.access._TIMEOUT_S", 0.2)
    with pytest.raises(AccessError, match=r"ZooKeeper at 127\.0\.0\.1:1 does not answer"):
        find_in_zookeeper("herdpy+zk://127.0.0.1:1/herdpy", None, None)
