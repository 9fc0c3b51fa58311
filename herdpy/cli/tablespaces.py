"""``herdpy tablespace``: make, change, move and drop the tablespaces of a cluster.

Each command is a statement (docs/sql.md), sent to any server of the URL, and tells how it went.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from herdpy.cli import status
from herdpy.cli.errors import USAGE, CliError, print_note
from herdpy.cli.output import write_document, write_table
from herdpy.cli.status import ServerSession, literal, quoted, session
from herdpy.cli.target import JsonOption, Place

HELP = """Make, change, move and drop the tablespaces of a cluster.

A tablespace is a database: a log with one leader and any number of followers. URL names the cluster's
servers, and any tablespace of it that one can connect to.
"""

Name = Annotated[str, typer.Argument(metavar="NAME", help="The tablespace.")]
Leader = Annotated[str | None, typer.Option(help="The node that leads when it can; none for whichever.")]
Replicas = Annotated[str | None, typer.Option(help="The nodes that have one: a,b,c.")]
Expected = Annotated[int | None, typer.Option(min=1, help="How many replicas there shall be.")]
Ensemble = Annotated[int | None, typer.Option(min=1, help="Bookies of a ledger.")]
WriteQuorum = Annotated[int | None, typer.Option(min=1, help="Bookies that each entry is sent to.")]
AckQuorum = Annotated[int | None, typer.Option(min=1, help="Bookies that must have it before it counts.")]
Strict = Annotated[
    bool | None, typer.Option("--strict/--not-strict", help="Never write to fewer bookies than that.")
]
RetentionBytes = Annotated[str | None, typer.Option(help="Of closed ledgers kept in any case: 256MB.")]
Retention = Annotated[str | None, typer.Option(help="How long for a replica that is away: 12h, 1d.")]

_OTHERS_MAY = ("42704", "55000")
"""A node that has gone meanwhile, or cannot lead now: another one may."""


def ls_command(url: Place, json: JsonOption = False) -> None:
    """List the tablespaces: leader, replicas, quorums, ledgers and what is kept of them.

    \b
    Examples:
      herdpy tablespace ls herdpy://db1,db2,db3/herdpy
      herdpy tablespace ls herdpy://db1/herdpy --json
    """
    with session(url) as asked:
        found = status.look(asked)["tablespaces"]
    if json:
        write_document(found)
    else:
        status.show_tablespaces(found)


def create_command(
    url: Place,
    name: Name,
    leader: Leader = None,
    replicas: Replicas = None,
    expected_replicas: Expected = None,
    ensemble: Ensemble = None,
    write_quorum: WriteQuorum = None,
    ack_quorum: AckQuorum = None,
    strict: Strict = None,
    retention_bytes: RetentionBytes = None,
    retention: Retention = None,
    if_not_exists: Annotated[bool, typer.Option(help="One that is there will do.")] = False,
    json: JsonOption = False,
) -> None:
    """Make a tablespace. What is not said is chosen: the nodes that have least, the server's defaults.

    It returns when somebody leads it. Connect to it with its name as the database.

    \b
    Examples:
      herdpy tablespace create herdpy://db1,db2,db3/herdpy sales
      herdpy tablespace create herdpy://db1/herdpy sales --leader db2 --expected-replicas 2
      herdpy tablespace create herdpy://db1/herdpy sales --ensemble 3 --write-quorum 2 --ack-quorum 2
    """
    options = _options(
        leader=leader, replicas=replicas, expected_replicas=expected_replicas, ensemble=ensemble,
        write_quorum=write_quorum, ack_quorum=ack_quorum, strict=strict, retention_bytes=retention_bytes,
        retention=retention,
    )  # fmt: skip
    condition = "IF NOT EXISTS " if if_not_exists else ""
    listed = f" WITH ({options})" if options else ""
    _do(url, f"CREATE TABLESPACE {condition}{quoted(name)}{listed}", name, "is made", json=json)


def alter_command(
    url: Place,
    name: Name,
    leader: Leader = None,
    replicas: Replicas = None,
    expected_replicas: Expected = None,
    ensemble: Ensemble = None,
    write_quorum: WriteQuorum = None,
    ack_quorum: AckQuorum = None,
    strict: Strict = None,
    retention_bytes: RetentionBytes = None,
    retention: Retention = None,
    json: JsonOption = False,
) -> None:
    """Change what a tablespace shall be: its leader, replicas, quorums, retention.

    New replicas get their state from the others while writing goes on; `herdpy status` shows how far they
    are. Ensemble and quorums are those of the ledgers that the next leader makes.

    \b
    Examples:
      herdpy tablespace alter herdpy://db1/herdpy sales --replicas db1,db2,db4
      herdpy tablespace alter herdpy://db1/herdpy sales --expected-replicas 2 --retention 12h
      herdpy tablespace alter herdpy://db1/herdpy sales --leader none
    """
    options = _options(
        leader=leader, replicas=replicas, expected_replicas=expected_replicas, ensemble=ensemble,
        write_quorum=write_quorum, ack_quorum=ack_quorum, strict=strict, retention_bytes=retention_bytes,
        retention=retention,
    )  # fmt: skip
    if not options:
        raise CliError("nothing is to be changed", hint="herdpy tablespace alter --help", code=USAGE)
    _do(url, f"ALTER TABLESPACE {quoted(name)} SET ({options})", name, "is changed", json=json)


def leader_command(
    url: Place,
    name: Name,
    node: Annotated[str, typer.Argument(metavar="NODE", help="One that has a replica.")],
    json: JsonOption = False,
) -> None:
    """Have another node lead a tablespace; returns when it does.

    Commits under way are finished first, and open transactions of the old leader fail with an error that says
    so; clients that know several hosts find the new one. The node stays the preferred one.

    \b
    Examples:
      herdpy tablespace leader herdpy://db1,db2,db3/herdpy sales db2
    """
    _do(url, f"ALTER TABLESPACE {quoted(name)} LEADER {literal(node)}", name, f"is led by {node}", json=json)


def hand_over_command(
    url: Place,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The one that shall lead nothing.")],
    json: JsonOption = False,
) -> None:
    """Have other nodes lead all that a node leads; returns when they do. Before it is stopped, for example.

    Of each tablespace the closest follower becomes leader; another is tried where that one cannot. A
    tablespace that preferred no leader still prefers none afterwards; one that preferred the node prefers
    the new one.

    Exit codes: 0 the node leads nothing, 1 it leads something that no other node can lead now.

    \b
    Examples:
      herdpy tablespace hand-over herdpy://db1,db2,db3/herdpy db2
    """
    with session(url) as cluster:
        if not cluster.rows(f"SELECT 1 FROM herdpy.nodes WHERE node = {literal(node)}"):
            raise CliError(f"there is no node {node} here", hint="herdpy status shows the nodes.")
        led = (
            f"SELECT name, preferred_leader FROM herdpy.tablespaces WHERE leader = {literal(node)} ORDER BY 1"
        )
        moved = [_moved(cluster, row, node) for row in cluster.rows(led)]
    if json:
        write_document(moved)
    for one in moved:
        if one["problem"] is not None:
            print_note(f"Tablespace {one['tablespace']} is still led by {node}: {one['problem']}")
        elif not json:
            print_note(f"Tablespace {one['tablespace']} is led by {one['leader']} ({one['seconds']:.2f} s).")
    if not moved and not json:
        print_note(f"Node {node} leads nothing.")
    if any(one["problem"] is not None for one in moved):
        raise typer.Exit(1)


def _moved(cluster: ServerSession, tablespace: status.Row, node: str) -> dict[str, str | float | None]:
    """Another leader for one tablespace: who it is, or why none is."""
    from herdpy.dbapi.errors import Error

    name, began = str(tablespace["name"]), time.perf_counter()
    followers = cluster.rows(
        f"SELECT node FROM herdpy.replicas WHERE tablespace = {literal(name)} AND state = 'following'"
        f" AND node <> {literal(node)} ORDER BY lag_entries NULLS LAST, node"
    )
    leader: str | None = None
    problem: str | None = "no other replica follows it"
    for follower in followers:
        try:
            cluster.rows(f"ALTER TABLESPACE {quoted(name)} LEADER {literal(follower['node'])}")
        except Error as error:
            if error.sqlstate not in _OTHERS_MAY:
                raise
            problem = error.message
            continue
        leader, problem = str(follower["node"]), None
        break
    if leader is not None and tablespace["preferred_leader"] is None:
        cluster.rows(f"ALTER TABLESPACE {quoted(name)} LEADER NONE")
    seconds = round(time.perf_counter() - began, 3)
    return {"tablespace": name, "leader": leader, "problem": problem, "seconds": seconds}


def drop_command(
    url: Place,
    name: Name,
    if_exists: Annotated[bool, typer.Option(help="None of that name will do.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also the default one of the cluster.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    json: JsonOption = False,
) -> None:
    """Drop a tablespace with all that is in it: on every node, and its ledgers.

    URL must name another tablespace than the one that is dropped.

    \b
    Examples:
      herdpy tablespace drop herdpy://db1,db2,db3/herdpy sales
      herdpy tablespace drop herdpy://db1/herdpy sales --if-exists --yes
    """
    if not yes:
        if not sys.stdin.isatty():
            raise CliError(
                "there is no terminal to ask for confirmation", hint="Repeat with --yes.", code=USAGE
            )
        if not typer.confirm(f"Drop tablespace {name} and all its data for good?", err=True):
            raise typer.Exit(1)
    condition, how = "IF EXISTS " if if_exists else "", " WITH (FORCE)" if force else ""
    _do(url, f"DROP TABLESPACE {condition}{quoted(name)}{how}", name, "is dropped", json=json)


def check_command(url: Place, name: Name, json: JsonOption = False) -> None:
    """Compare all replicas of a tablespace at one position of its log.

    One that differs is quarantined and gets its state anew from another.

    \b
    Examples:
      herdpy tablespace check herdpy://db1,db2,db3/herdpy sales
    """
    with session(url, leader_of=name) as asked:
        rows = asked.rows(f"CHECK TABLESPACE {quoted(name)}")
        _print_remarks(asked)
    if json:
        write_document(rows)
    elif rows:
        write_table(list(rows[0]), [tuple(row.values()) for row in rows], sys.stdout)


def _options(**said: str | int | bool | None) -> str:
    """What WITH or SET lists."""
    parts = []
    for name, value in said.items():
        if value is None:
            continue
        if isinstance(value, bool):
            parts.append(f"{name} = {'on' if value else 'off'}")
        elif isinstance(value, int) or (name == "leader" and value == "none"):
            parts.append(f"{name} = {value}")
        else:
            parts.append(f"{name} = {literal(value)}")
    return ", ".join(parts)


def _do(url: str, statement: str, name: str, done: str, *, json: bool) -> None:
    began = time.perf_counter()
    with session(url) as asked:
        asked.rows(statement)
        seconds = time.perf_counter() - began
        remarks = list(asked.remarks)
        if json:
            found = [one for one in status.look(asked)["tablespaces"] if one["name"] == name]
            document = {
                "statement": statement,
                "seconds": round(seconds, 3),
                "remarks": remarks,
                "tablespace": found[0] if found else None,
            }
            write_document(document)
            return
        _print_remarks(asked)
    print_note(f"Tablespace {name} {done} ({seconds:.2f} s).")


def _print_remarks(asked: ServerSession) -> None:
    for remark in asked.remarks:
        print_note(f"{remark['severity']}: {remark['text']}")


COMMANDS: Sequence[tuple[str, Callable[..., None]]] = (
    ("ls", ls_command),
    ("create", create_command),
    ("alter", alter_command),
    ("leader", leader_command),
    ("hand-over", hand_over_command),
    ("drop", drop_command),
    ("check", check_command),
)
