"""Backups that servers make, of one tablespace or of all of a cluster: for ``herdpy backup``.

A follower is taken first, to spare the leader. When a node goes away in the middle, another one is taken;
what was archived of the log until then is there already.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from herdpy.cli.errors import USAGE, CliError, print_note
from herdpy.cli.extras import needed
from herdpy.cli.output import Bar
from herdpy.cli.snapshot import grpc_addresses, is_grpc_url
from herdpy.cli.status import literal, servers_of, session

if TYPE_CHECKING:
    from herdpy.log.lsn import LSN
    from herdpy.rpc.address import GrpcAddress

_AGAIN_S = 1.0
Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServerBackup:
    """What servers are to back up.

    Attributes:
        url: of the servers.
        to: the repository; empty: the servers' own.
        scope: see ``herdpy.rpc.backups``.
        patience_s: how long to try while nothing is done.
    """

    url: str
    to: str
    scope: Any
    jobs: int
    rate_bytes: int
    ca: Path | None
    patience_s: float


def back_up_one(order: ServerBackup, tablespace: str) -> Facts:
    """One tablespace. CliError; RemoteError."""
    began_s = time.monotonic()
    return _facts(_made(order, tablespace), began_s)


def back_up_all(order: ServerBackup) -> tuple[list[Facts], str | None]:
    """All tablespaces of a cluster, and the id of the record that joins them; None: some failed.

    A tablespace that fails does not keep the others from being backed up.
    """
    if is_grpc_url(order.url):
        raise CliError("--all needs the URL of a cluster: herdpy://host:port", code=USAGE)
    errors: Any = needed("herdpy.rpc.address")
    made, facts, failed = [], [], False
    for tablespace in _tablespaces(order.url):
        began_s = time.monotonic()
        try:
            made.append(_made(order, tablespace))
            facts.append(_facts(made[-1], began_s))
        except errors.RemoteError as error:
            if tablespace not in _tablespaces(order.url):
                print_note(f"Tablespace {tablespace} was dropped meanwhile.")
                continue
            failed = True
            print_note(f"error: tablespace {tablespace}: {error.message}")
    joined = None if failed or not made else _joined(order, made)
    return facts, joined


def _tablespaces(url: str) -> list[str]:
    with session(url) as found:
        names = [str(row["name"]) for row in found.rows("SELECT name FROM herdpy.tablespaces ORDER BY name")]
        alone = not found.rows("SELECT node FROM herdpy.nodes")
    return [servers_of(url).database or ""] if alone else names


def _made(order: ServerBackup, tablespace: str) -> Any:
    """Try node after node until one has made it."""
    client: Any = needed("herdpy.rpc.backups")
    errors: Any = needed("herdpy.rpc.address")
    reached = _answered(order.url, tablespace)
    with Bar(f"Backing up {tablespace}".rstrip(), "MiB") as bar:
        moved = _Moved(order.patience_s)

        def progress(read: int, total: int, stored: int) -> None:
            moved.at(read + stored)
            bar.show(read, total or None, f"{read >> 20:,} MiB, {stored >> 20:,} MiB written")

        while True:
            places, name = grpc_addresses(order.url, tablespace, order.ca)
            for place in places:
                try:
                    return asyncio.run(
                        client.make_backup(
                            place,
                            tablespace=name,
                            url=order.to,
                            scope=order.scope,
                            jobs=order.jobs,
                            rate_bytes=order.rate_bytes,
                            reached=reached,
                            progress=progress,
                            note=print_note,
                        )
                    )
                except errors.RemoteError as error:
                    if not error.is_transient or moved.is_over:
                        raise
                    print_note(f"{place.host}:{place.port}: {error.message}. Trying on.")
            time.sleep(_AGAIN_S)  # a node comes back, or another one comes to follow


class _Moved:
    """Whether anything has been done for a while."""

    def __init__(self, patience_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._patience_s, self._now_s = patience_s, now_s
        self._last_s, self._done = now_s(), 0

    def at(self, done: int) -> None:
        """So much is done of what is under way."""
        if done != self._done:
            self._last_s, self._done = self._now_s(), done

    @property
    def is_over(self) -> bool:
        """Patience is."""
        return self._now_s() - self._last_s > self._patience_s


def _answered(url: str, tablespace: str) -> LSN | None:
    """Up to where the leader has answered, so that a follower's backup has all of that; None: nobody says."""
    if is_grpc_url(url):
        return None
    lsn: Any = needed("herdpy.log").LSN
    errors: Any = needed("herdpy.dbapi.errors")
    name = tablespace or servers_of(url).database or ""
    try:
        with session(url, leader_of=name or None) as leader:
            rows = leader.rows(f"SELECT applied FROM herdpy.log_status WHERE tablespace = {literal(name)}")
    except errors.Error:  # nobody leads now: what is committed is in the log, and found there
        return None
    found: LSN | None = lsn.parse(rows[0]["applied"]) if rows and rows[0]["applied"] else None
    return found


def _joined(order: ServerBackup, made: list[Any]) -> str:
    client: Any = needed("herdpy.rpc.backups")
    errors: Any = needed("herdpy.rpc.address")
    failure: Exception | None = None
    for one in made:
        places: list[GrpcAddress]
        places, _name = grpc_addresses(order.url, one.tablespace, order.ca)
        for place in places:
            try:
                joined: str = asyncio.run(client.join_backups(place, made, url=order.to))
                return joined
            except errors.RemoteError as error:
                failure = error
    assert failure is not None
    raise failure


def _facts(made: Any, began_s: float) -> Facts:
    return {
        "id": made.id,
        "kind": made.kind,
        "tablespace": made.tablespace,
        "log_id": made.log_id,
        "parent": made.parent or None,
        "lsn": f"{made.image.ledger_id}:{made.image.entry_id}",
        "end": f"{made.end.ledger_id}:{made.end.entry_id}",
        "raw_bytes": made.raw_bytes,
        "stored_bytes": made.stored_bytes,
        "repository": made.url,
        "node": made.node or None,
        "seconds": round(time.monotonic() - began_s, 3),
    }
