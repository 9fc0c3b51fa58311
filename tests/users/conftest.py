"""A server with TLS whose rules ask for certificates and passwords, and one that trusts this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trustme

from herdpy_server.config import HostRule
from herdpy_server.process.front_ends import RuleAuthority
from tests.pgwire.servers import ThreadServer, thread_server

Connect = Callable[..., psycopg.Connection[Any]]


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def files(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's certificate and key; ann's of our authority, eve's of another in ann's name."""
    folder = tmp_path_factory.mktemp("certificates")
    own = authority.issue_cert("localhost", "127.0.0.1")
    own.private_key_pem.write_to_path(folder / "key.pem")
    own.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for name, signer in (("ann", authority), ("eve", trustme.CA())):
        issued = signer.issue_cert(f"{name}@example.org", common_name="ann")
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
        (folder / f"{name}.key").chmod(0o600)
    return folder


RULES = [
    HostRule(method="trust", user="admin", network="loopback"),
    HostRule(method="cert", user="ann"),
    HostRule(method="cert", user="bob"),
    HostRule(method="scram-sha-256", user="cid", clientcert="verify-ca"),
    HostRule(method="trust", network="loopback"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, files: Path) -> Iterator[ThreadServer]:
    with thread_server(
        tmp_path_factory.mktemp("users") / "data",
        tls_certificate=files / "certificate.pem",
        tls_key=files / "key.pem",
        tls_client_ca=files / "ca.pem",
        client_certificate_required=False,
    ) as found:
        store = found.server.registry.role_store
        assert store is not None
        found.server.context.authority = RuleAuthority(RULES, store.verifier)
        yield found
        found.wait_for(found.is_clean)


@pytest.fixture
def connect(server: ThreadServer) -> Iterator[Connect]:
    """Opens connections that are closed at the end."""
    opened: list[psycopg.Connection[Any]] = []

    def begin(user: str, **options: Any) -> psycopg.Connection[Any]:
        given = {"host": "127.0.0.1", "port": server.port, "dbname": "herdpy", **options}
        opened.append(psycopg.connect(user=user, autocommit=True, **given))
        return opened[-1]

    yield begin
    for one in opened:
        one.close()
