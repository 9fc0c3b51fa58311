"""The cluster as any of its servers sees it: a session for commands about it, and ``herdpy status``."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import typer

from herdpy.cli import target
from herdpy.cli.errors import FAILED, USAGE, CliError, print_note
from herdpy.cli.output import write_document, write_table
from herdpy.cli.target import JsonOption, Place

if TYPE_CHECKING:
    import psycopg

    from herdpy.dbapi.options import RemoteOptions

Row = dict[str, Any]

_CONNECT_TIMEOUT_S = 5
_HOST = re.compile(
    r"host: '([^']*)', port: '([^']*)', hostaddr: '[^']*': (?:connection failed: )?"
    r"(?:connection to server at .*? failed: )?"
)


class ServerSession:
    """One session.

    Attributes:
        connection: psycopg's.
        remarks: the notices and warnings that statements gave, in order.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.remarks: list[dict[str, str | None]] = []
        connection.add_notice_handler(
            lambda notice: self.remarks.append(
                {"severity": notice.severity, "sqlstate": notice.sqlstate, "text": notice.message_primary}
            )
        )

    def rows(self, statement: str) -> list[Row]:
        """The rows of a query; none of a statement that has no answer."""
        with self.errors():
            cursor = self.connection.execute(statement.encode())
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in (cursor.fetchall() if names else ())]

    @contextmanager
    def errors(self) -> Iterator[None]:
        """psycopg's errors within are raised as the driver's; CliError when the server has gone."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise _of_driver(error) from error

    def error(self, result: Any) -> Exception:
        """What a result of libpq tells that is one."""
        import psycopg.errors

        return _of_driver(psycopg.errors.error_from_result(result))


def _of_driver(error: psycopg.Error) -> Exception:
    from herdpy.dbapi.errors import class_of

    if error.sqlstate is None:
        return CliError(f"the server went away: {str(error).strip()}", hint="Look with herdpy status.")
    parts = error.diag
    return class_of(error.sqlstate)(
        parts.message_primary or str(error),
        sqlstate=error.sqlstate,
        detail=parts.message_detail,
        hint=parts.message_hint,
    )


@contextmanager
def session(url: str, *, leader_of: str | None = None) -> Iterator[ServerSession]:
    """A session with the first server of ``url`` that takes one.

    Args:
        leader_of: the one that leads this tablespace, and no other.

    Raises:
        CliError: the URL makes no sense, or names a directory.
        OperationalError: no server takes one: 08001, 28P01, 3D000 and the like, as ``herdpy.connect``.
    """
    import psycopg

    options = servers_of(url)
    hosts = hosts_now(options)
    given: dict[str, Any] = dict(options.libpq)
    given |= {name: value for name in ("user", "password") if (value := getattr(options, name)) is not None}
    try:
        connection = psycopg.connect(
            host=",".join(host for host, _port in hosts),
            port=",".join(str(port) for _host, port in hosts),
            dbname=leader_of or options.database,
            application_name="herdpy",
            target_session_attrs="any" if leader_of is None else "read-write",
            connect_timeout=max(1, math.ceil(min(options.connect_timeout_s, _CONNECT_TIMEOUT_S))),
            autocommit=True,
            **given,
        )
    except psycopg.OperationalError as error:
        from herdpy.dbapi.remote.leader import refused

        raise refused(str(error), f"no server lets us in: {_libpq_message(error)}") from error
    try:
        yield ServerSession(connection)
    finally:
        connection.close()


def servers_of(url: str) -> RemoteOptions:
    """The servers of a URL or a profile. CliError (usage) when it names a directory, or makes no sense."""
    from herdpy.dbapi import address
    from herdpy.dbapi.errors import Error

    try:
        found = address.address_of(url)
    except Error as error:
        raise CliError(error.message, hint=error.hint, code=USAGE) from error
    if not isinstance(found, address.ServersAddress):
        raise CliError(
            "this command is for servers, and the URL names a directory",
            hint="Write herdpy://host:port,host:port/tablespace.",
            code=USAGE,
        )
    return found.options


def hosts_now(options: RemoteOptions) -> list[tuple[str, int]]:
    """The servers, looked up in ZooKeeper where that is what is named. Raises as ``herdpy.connect``."""
    from herdpy.dbapi.remote.hosts import hosts_of

    return hosts_of(options).known(time.monotonic() + options.connect_timeout_s)


def _libpq_message(error: Exception) -> str:
    """What libpq said, each thing once: it tells of every host."""
    lines = [line.strip().lstrip("- ") for line in str(error).splitlines()]
    each = [line for line in lines if line.startswith("host:")] or lines
    return "; ".join(dict.fromkeys(_HOST.sub(r"\1:\2: ", line) for line in each if line))


def quoted(name: str) -> str:
    """A name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Text as a string literal."""
    return "'" + text.replace("'", "''") + "'"


def tablespace_of(asked: ServerSession) -> str:
    """The session's tablespace by its name in herdpy.tablespaces: a server that is alone serves any name."""
    names = [str(row["name"]) for row in asked.rows("SELECT name FROM herdpy.tablespaces")]
    (current,) = (str(row["name"]) for row in asked.rows("SELECT current_database() AS name"))
    return current if current in names else names[0]


