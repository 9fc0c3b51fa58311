"""A cluster as its znodes describe it: also when every server is stopped. Beside ``servers``.

Only what is needed is read, and fields that are not there have their usual values: the servers that wrote the
znodes may be older or newer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from herdpy.rpc.place import Place
from herdpy_spark.access.errors import AccessError
from herdpy_spark.access.servers import Servers, door
from herdpy_spark.log import LogAddress
from herdpy_spark.options import OptionError

if TYPE_CHECKING:
    from kazoo.client import KazooClient

SCHEME = "herdpy+zk://"
_DEFAULT_ROOT = "/herdpy"
_DEFAULT_LEDGERS_ROOT = "/ledgers"
_DEFAULT_TABLESPACE = "herdpy"
_TIMEOUT_S = 15.0
_KNOWN = ("tablespace", "ledgers_root", "tls", "ca")
_TRUE = ("1", "true", "yes", "on")


def find(url: str, user: str | None, password: str | None) -> tuple[LogAddress, Servers | None]:
    """The log of the tablespace that ``herdpy+zk://zk1:2181,zk2:2181/root?tablespace=name`` names, and the
    servers that are there now; None: none is.

    Raises:
        OptionError: the URL makes no sense.
        AccessError: ZooKeeper does not answer, or has no such tablespace.
    """
    hosts, root, given = _parsed(url)
    user, password, hosts = _login(hosts, user, password)
    name = given.get("tablespace", _DEFAULT_TABLESPACE)
    with _Znodes(hosts) as znodes:
        info = znodes.read(f"{root}/tablespaces/{name}")
        if info is None or info.get("dropped"):
            raise AccessError(
                f"there is no tablespace {name} under {root} in ZooKeeper at {hosts}", is_gone=True
            )
        ca = Path(given["ca"]) if given.get("ca") else None
        like = Place("", user=user, password=password, tls=given.get("tls", "").lower() in _TRUE, ca=ca)
        places = []
        for node in znodes.children(f"{root}/nodes"):
            address = (znodes.read(f"{root}/nodes/{node}") or {}).get("grpc") or {}
            place = door(f"{address.get('host', '')}:{address.get('port', '')}", like)
            if place is not None:
                places.append(place)
        log_id = (znodes.read(f"{root}/tablespaces/{name}/ledgers") or {}).get("log", "")
    address = LogAddress(
        name,
        log_id=log_id if isinstance(log_id, str) else "",
        zookeeper=hosts,
        ledgers_root=given.get("ledgers_root", _DEFAULT_LEDGERS_ROOT),
        list_path=f"{root}/tablespaces/{name}/ledgers",
        snapshot_url=str(info.get("snapshot_url") or ""),
    )
    return address, Servers(name, places) if places else None


def _parsed(url: str) -> tuple[str, str, dict[str, str]]:
    rest, _, query = url[len(SCHEME) :].partition("?")
    hosts, _slash, path = rest.partition("/")
    given = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(set(given) - set(_KNOWN))
    if not hosts or unknown:
        what = f"does not know {unknown[0]}" if unknown else "names no host"
        raise OptionError(
            f"the URL {url!r} {what}: herdpy+zk://host:port,host2:port2/root?tablespace=name&ledgers_root=/ledgers"
        )
    return hosts, f"/{unquote(path).strip('/')}" if path else _DEFAULT_ROOT, given


def _login(hosts: str, user: str | None, password: str | None) -> tuple[str | None, str | None, str]:
    login, at, rest = hosts.rpartition("@")
    if not at:
        return user, password, hosts
    name, colon, secret = login.partition(":")
    return unquote(name) or user, unquote(secret) if colon else password, rest


class _Znodes:
    """ZooKeeper, read for a moment."""

    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._client: KazooClient | None = None

    def __enter__(self) -> _Znodes:
        from kazoo.client import KazooClient
        from kazoo.handlers.threading import KazooTimeoutError

        self._client = KazooClient(self._hosts, read_only=True)
        try:
            self._client.start(_TIMEOUT_S)
        except KazooTimeoutError as error:
            self.__exit__()
            raise AccessError(f"ZooKeeper at {self._hosts} does not answer", is_transient=True) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.stop()
            self._client.close()

    def read(self, path: str) -> dict[str, Any] | None:
        from kazoo.exceptions import NoNodeError

        assert self._client is not None
        try:
            data, _stat = self._client.get(path)
        except NoNodeError:
            return None
        try:
            found = json.loads(data or b"{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def children(self, path: str) -> list[str]:
        from kazoo.exceptions import NoNodeError

        assert self._client is not None
        try:
            return sorted(self._client.get_children(path))
        except NoNodeError:
            return []
