"""A cluster as its znodes describe it: also when every server is stopped. Beside ``servers``.

The URL and the reading are the driver's (``herdpy.dbapi.url``, ``herdpy.dbapi.zookeeper``); here is what
Spark needs of the cluster: its log, and gRPC doors.
"""

from __future__ import annotations

import time
from pathlib import Path

from herdpy.dbapi.errors import InterfaceError
from herdpy.dbapi.remote.options import RemoteOptions, remote_options
from herdpy.dbapi.url import ServersUrl, boolean, parse
from herdpy.dbapi.zookeeper import ZnodeReader, ZooKeeperError
from herdpy.rpc.address import GrpcAddress
from herdpy_spark.access.errors import AccessError
from herdpy_spark.access.servers import TablespaceServers, door
from herdpy_spark.log import LogAddress
from herdpy_spark.options import OptionError

SCHEME = "herdpy+zk://"
_DEFAULT_LEDGERS_ROOT = "/ledgers"
_TIMEOUT_S = 15.0
_TLS_MODES = ("require", "verify-ca", "verify-full")


def find(url: str, user: str | None, password: str | None) -> tuple[LogAddress, TablespaceServers | None]:
    """The log of the tablespace that ``herdpy+zk://zk1:2181,zk2:2181/root?tablespace=name`` names, and the
    servers that are there now; None: none is.

    Args:
        user, password: where the URL has none.

    Raises:
        OptionError: the URL makes no sense.
        AccessError: ZooKeeper does not answer, or has no such tablespace.
    """
    options, tls, ca = _parsed(url, user, password)
    place, name = options.zookeeper, options.database
    assert place is not None
    info_path = f"{place.root}/tablespaces/{name}"
    try:
        with ZnodeReader(place.hosts, time.monotonic() + _TIMEOUT_S, place.access) as znodes:
            info, ledgers = znodes.read_all([info_path, f"{info_path}/ledgers"])
            if info is None or info.get("dropped"):
                raise AccessError(
                    f"there is no tablespace {name} under {place.root} in ZooKeeper at {place.hosts}",
                    is_gone=True,
                )
            nodes = znodes.read_all(
                f"{place.root}/nodes/{node}" for node in znodes.children(f"{place.root}/nodes")
            )
    except ZooKeeperError as error:
        raise AccessError(error.message, is_transient=True) from error
    like = GrpcAddress("", user=options.user, password=options.password, tls=tls, ca=ca)
    places = []
    for node in nodes:
        address = (node or {}).get("grpc") or {}
        found = door(f"{address.get('host', '')}:{address.get('port', '')}", like)
        if found is not None:
            places.append(found)
    log_id = (ledgers or {}).get("log", "")
    log = LogAddress(
        name or "",
        log_id=log_id if isinstance(log_id, str) else "",
        zookeeper=place.hosts,
        ledgers_root=options.ledgers_root or _DEFAULT_LEDGERS_ROOT,
        list_path=f"{info_path}/ledgers",
        snapshot_url=str(info.get("snapshot_url") or ""),
    )
    return log, TablespaceServers(name or "", places) if places else None


def _parsed(url: str, user: str | None, password: str | None) -> tuple[RemoteOptions, bool, Path | None]:
    """The options of the URL; whether gRPC is by TLS, and the file of who signs: ``tls`` and ``ca`` are short
    for ``sslmode=require`` and ``sslrootcert``.
    """
    try:
        server = parse(url)
        assert isinstance(server, ServersUrl)
        given = dict(server.options)
        short, ca = given.pop("tls", ""), given.pop("ca", "")
        if user is not None and server.user is None:
            given.setdefault("user", user)
        if password is not None and server.password is None:
            given.setdefault("password", password)
        options = remote_options(server, given)
        tls = boolean("tls", short) if short else options.libpq.get("sslmode") in _TLS_MODES
    except InterfaceError as error:
        raise OptionError(f"the option url: {error}") from error
    ca = ca or options.libpq.get("sslrootcert", "")
    return options, tls, Path(ca) if ca and ca != "system" else None
