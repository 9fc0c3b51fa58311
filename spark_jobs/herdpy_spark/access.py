"""From a URL to a database: its servers, its log, its tables' definitions.

Above ``herdpy_spark.log``, below all that reads or writes. ``find`` reads the URL. Servers are found by SQL
(herdpy.nodes) at any one of the URL, and each gRPC call goes to one that answers; ``herdpy+zk://`` reads the
cluster's znodes, which works with every server stopped; a directory is the embedded database's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import grpc

from herdpy.dbapi.errors import InterfaceError
from herdpy.dbapi.options import RemoteOptions, read_option, remote_options
from herdpy.dbapi.remote.hosts import ZnodeReader, ZooKeeperError
from herdpy.dbapi.url import DirectoryUrl, ServersUrl, parse
from herdpy.log.lsn import LSN
from herdpy.options import boolean
from herdpy.rpc import logs_pb2, logs_pb2_grpc
from herdpy.rpc.address import DEFAULT_PORT, GrpcAddress, RemoteError
from herdpy.rpc.positions import lsn_of
from herdpy_spark.log import LogAddress
from herdpy_spark.options import OptionError, Options
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import decode_table


class AccessError(Exception):
    """A database that cannot be reached, or that says no.

    Attributes:
        sqlstate: the server's; 08006 where none said one.
        is_transient: whether the same may well succeed later, or with another server.
        is_gone: what was asked for is not there, or not any more.
    """

    def __init__(
        self,
        message: str,
        *,
        sqlstate: str = "08006",
        is_transient: bool = False,
        is_gone: bool = False,
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.is_transient = is_transient
        self.is_gone = is_gone

    def __reduce__(self) -> tuple[type[AccessError], tuple[str]]:
        return type(self), (str(self),)


@contextmanager
def access_errors(where: str) -> Iterator[None]:
    """Turns gRPC's errors into AccessError, with the place that was asked."""
    try:
        yield
    except grpc.RpcError as broken:
        error = RemoteError.of(broken)
        hint = f" ({error.hint})" if error.hint else ""
        raise AccessError(
            f"{where}: {error.message}{hint} [{error.sqlstate}]",
            sqlstate=error.sqlstate,
            is_transient=error.is_transient or error.code is grpc.StatusCode.RESOURCE_EXHAUSTED,
            is_gone=error.code is grpc.StatusCode.NOT_FOUND,
        ) from broken


T = TypeVar("T")
CALL_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 5
LEADS = "leading"


@dataclass(frozen=True, slots=True)
class Node:
    """A server that has a replica.

    Attributes:
        place: its gRPC address.
        state: "leading", "following", ...; empty where it is alone.
        applied: up to here its tables have everything.
    """

    place: GrpcAddress
    state: str
    applied: LSN


@dataclass(frozen=True, slots=True)
class Description:
    """What a server says of a tablespace.

    Attributes:
        log: where it is.
        applied: what is in the tables of the server that was asked.
        nodes: those that have a replica and a gRPC address, in no order.
        table: the definition of the table that was asked for.
    """

    tablespace: str
    log: LogAddress
    applied: LSN
    nodes: tuple[Node, ...]
    table: Table | None


