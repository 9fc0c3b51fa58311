"""Servers of a tablespace: where their gRPC doors are, what they say of the log and of a table.

Above ``errors``. Doors are found by SQL (herdpy.nodes), which needs any one server of the URL; each call
then goes to one that answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import grpc

from herdpy.log.lsn import LSN
from herdpy.rpc import logs_pb2, logs_pb2_grpc
from herdpy.rpc.address import DEFAULT_PORT, GrpcAddress
from herdpy_spark.access.errors import AccessError, told
from herdpy_spark.log import LogAddress
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import decode_table

T = TypeVar("T")
CALL_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 5
LEADS = "leading"


@dataclass(frozen=True, slots=True)
class Node:
    """A server that has a replica.

    Attributes:
        place: its gRPC door.
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
        nodes: those that have a replica and a gRPC door, in no order.
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
        places: gRPC doors, at least one.
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
                with told(place.target):
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
        place = asked if not node.node else door(node.grpc, asked)
        if place is not None:
            nodes.append(Node(place, node.state, LSN(node.applied.ledger_id, node.applied.entry_id)))
    definition = found.table.definition if found.HasField("table") else ""
    return Description(
        found.tablespace,
        log,
        LSN(found.applied.ledger_id, found.applied.entry_id),
        tuple(nodes),
        decode_table(definition.encode()) if definition else None,
    )


def door(address: str, like: GrpcAddress) -> GrpcAddress | None:
    """The gRPC door at "host:port", called as ``like`` is; None where that is no address."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return None
    return replace(like, host=host.removeprefix("[").removesuffix("]"), port=int(port))


def servers_of_url(url: str, user: str | None, password: str | None, doors: str | None) -> TablespaceServers:
    """The servers of ``herdpy://...``.

    Args:
        user, password: where the URL has none.
        doors: "host:port,..." of gRPC doors; None: those that the servers tell.

    Raises:
        AccessError: no server answers by SQL, or it does not tell where its gRPC door is.
        herdpy.InterfaceError: the URL makes no sense.
    """
    from herdpy.dbapi.remote.options import remote_options
    from herdpy.dbapi.url import ServersUrl, parse

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
            if doors is not None:
                found = doors.split(",")
            else:
                found = [address for (address,) in nodes if address] if nodes else _own_door(connection)
    except psycopg.Error as error:
        raise AccessError(
            f"{options.name}: {error}", sqlstate=error.sqlstate or "08006", is_transient=True
        ) from error
    # A server that is alone serves what it has under any name.
    return TablespaceServers((server.database or "") if nodes else "", _doors(found, like))


def _own_door(connection: Any) -> list[str]:
    """Of a server that is alone: its host, and its port if the role may see that, or the usual one."""
    rows = connection.execute(
        "SELECT value FROM herdpy.settings WHERE scope = 'server' AND name = 'grpc.port'"
    ).fetchall()
    port = rows[0][0] if rows else str(DEFAULT_PORT)
    return [f"{connection.info.host}:{port}"] if port != "0" else []


def _doors(addresses: Sequence[str], like: GrpcAddress) -> list[GrpcAddress]:
    places = [place for address in addresses if (place := door(address.strip(), like)) is not None]
    if not places:
        raise AccessError("no server reports its gRPC endpoint: set the option grpc to host:port")
    return places
