"""``herdpy snapshot publish`` and ``list``: snapshots for readers of the log, such as Spark."""

from __future__ import annotations

import asyncio
import json as jsonlib
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from herdpy.cli import target
from herdpy.cli.doors import door, is_door
from herdpy.cli.errors import FAILED, USAGE, CliError
from herdpy.cli.output import write_table
from herdpy.cli.progress import Bar
from herdpy.cli.snapshot import snapshot_command
from herdpy.cli.target import JsonOption

HELP = """Copy a running server's database, or publish snapshots for readers of the log.

"herdpy snapshot URL DIR" copies: it is short for "herdpy snapshot copy URL DIR".
"""
COPY = "copy"

Tablespace = Annotated[
    str,
    typer.Option("--tablespace", metavar="NAME", help="Whose; without, the only or the default one."),
]


def publish_command(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL|DIR",
            help="A server, grpc://role@host:port (grpcs:// for TLS), servers, of which one is chosen "
            "(herdpy://, herdpy+zk://), @profile, or a database's directory.",
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="URL", help="A directory or a store; without, where the tablespace publishes to."
        ),
    ] = "",
    tablespace: Tablespace = "",
    ca: Annotated[
        Path | None, typer.Option("--ca", help="A PEM file with who signed the server's certificate.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Publish a snapshot now: every table as Parquet files, with a manifest, for readers of the log.

    A server does it by a process of its own, and asks for a superuser or a role with REPLICATION. To another
    place than the one that the tablespace publishes to it is a copy of yours, which nobody removes. A
    database in a directory must not be open elsewhere.

    The password, where one is needed, is taken from HERDPY_PASSWORD.

    \b
    Examples:
      herdpy snapshot publish grpc://127.0.0.1:8481
      herdpy snapshot publish grpc://127.0.0.1:8481 --to s3://bucket/snapshots
      herdpy snapshot publish ./flights --to ./published
    """
    with Bar("Publishing") as bar:
        if is_door(url) or target.parse(url, servers=True).is_remote:
            facts = _by_server(url, to, tablespace, ca, bar)
        else:
            facts = _by_itself(url, to, tablespace or "default", bar)
        facts["seconds"] = round(bar.seconds, 3)
    if json:
        sys.stdout.write(jsonlib.dumps(facts) + "\n")
    else:
        sys.stdout.write(f"{facts['url']} has the tables as of {facts['lsn']}.\n")


def _by_server(url: str, to: str, tablespace: str, ca: Path | None, bar: Bar) -> dict[str, object]:
    found, tablespace = door(url, tablespace, ca)
    logs = target.needed("herdpy.rpc.logs")

    def progress(rows: int, total: int, _bytes: int) -> None:
        bar.update(rows, total or None, rows)

    done = asyncio.run(logs.publish(found, url=to, tablespace=tablespace, progress=progress))
    return {"url": done.url, "lsn": f"{done.lsn.ledger_id}:{done.lsn.entry_id}", "time_us": done.time_us}


def _by_itself(url: str, to: str, tablespace: str, bar: Bar) -> dict[str, object]:
    if not to:
        raise CliError("where to publish is not said", code=USAGE, hint="Say --to URL.")
    found = target.existing(url)
    embedded = target.needed("herdpy_server.embedded")
    with embedded.opened(found.path) as database:
        manifest = database.publish(to, tablespace, lambda rows, _bytes: bar.update(rows, None, rows))
    return {"url": to, "lsn": str(manifest.lsn), "time_us": manifest.time_us}


def list_command(
    url: Annotated[str, typer.Argument(metavar="URL", help="The directory or store that was published to.")],
    tablespace: Tablespace = "default",
    check: Annotated[bool, typer.Option("--check", help="Read every file, and compare it.")] = False,
    json: JsonOption = False,
) -> None:
    """List the snapshots that are published at a place, newest first.

    With --check every file is read and compared with its checksum. The exit code is 1 when one is damaged.

    \b
    Examples:
      herdpy snapshot list ./published
      herdpy snapshot list s3://bucket/snapshots --tablespace orders --check
    """
    published = target.needed("herdpy.log.published")
    try:
        rows = [_row(published, ref, check) for ref in published.snapshots(url, tablespace)]
    except published.PublishedSnapshotError as error:
        raise CliError(str(error)) from error
    if json:
        sys.stdout.write(jsonlib.dumps(rows, indent=2) + "\n")
    else:
        names = ["lsn", "time", "tables", "rows", "size_bytes", "problem"]
        write_table(names, [[row[name] for name in names] for row in rows], sys.stdout)
    if any(row["problem"] for row in rows):
        raise typer.Exit(FAILED)


def _row(published: Any, ref: Any, check: bool) -> dict[str, Any]:
    """What there is to be said of one snapshot; of a damaged one what is wrong with it."""
    row: dict[str, Any] = {"lsn": str(ref.lsn), "url": str(ref)}
    row |= dict.fromkeys(("time", "tables", "rows", "size_bytes", "problem"))
    try:
        manifest = published.load(ref)
        row["time"] = datetime.fromtimestamp(manifest.time_us / 1e6, UTC).isoformat(timespec="milliseconds")
        row |= {"tables": len(manifest.tables), "rows": manifest.rows, "size_bytes": manifest.size_bytes}
        for table in manifest.tables if check else ():
            for file in table.files:
                published.open_file(ref, file).close()
    except published.DamagedSnapshotError as error:
        row["problem"] = str(error)
    return row


class SnapshotGroup(TyperGroup):
    """The group takes what is no command of its own for the arguments of ``copy``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Options may stand before the URL, too."""
        if args and args[0] not in self.commands and args[0] not in {"-h", "--help"}:
            args = [COPY, *args]
        return super().parse_args(ctx, args)


COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (
    (COPY, snapshot_command),
    ("publish", publish_command),
)
