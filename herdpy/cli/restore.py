"""``herdpy restore``: a backup, and the log archived since, become a database again.

Below ``app``; ``herdpy_server.backup`` does the work, in this process. A restore into a directory works in
``DIR/restore`` until the database is whole, so the same command goes on where one was broken off.
``restored_table`` brings one table into a living database, ``restored_cluster`` tablespaces into a cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from herdpy.cli import restored_cluster, restored_table
from herdpy.cli.errors import USAGE, CliError, interruptible, print_note
from herdpy.cli.extras import needed
from herdpy.cli.repositories import KeyFileOption, RepositoryArgument, opened, translated
from herdpy.cli.restore_order import RestoreOrder, show_report, target_of
from herdpy.cli.target import JsonOption

_To = Annotated[
    str,
    typer.Argument(
        metavar="DIR|URL",
        help="A directory to make; a cluster, herdpy+zk://zk/root?tablespace=name; or with --table a living "
        "database: its directory or URL.",
    ),
]
_Tablespace = Annotated[
    str, typer.Option("--tablespace", metavar="NAME", help="Whose; without, the only one.")
]
_Backup = Annotated[
    str, typer.Option("--backup", metavar="ID", help="Begin with this one; without, the best one.")
]
_Log = Annotated[
    str, typer.Option("--log", metavar="ID", help="Whose history, where there are several logs.")
]
_ToLsn = Annotated[str, typer.Option("--to-lsn", metavar="L:E", help="Up to this position, with its entry.")]
_ToTime = Annotated[
    str, typer.Option("--to-time", metavar="TIME", help="Up to the first commit after it; ISO 8601.")
]
_BeforeCommit = Annotated[
    str,
    typer.Option("--before-commit", metavar="ID|L:E", help="Up to before a commit: its request id."),
]
_Table = Annotated[
    str, typer.Option("--table", metavar="NAME", help="This table alone, into a living database.")
]
_As = Annotated[str, typer.Option("--as", metavar="NAME", help="What the table is to be called there.")]
_NoForeignKeys = Annotated[
    bool, typer.Option("--no-foreign-keys", help="Leave out the table's foreign keys.")
]
_Scratch = Annotated[
    Path | None,
    typer.Option("--scratch", metavar="DIR", help="With --table: restore to there, and keep it."),
]
_Node = Annotated[
    Path | None,
    typer.Option(
        "--node", metavar="DIR", help="Of a cluster: the data directory of a server on this machine."
    ),
]
_Ledgers = Annotated[
    str,
    typer.Option("--ledgers-root", metavar="ZNODE", help="Of a cluster: where BookKeeper's metadata are."),
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and from what.")]
_Force = Annotated[bool, typer.Option("--force", help="Set aside what is in DIR.")]
_CheckIndexes = Annotated[
    bool, typer.Option("--check-indexes", help="Compare every row with its index entries, too.")
]
_Jobs = Annotated[int, typer.Option("--jobs", min=1, max=64, help="Parts that are read at a time.")]


def restore_command(
    repository: RepositoryArgument,
    to: _To,
    tablespace: _Tablespace = "",
    backup: _Backup = "",
    log: _Log = "",
    to_lsn: _ToLsn = "",
    to_time: _ToTime = "",
    before_commit: _BeforeCommit = "",
    table: _Table = "",
    as_name: _As = "",
    no_foreign_keys: _NoForeignKeys = False,
    scratch: _Scratch = None,
    node: _Node = None,
    ledgers_root: _Ledgers = "/ledgers",
    dry_run: _DryRun = False,
    force: _Force = False,
    check_indexes: _CheckIndexes = False,
    jobs: _Jobs = 4,
    key_file: KeyFileOption = None,
    json: JsonOption = False,
) -> None:
    """Make a database in a directory of a backup and the log that was archived since.

    Without a target, up to the end of the archive. The database is there when all of it is, and was read and
    compared with its checksums. When a restore is broken off, the same command goes on. What is in DIR is not
    touched; with --force it is renamed to DIR.before-TIME first. The database has a log of its own.

    With --table, one table of it is made in a database that is there already, in one transaction, with its
    rows, constraints, indexes and sequences; rights on it are not restored. Its foreign keys must hold there.

    To a cluster (herdpy+zk://), its tablespace comes on the disk of a server of this machine, which may run,
    and from there to the others. Without a tablespace in the URL or in --tablespace, all those of the newest
    backup of a cluster do. It needs the server's data directory: --node.

    A time without a zone is one of this machine's zone.

    \b
    Examples:
      herdpy restore ./backups ./flights
      herdpy restore s3://bucket/backups ./flights --to-time 2026-03-01T10:00:00+01:00 --key-file backup.key
      herdpy restore ./backups ./flights --to-lsn 17:4711 --dry-run
      herdpy restore ./backups ./flights --before-commit 17:4710/order-99 --tablespace orders
      herdpy restore ./backups herdpy://db1/app --table app.item --as item_before --to-time 2026-03-01T10:00Z
      herdpy restore ./backups "herdpy+zk://zk1,zk2/herdpy?tablespace=sales" --node /srv/herdpy
    """
    if not table and (as_name or no_foreign_keys or scratch):
        raise CliError("--as, --no-foreign-keys and --scratch are for --table", code=USAGE)
    is_cluster = to.startswith("herdpy+zk:") and not table
    if is_cluster == (node is None):
        raise CliError("--node and a cluster's URL (herdpy+zk://) go together", code=USAGE)
    if table and force:
        raise CliError("--force and --table exclude each other: a table is never overwritten", code=USAGE)
    sought = target_of(to_lsn, to_time, before_commit)
    with translated(), interruptible():
        order = RestoreOrder(repository, opened(repository, key_file), sought, log, check_indexes, jobs, json)
        if is_cluster:
            assert node is not None
            restored_cluster.restore(order, to, tablespace, backup, node, ledgers_root, dry_run=dry_run)
            return
        plan = order.plan(tablespace, backup)
        if dry_run:
            order.show(plan)
        elif table:
            restored_table.restore(order, plan, to, table, as_name, scratch, foreign_keys=not no_foreign_keys)
        else:
            _make(order, plan, Path(to).expanduser().absolute(), force=force)


def _make(order: RestoreOrder, plan: Any, directory: Path, *, force: bool) -> None:
    """Make the database in a directory."""
    aside = needed("herdpy_server.backup.restoring").set_aside(directory) if force else None
    if aside is not None:
        print_note(f"What was in {directory} is in {aside} now.")
    report, seconds = order.make(plan, directory)
    show_report(order.url, report, aside, seconds, json=order.json)