_LAG_ENTRIES = 1000
_GOOD = ("leading", "following")


def status_command(url: Place, json: JsonOption = False) -> None:
    """Show a cluster: its nodes, its tablespaces with their leaders, its replicas with state and lag.

    Any server of the URL is asked, also one that only follows. What it knows of others is as old as `as_of`,
    and a replica's positions as old as its last report (a second, while it moves). A database in a directory
    is alone; it must not be open elsewhere.

    Exit codes: 0 all is well, 1 something is wrong with the cluster (it is shown), or it cannot be asked.

    \b
    Examples:
      herdpy status herdpy://db1,db2,db3/herdpy
      herdpy status herdpy://db1:5432/herdpy --json
    """
    place = target.existing(url, servers=True)
    with session(url) if place.is_remote else _in_directory(place) as asked:
        found = look(asked)
    if json:
        write_document(found)
    else:
        _show(found)
    if found["problems"]:
        raise typer.Exit(FAILED)


class ClusterQueries(Protocol):
    """What answers queries about a cluster."""

    @property
    def remarks(self) -> Sequence[Mapping[str, str | None]]: ...
    def rows(self, statement: str) -> list[Row]: ...


class _Directory:
    """A database in a directory, which knows of itself alone."""

    remarks: Sequence[Mapping[str, str | None]] = ()

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, statement: str) -> list[Row]:
        """The rows of a query."""
        with self._connection.execute(statement) as cursor:
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@contextmanager
def _in_directory(place: target.TargetDatabase) -> Iterator[_Directory]:
    connection = target.connect(place, autocommit=True)
    try:
        yield _Directory(connection)
    finally:
        connection.close()


def look(asked: ClusterQueries) -> Row:
    """The cluster as one document: "nodes", "tablespaces" with their "replicas", "archives", "problems"."""
    nodes = asked.rows("SELECT * FROM herdpy.nodes ORDER BY node")
    tablespaces = asked.rows("SELECT * FROM herdpy.tablespaces ORDER BY name")
    replicas = asked.rows("SELECT * FROM herdpy.replicas ORDER BY tablespace, node")
    for one in tablespaces:
        one["replicas"] = [
            {name: value for name, value in row.items() if name not in ("tablespace", "as_of")}
            for row in replicas
            if row["tablespace"] == one["name"]
        ]
    problems = [str(remark["text"]) for remark in asked.remarks]
    problems += [problem for one in tablespaces for problem in problems_of(one)]
    archives = asked.rows("SELECT * FROM herdpy.archive ORDER BY tablespace")
    problems += [problem for one in archives for problem in problems_of_archive(one)]
    moments = [row["as_of"] for row in (*nodes, *tablespaces, *replicas)]
    as_of = min(moments, default=None)
    for row in (*nodes, *tablespaces):
        row.pop("as_of")
    return {
        "as_of": as_of,
        "nodes": nodes,
        "tablespaces": tablespaces,
        "archives": archives,
        "problems": problems,
    }


def problems_of_archive(archive: Row) -> Iterable[str]:
    """What is wrong with the archive of a log, and what to do about it."""
    name = archive["tablespace"]
    if archive["state"] in ("failing", "late"):
        reason = f": {archive['problem']}" if archive["problem"] else ""
        yield f"{name}: its log was archived last {duration(archive['lag_s'])} ago{reason}"
    if archive["gaps"]:
        yield (
            f"{name}: entries after {archive['gap_after']}, up to {archive['gap_upto']}, are missing in the"
            " archive: make a full backup if there is none after that"
        )


