"""ZooKeeper by TLS, with clients that show a certificate: the BookKeeper client, and the driver."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import herdpy
from herdpy.bookkeeper import ClientSettings
from herdpy.bookkeeper.client import _zookeeper
from herdpy.bookkeeper.errors import ZooKeeperUnavailableError
from herdpy.testing.tls import Certificates
from herdpy.testing.zookeeper import ZooKeeperServer
from herdpy.zookeeper_access import ZooKeeperAccess

ROOT = "/of_tls"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.issue(tmp_path_factory.mktemp("tls"), "127.0.0.1")


@pytest.fixture(scope="module")
def server(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), certificates=certificates) as running:
        asyncio.run(_make_tablespace(running, access_of(certificates)))
        yield running


def access_of(certificates: Certificates, **change: Any) -> ZooKeeperAccess:
    given = {
        "ca": str(certificates.authority), "certificate": str(certificates.certificate),
        "key": str(certificates.key),
    }  # fmt: skip
    return ZooKeeperAccess(tls=True, **{**given, **change})


async def _make_tablespace(server: ZooKeeperServer, access: ZooKeeperAccess) -> None:
    znodes = _zookeeper(server.hostport, ClientSettings(zookeeper_access=access))
    await znodes.start()
    try:
        path = f"{ROOT}/tablespaces/herdpy"
        await znodes.create(path, json.dumps({"name": "herdpy"}).encode(), make_parents=True)
        assert json.loads((await znodes.get(path)).data) == {"name": "herdpy"}
    finally:
        await znodes.close()


def url(server: ZooKeeperServer) -> str:
    return f"herdpy+zk://{server.hostport}{ROOT}?tablespace=herdpy"


def options(certificates: Certificates, **change: Any) -> dict[str, Any]:
    given = {
        "zookeeper_tls": True, "zookeeper_ca": certificates.authority,
        "zookeeper_cert": certificates.certificate, "zookeeper_key": certificates.key,
    }  # fmt: skip
    return {**given, **change}


def told_by(place: str, **given: Any) -> str:
    """What the driver says when it looks the servers up; it has an end within its time."""
    began = time.monotonic()
    with pytest.raises(herdpy.OperationalError) as caught:
        herdpy.connect(place, connect_timeout=2, **given)
    assert caught.value.sqlstate == "08001"
    assert time.monotonic() - began < 30
    return caught.value.message


def test_the_driver_looks_servers_up(server: ZooKeeperServer, certificates: Certificates) -> None:
    # ZooKeeper has answered: nobody has registered there.
    assert f"no server is there: none is registered under {ROOT}" in told_by(
        url(server), **options(certificates)
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"zookeeper_ca": None}, "certificate verify failed"),
        ({"zookeeper_cert": None, "zookeeper_key": None}, "does not answer"),
        (
            dict.fromkeys(("zookeeper_tls", "zookeeper_ca", "zookeeper_cert", "zookeeper_key")),
            "does not answer",
        ),
    ],
    ids=["an authority that is not known", "no certificate", "in the clear"],
)
def test_what_does_not_fit_is_told(
    server: ZooKeeperServer, certificates: Certificates, change: dict[str, Any], said: str
) -> None:
    assert said in told_by(url(server), **options(certificates, **change))


def test_a_name_that_the_certificate_does_not_have(
    server: ZooKeeperServer, certificates: Certificates
) -> None:
    place = url(server).replace("127.0.0.1", "localhost")
    assert "certificate verify failed" in told_by(place, **options(certificates))


def test_a_session_without_certificate_is_none(server: ZooKeeperServer, certificates: Certificates) -> None:
    async def program() -> None:
        access = access_of(certificates, certificate=None, key=None)
        settings = ClientSettings(zookeeper_timeout_s=2.0, zookeeper_access=access)
        znodes = _zookeeper(server.hostport, settings)
        with pytest.raises(ZooKeeperUnavailableError, match="no session with ZooKeeper"):
            await znodes.start()

    asyncio.run(program())


def test_a_host_gets_its_share_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def connect(address: tuple[str, int], timeout: float) -> None:
        given.append(timeout)
        raise TimeoutError

    monkeypatch.setattr("socket.create_connection", connect)
    handler = ZooKeeperAccess().keywords("a:1,b:2,c:3,d:4/root", 6.0)["handler"]
    with pytest.raises(TimeoutError):
        handler.create_connection(address=("a", 1), hostname="a", timeout=6.0, use_ssl=False)
    assert given == [1.5]


@pytest.mark.parametrize(
    ("place", "given", "said"),
    [
        ("herdpy://h/t", {"zookeeper_tls": True}, "zookeeper_tls is for URLs with herdpy+zk"),
        ("herdpy+zk://h/t", {"zookeeper_ca": __file__}, "zookeeper_ca needs zookeeper_tls"),
        ("herdpy+zk://h/t?zookeeper_tls=true", {"zookeeper_cert": __file__}, "belong together"),
        ("herdpy+zk://h/t?zookeeper_tls=true&zookeeper_ca=/none", {}, "there is no file /none"),
    ],
)
def test_options_that_make_no_sense(place: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(herdpy.InterfaceError, match=said.replace("+", r"\+")):
        herdpy.connect(place, **given)


def test_an_authority_that_is_no_certificate_is_told(server: ZooKeeperServer, tmp_path: Path) -> None:
    wrong = tmp_path / "ca.pem"
    wrong.write_text("none")
    assert "does not answer" in told_by(url(server), zookeeper_tls=True, zookeeper_ca=wrong)