class TablespaceServers:
    """Servers of one tablespace; it can be pickled.

    Attributes:
        tablespace: its name; empty: the only one, or the cluster's default one.
        places: gRPC addresses, at least one.
    """

    def __init__(self, tablespace: str, places: Sequence[GrpcAddress]) -> None:
        self.tablespace = tablespace
        self.places = tuple(places)

    def call(self, do: Callable[[grpc.Channel, GrpcAddress], T], places: Sequence[GrpcAddress] = ()) -> T:
        """What ``do`` gives with a channel to a server: the first that can be reached.

        Raises:
            AccessError: none can be reached, or one says no.
        """
        failures: list[str] = []
        for place in places or self.places:
            channel = place.blocking_channel()
            try:
                with access_errors(place.target):
                    return do(channel, place)
            except AccessError as error:
                if not error.is_transient:
                    raise
                failures.append(str(error))
            finally:
                channel.close()
        raise AccessError(
            f"no server answers: {'; '.join(failures)}; the option grpc names other endpoints",
            is_transient=True,
        )

    def describe(self, table: str | None = None, places: Sequence[GrpcAddress] = ()) -> Description:
        """The tablespace, and a table of it. Raises AccessError (``is_gone``: there is no such thing)."""
        request = logs_pb2.DescribeLogRequest(tablespace=self.tablespace, table=table or "")

        def describe(channel: grpc.Channel, place: GrpcAddress) -> Description:
            stub: Any = logs_pb2_grpc.LogsStub(channel)
            found = stub.Describe(request, metadata=place.metadata, timeout=CALL_TIMEOUT_S)
            return _description(found, place)

        return self.call(describe, places)

    def newest(self, described: Description) -> LSN:
        """What the leader has applied, or the most that any server is known to have. Raises AccessError."""
        leaders = [node.place for node in described.nodes if node.state == LEADS]
        if leaders:
            try:
                return max(described.applied, self.describe(places=leaders).applied)
            except AccessError as error:
                if not error.is_transient:
                    raise
        return max((described.applied, *(node.applied for node in described.nodes)))


def _description(found: Any, asked: GrpcAddress) -> Description:
    files = found.kind == logs_pb2.LOG_KIND_FILES
    log = LogAddress(
        found.tablespace,
        log_id=found.log_id,
        zookeeper="" if files else found.zookeeper,
        ledgers_root=found.ledgers_root or "/ledgers",
        list_path="" if files else found.ledger_list,
        password=bytes(found.password),
        directory=found.directory if files else "",
        snapshot_url=found.snapshot_url,
    )
    nodes = []
    for node in found.nodes:
        place = asked if not node.node else address_at(node.grpc, asked)
        if place is not None:
            nodes.append(Node(place, node.state, lsn_of(node.applied)))
    definition = found.table.definition if found.HasField("table") else ""
    return Description(
        found.tablespace,
        log,
        lsn_of(found.applied),
        tuple(nodes),
        decode_table(definition.encode()) if definition else None,
    )


