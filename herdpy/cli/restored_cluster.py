"""Tablespaces of backups, made in a cluster: on the disk of one of its servers, and in its ZooKeeper.

Below ``restore``; ``herdpy_server.backup.adopting`` does the work. Several tablespaces are those of the
backup of a cluster. The server takes them up when ZooKeeper has them; the others get replicas from it.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from herdpy.cli import ledgers
from herdpy.cli.errors import USAGE, CliError, print_note
from herdpy.cli.extras import needed
from herdpy.cli.output import Bar, write_document
from herdpy.cli.restore_order import RestoreOrder

if TYPE_CHECKING:
    from herdpy.bookkeeper import BookKeeper

_LEADER_PATIENCE_S = 60.0


def restore(
    order: RestoreOrder,
    to: str,
    tablespace: str,
    backup: str,
    node: Path,
    ledgers_root: str,
    *,
    dry_run: bool,
) -> None:
    """Restore one tablespace, or all of a cluster's backup.

    Args:
        to: the cluster, ``herdpy+zk://``, perhaps with the name that the tablespace gets.
        node: the data directory of a server.
    """
    zookeeper, name = _cluster_of(to)
    plans = _plans(order, name, tablespace, backup)
    if dry_run:
        for plan in plans:
            order.show(plan)
        return
    adopting: Any = needed("herdpy_server.backup.adopting")
    cluster = f"zk://{zookeeper.hosts}/{quote(ledgers_root.strip('/'))}"
    data = node.expanduser().absolute()
    places = [
        adopting.ClusterPlace(zookeeper.root, data, name or plan.candidates[0].tablespace) for plan in plans
    ]
    left = []
    for place, plan in zip(places, plans, strict=True):
        if ledgers.with_cluster(cluster, partial(adopting.check_free, place=place)):
            left.append((place, plan))
        else:
            print_note(f"Tablespace {place.name} was restored here already.")
    if not left:
        raise CliError("nothing is left to be restored", hint="Drop a tablespace to restore it again.")
    facts = [_one(order, adopting, cluster, place, plan) for place, plan in left]
    if order.json:
        write_document(facts)
        return
    for one in facts:
        leader = f"{one['leader']} leads it" if one["leader"] else "no server leads it yet"
        sys.stdout.write(f"Tablespace {one['tablespace']} is as of {one['lsn']}: {leader}.\n")


def _cluster_of(to: str) -> tuple[Any, str]:
    """ZooKeeper's address (``url.ZooKeeper``) and the tablespace in a URL, if there is one."""
    urls: Any = needed("herdpy.dbapi.url")
    errors: Any = needed("herdpy.dbapi")
    try:
        found = urls.parse(to)
    except errors.Error as error:
        raise CliError(error.message, hint=error.hint, code=USAGE) from error
    unread = sorted(found.options.keys() - {"tablespace"})
    if unread or found.user is not None:
        what = unread[0] if unread else "user"
        raise CliError(f"the URL of a cluster to restore to has no option {what}", code=USAGE)
    return found.zookeeper, found.options.get("tablespace", "")


def _plans(order: RestoreOrder, name: str, tablespace: str, backup: str) -> list[Any]:
    """Of one tablespace, or of all that a cluster's backup has."""
    manifest: Any = needed("herdpy.backup.manifest")
    catalog = manifest.read_catalog(order.repository)
    whole = backup in catalog.clusters or not (backup or tablespace or name)
    if not whole or not catalog.clusters:
        return [order.plan(tablespace, backup)]
    if name:
        raise CliError("a cluster's backup has several tablespaces: the URL cannot name one", code=USAGE)
    found = manifest.read_cluster(order.repository, backup or catalog.clusters[-1])
    return [
        order.plan(one.tablespace, one.backup, one.log_id)
        for one in found.members
        if tablespace in ("", one.tablespace)
    ]


def _one(order: RestoreOrder, adopting: Any, cluster: str, place: Any, plan: Any) -> dict[str, Any]:
    """Restore one tablespace, and wait until it has a leader."""
    with Bar(f"Restoring {place.name}", "MiB") as bar:
        try:
            report = adopting.restore_replica(order.repository, plan, place, order.options(bar))
        except KeyboardInterrupt:
            print_note("Not finished. Run the same command to resume.")
            raise
        seconds = bar.seconds

    async def publish(bk: BookKeeper) -> tuple[Any, str | None]:
        info = await adopting.publish(bk, place, report)
        return info, await adopting.leader_of(bk, place, _LEADER_PATIENCE_S)

    info, leader = ledgers.with_cluster(cluster, publish)
    for note in report.notes:
        print_note(f"warning: {note}")
    return {
        "tablespace": place.name,
        "node": place.node(),
        "leader": leader,
        "backup": report.backup,
        "parent_log_id": report.parent,
        "log_id": report.log_id,
        "lsn": str(report.lsn),
        "transactions": report.transactions,
        "expected_replicas": info.expected_replicas,
        "ensemble": info.ensemble,
        "write_quorum": info.write_quorum,
        "ack_quorum": info.ack_quorum,
        "notes": report.notes,
        "seconds": round(seconds, 3),
    }