def problems_of(tablespace: Row) -> Iterable[str]:
    """What is wrong with a tablespace, and what to do about it."""
    name, replicas = tablespace["name"], tablespace["replicas"]
    if tablespace["state"] == "alone":
        return
    if tablespace["state"] == "dropping":
        yield f"{name} is being dropped"
        return
    if tablespace["leader"] is None:
        yield f"{name} has no leader: a majority of bookies, ZooKeeper and one replica must be up"
    elif tablespace["preferred_leader"] not in (None, tablespace["leader"]):
        yield (
            f"{name} is led by {tablespace['leader']}, not by {tablespace['preferred_leader']}, "
            "which takes over when it follows closely"
        )
    wanted = [one for one in replicas if one["is_wanted"]]
    if len(wanted) < tablespace["expected_replicas"]:
        yield (
            f"{name} has {len(wanted)} of {tablespace['expected_replicas']} replicas: start more nodes, "
            "or expect fewer (herdpy tablespace alter)"
        )
    for one in wanted:
        if one["state"] == "away" and one.get("problem"):
            yield (
                f"{name}: node {one['node']} is away; its replica is ahead of the log, and stays its until "
                "you decide"
            )
        elif one["state"] == "away":
            yield f"{name}: node {one['node']} is away; its replica is replaced after cluster.replace_after_s"
        elif one["state"] not in _GOOD:
            yield f"{name}: the replica on {one['node']} is {one['state']}"
        elif (one["lag_entries"] or 0) > _LAG_ENTRIES:
            yield f"{name}: the replica on {one['node']} is {one['lag_entries']} entries behind"
        if one.get("problem"):
            yield f"{name}: the replica on {one['node']} reports: {one['problem']}"


# Tables.


def _show(found: Row) -> None:
    if found["nodes"]:
        _table(
            found["nodes"],
            ("node", "sql_address", "grpc_address", "http_address", "version", "replicas", "leads"),
            {"up": lambda row: age(row["started"])},
        )
    show_tablespaces(found["tablespaces"])
    replicas = [{**one, "tablespace": row["name"]} for row in found["tablespaces"] for one in row["replicas"]]
    if replicas:
        _table(
            replicas,
            ("tablespace", "node", "state", "applied", "durable", "lag_entries"),
            {"reported": lambda row: f"{age(row['reported'])} ago" if row["reported"] else "-"},
        )
    for problem in found["problems"]:
        print_note(f"problem: {problem}")


def show_tablespaces(rows: Sequence[Row]) -> None:
    """Tablespaces as a table."""

    def quorums(row: Row) -> str:
        if row["ensemble"] is None:
            return "-"
        strict = " strict" if row["strict"] else ""
        return f"{row['ensemble']}-{row['write_quorum']}-{row['ack_quorum']}{strict}"

    def kept(row: Row) -> str:
        if row["retention_bytes"] is None:
            return "-"
        return f"{size(row['retention_bytes'])}, {duration(row['retention_s'])}"

    def replicas(row: Row) -> str:
        if row["expected_replicas"] is None:
            return "-"
        there = row["replicas"]
        count = (
            len([one for one in there if one["is_wanted"]])
            if isinstance(there, list)
            else len([one for one in (there or "").split(",") if one])
        )
        return f"{count} of {row['expected_replicas']}"

    _table(
        rows,
        ("name", "state", "leader", "preferred_leader", "epoch"),
        {
            "replicas": replicas,
            "ensemble": quorums,
            "ledgers": lambda row: str(row["ledgers"]),
            "log": lambda row: size(row["log_bytes"]),
            "retention": kept,
        },
    )


def _table(rows: Sequence[Row], names: Sequence[str], more: dict[str, Callable[[Row], str]]) -> None:
    cells = [
        (*("-" if row[name] is None else row[name] for name in names), *(make(row) for make in more.values()))
        for row in rows
    ]
    write_table((*(name.replace("_", " ") for name in names), *more), cells, sys.stdout)


def age(moment: Any) -> str:
    """How long ago something was."""
    return duration(max((datetime.now(UTC) - moment).total_seconds(), 0.0))


def duration(seconds: float) -> str:
    """Seconds in the largest unit of which there are two at least."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length or (seconds and seconds % length == 0):
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(count: float | None) -> str:
    """Bytes in the largest unit of which there is one at least."""
    if count is None:
        return "-"
    for unit, length in (("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if count >= length:
            return f"{count / length:.0f} {unit}"
    return f"{count} B"