def address_at(address: str, like: GrpcAddress) -> GrpcAddress | None:
    """The gRPC address at "host:port", called as ``like`` is; None where that is no address."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return None
    return replace(like, host=host.removeprefix("[").removesuffix("]"), port=int(port))


def servers_of_url(
    url: str, user: str | None, password: str | None, grpc_at: str | None
) -> TablespaceServers:
    """The servers of ``herdpy://...``.

    Args:
        user, password: where the URL has none.
        grpc_at: "host:port,..."; None: those that the servers know.

    Raises:
        AccessError: no server answers by SQL, or it does not know a gRPC address.
        herdpy.InterfaceError: the URL makes no sense.
    """
    server = parse(url)
    assert isinstance(server, ServersUrl)
    given = {} if server.user or user is None else {"user": user}
    if server.password is None and password is not None:
        given["password"] = password
    options = remote_options(server, {**server.options, **given})
    mode = options.libpq.get("sslmode", "prefer")
    ca = options.libpq.get("sslrootcert")
    like = GrpcAddress(
        "",
        user=options.user,
        password=options.password,
        tls=mode in ("require", "verify-ca", "verify-full"),
        ca=Path(ca) if ca and ca != "system" else None,
    )
    import psycopg

    try:
        with psycopg.connect(
            host=",".join(host for host, _port in options.hosts),
            port=",".join(str(port) for _host, port in options.hosts),
            dbname=options.database,
            user=options.user or "herdpy",
            password=options.password,
            application_name="herdpy-spark",
            connect_timeout=_CONNECT_TIMEOUT_S,
            **options.libpq,  # type: ignore[arg-type]
        ) as connection:
            like = replace(like, tls=bool(connection.pgconn.ssl_in_use))
            nodes = connection.execute("SELECT grpc_address FROM herdpy.nodes ORDER BY node").fetchall()
            if grpc_at is not None:
                found = grpc_at.split(",")
            else:
                found = [address for (address,) in nodes if address] if nodes else _own_address(connection)
    except psycopg.Error as error:
        raise AccessError(
            f"{options.name}: {error}", sqlstate=error.sqlstate or "08006", is_transient=True
        ) from error
    # A server that is alone serves what it has under any name.
    return TablespaceServers((server.database or "") if nodes else "", _front_ends(found, like))


def _own_address(connection: Any) -> list[str]:
    """Of a server that is alone: its host, and its port if the role may see that, or the usual one."""
    rows = connection.execute(
        "SELECT value FROM herdpy.settings WHERE scope = 'server' AND name = 'grpc.port'"
    ).fetchall()
    port = rows[0][0] if rows else str(DEFAULT_PORT)
    return [f"{connection.info.host}:{port}"] if port != "0" else []


def _front_ends(addresses: Sequence[str], like: GrpcAddress) -> list[GrpcAddress]:
    places = [place for address in addresses if (place := address_at(address.strip(), like)) is not None]
    if not places:
        raise AccessError("no server reports its gRPC endpoint: set the option grpc to host:port")
    return places


ZOOKEEPER_SCHEME = "herdpy+zk://"
_DEFAULT_LEDGERS_ROOT = "/ledgers"
_TIMEOUT_S = 15.0
_TLS_MODES = ("require", "verify-ca", "verify-full")


def find_in_zookeeper(
    url: str, user: str | None, password: str | None
) -> tuple[LogAddress, TablespaceServers | None]:
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
        found = address_at(f"{address.get('host', '')}:{address.get('port', '')}", like)
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
        tls = read_option("tls", short, boolean) if short else options.libpq.get("sslmode") in _TLS_MODES
    except InterfaceError as error:
        raise OptionError(f"the option url: {error}") from error
    ca = ca or options.libpq.get("sslrootcert", "")
    return options, tls, Path(ca) if ca and ca != "system" else None


__all__ = [
    "AccessError",
    "Description",
    "Node",
    "SparkDatabase",
    "TablespaceServers",
    "access_errors",
    "find",
]


@dataclass(frozen=True)
class SparkDatabase:
    """A tablespace, as far as the URL alone tells; it can be pickled.

    Attributes:
        servers: that have it; None: a directory, or every server of the cluster is stopped.
        directory: of an embedded database; None: it is not one.
        log: where the log is; None: the servers are to be asked.
    """

    servers: TablespaceServers | None
    directory: str | None = None
    log: LogAddress | None = None

    def address(self) -> LogAddress:
        """Where the log is. With the ledgers' password, if the role may know it. Raises AccessError."""
        if self.log is not None:
            return self.log
        assert self.servers is not None
        return self.servers.describe().log

    def table(self, name: str) -> Table | None:
        """The definition of a table, as a server has it now; None: there is no server to ask.

        Raises:
            AccessError: there is no such table, no server answers.
        """
        if self.servers is None:
            return None
        found = self.servers.describe(name).table
        if found is None:
            raise AccessError(f'relation "{name}" does not exist', sqlstate="42P01", is_gone=True)
        return found


def find(options: Options) -> SparkDatabase:
    """The database of the option url.

    Raises:
        OptionError: the URL makes no sense.
        AccessError: nobody answers there.
    """
    if options.url.lower().startswith(ZOOKEEPER_SCHEME):
        log, servers = find_in_zookeeper(options.url, options.user, options.password)
        return SparkDatabase(servers, log=log)

    try:
        target = parse(options.url)
        if not isinstance(target, DirectoryUrl):
            return SparkDatabase(servers_of_url(options.url, options.user, options.password, options.grpc))
    except InterfaceError as error:
        raise OptionError(f"the option url: {error}") from error
    return SparkDatabase(None, target.path, LogAddress.of_database(target.path))
