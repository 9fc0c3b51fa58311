"""``herdpy doctor``: what is looked at, and the table or JSON that comes of it.

``herdpy.doctor`` gathers and judges; here is which parts apply: the machine always, the configuration where a
file is named, ZooKeeper and bookies where that has a cluster, servers where a URL is named.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdpy.cli.errors import FAILED
from herdpy.cli.extras import needed
from herdpy.cli.output import write_document, write_table
from herdpy.cli.target import JsonOption

if TYPE_CHECKING:
    from herdpy.doctor.cluster import ServerFacts
    from herdpy.doctor.findings import DoctorFinding

_TRIES = 3
"""How often a clock is read: the quickest answer says most."""
_COLUMNS = ("Check", "Level", "Found", "What to do")


def doctor_command(
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="Servers: herdpy://host:port,.../tablespace.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="A server's configuration.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check a machine, a server's configuration and a cluster, and say what to do.

    It changes nothing: a file of 256 KiB in the data directory, an empty znode and a small ledger are made
    and removed to measure the disk, ZooKeeper and the bookies. Ends with 1 when something fails.

    \b
    Examples:
      herdpy doctor
      herdpy doctor --config /etc/herdpy/server.toml
      herdpy doctor herdpy://db1,db2,db3/shop --json
    """
    levels: Any = needed("herdpy.doctor.findings")
    found = list(examine(url, config))
    if json:
        write_document(
            [
                {
                    "check": one.check,
                    "level": one.level.value,
                    "measured": one.measured,
                    "advice": one.advice,
                    "page": one.page,
                }
                for one in found
            ]
        )
    else:
        rows = [(one.check, one.level.value, one.measured, one.advice or None) for one in found]
        write_table(_COLUMNS, [[cell or "" for cell in row] for row in rows], sys.stdout)
        pages = dict.fromkeys(one.page for one in found if one.advice)
        sys.stdout.write("".join(f"see {page}\n" for page in pages))
    if levels.worst(found) is levels.Level.FAILURE:
        raise typer.Exit(FAILED)


def examine(url: str | None, config: Path | None) -> Iterator[DoctorFinding]:
    """Every finding, in order: machine, configuration, ZooKeeper, bookies, servers."""
    configuration: Any = needed("herdpy.doctor.configuration", "server")
    settings: Any = needed("herdpy_server.config", "server")
    loaded, about_settings = (None, [])
    if config is not None:
        loaded, about_settings = configuration.load(config, os.environ)
    yield from _machine(loaded or settings.ServerConfig(), loaded is not None)
    yield from about_settings
    if loaded is not None:
        yield from configuration.check(loaded, config)
        if loaded.cluster.zookeeper:
            yield from _cluster(loaded)
    if url is not None:
        cluster: Any = needed("herdpy.doctor.cluster")
        yield from cluster.judge_servers(server_facts(url))


def _machine(config: Any, is_given: bool) -> Iterator[DoctorFinding]:
    machine: Any = needed("herdpy.doctor.machine")
    configuration: Any = needed("herdpy.doctor.configuration", "server")
    listeners: Any = needed("herdpy_server.config", "server").listeners
    files, memory = configuration.needs(config)
    directory = Path(config.data.directory) if is_given else Path.cwd()
    found = machine.facts(
        directory, files_needed=files, memory_needed=memory, listeners=list(listeners(config))
    )
    own = f"process {_served_by(directory)} "
    ports = [
        replace(one, taken="", own=True) if one.taken.startswith(f"taken by {own}") else one
        for one in found.ports
    ]
    yield from machine.judge(replace(found, ports=ports))


def _served_by(directory: Path) -> str:
    """The id of the process that has a data directory open, or had it last."""
    try:
        return (directory / "LOCK").read_text().strip() or "?"
    except OSError:
        return "?"


def _cluster(config: Any) -> Iterator[DoctorFinding]:
    cluster: Any = needed("herdpy.doctor.cluster")
    access: Any = needed("herdpy_server.process.member", "server").zookeeper_access(config)
    mine = config.cluster
    facts = cluster.zookeeper_facts(mine.zookeeper, mine.session_timeout_s, access, mine.root)
    yield from cluster.judge_zookeeper(facts)
    if not facts.problem:
        bookies = cluster.bookie_facts(f"zk://{mine.zookeeper}{mine.ledgers_root}", access)
        yield from cluster.judge_bookies(bookies, mine.write_quorum, mine.ack_quorum)


def server_facts(url: str) -> ServerFacts:
    """What the servers of a URL say; ``problem`` where none of them lets us in."""
    facts: Any = needed("herdpy.doctor.cluster").ServerFacts
    status: Any = needed("herdpy.cli.status")
    errors: Any = needed("herdpy.dbapi.errors")
    try:
        with status.session(url) as open_session:
            tables = {
                name: open_session.rows(f"SELECT * FROM herdpy.{name}")
                for name in ("nodes", "replicas", "tablespaces", "backups")
            }
    except errors.Error as error:
        found: ServerFacts = facts(problem=f"{error.sqlstate}: {error}")
        return found
    whole: ServerFacts = facts(**tables, ahead_s=_clocks(url))
    return whole


def _clocks(url: str) -> dict[str, float]:
    """By how much the clock of each server that answers is ahead of this machine's, in seconds."""
    psycopg: Any = needed("psycopg")
    status: Any = needed("herdpy.cli.status")
    options = status.servers_of(url)
    given = dict(options.libpq) | {
        name: value for name in ("user", "password") if (value := getattr(options, name)) is not None
    }
    found = {}
    for host, port in status.hosts_now(options):
        try:
            with psycopg.connect(
                host=host, port=port, dbname=options.database, connect_timeout=5, autocommit=True, **given
            ) as conn:
                found[f"{host}:{port}"] = min(
                    (_ahead(conn) for _ in range(_TRIES)), key=lambda tried: tried[0]
                )[1]
        except psycopg.Error:  # its replica's state says that it is away
            continue
    return found


def _ahead(conn: Any) -> tuple[float, float]:
    """How long the question took, and by how much the server's clock is ahead; both in seconds."""
    before_s = time.time()
    (theirs,) = conn.execute("SELECT clock_timestamp()").fetchone()
    after_s = time.time()
    return after_s - before_s, theirs.timestamp() - (before_s + after_s) / 2
