"""``herdpy snapshot``: a copy of a running server's database, in a directory that opens as a database.

The download is in ``DIR/download`` until it is whole, so the same command goes on where one was broken off.
"""

from __future__ import annotations

import asyncio
import json as jsonlib
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from herdpy.cli import target
from herdpy.cli.doors import door
from herdpy.cli.errors import CliError, tell
from herdpy.cli.progress import Bar
from herdpy.cli.target import JsonOption

_FOLDER = "download"


def snapshot_command(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="The server: grpc://role@host:port, or grpcs:// for TLS. Or several, of which one is "
            "chosen: herdpy://host:port/tablespace, herdpy+zk://zk/root, @profile.",
        ),
    ],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory to make.")],
    tablespace: Annotated[
        str,
        typer.Option(
            "--tablespace", metavar="NAME", help="Of a node of a cluster; without, its default one."
        ),
    ] = "",
    ca: Annotated[
        Path | None, typer.Option("--ca", help="A PEM file with who signed the server's certificate.")
    ] = None,
    patience_s: Annotated[
        float, typer.Option("--patience", help="Seconds to try while nothing arrives.", min=0.0)
    ] = 60.0,
    json: JsonOption = False,
) -> None:
    """Copy the database of a running server into a directory, as of one moment.

    The server goes on meanwhile. Everything is compared with checksums, and DIR becomes a database only
    when it is whole. When it is broken off, the same command goes on where it was. Roles are not part of it.

    The password, where one is needed, is taken from HERDPY_PASSWORD.

    \b
    Examples:
      herdpy snapshot grpc://127.0.0.1:8481 ./backup
      HERDPY_PASSWORD=... herdpy snapshot grpcs://ann@db.example.com:8481 ./backup --ca ca.pem
      herdpy snapshot grpc://127.0.0.1:8481 ./backup --tablespace orders
      herdpy snapshot herdpy://db1,db2,db3/orders ./backup
      herdpy sql ./backup -c "SELECT count(*) FROM flight"
    """
    found, tablespace = door(url, tablespace, ca)
    seeding = target.needed("herdpy_server.tablespace.seeding")
    directory = directory.expanduser().absolute()
    seeding.check_room(directory, frozenset({_FOLDER}))
    folder = directory / _FOLDER
    errors = target.needed("herdpy.rpc.errors")
    with Bar("Downloading", "MiB") as bar:
        try:
            snapshot, resumed = asyncio.run(_download(found, tablespace, folder, bar, patience_s))
        except errors.SnapshotDamagedError as error:
            raise CliError(str(error), hint="The network or a disk may be at fault.") from error
        seconds = bar.seconds
    seeding.seed(directory, folder / "data.mdb", snapshot.lsn)
    shutil.rmtree(folder)
    facts = {
        "directory": str(directory),
        "lsn": str(snapshot.lsn),
        "size_bytes": snapshot.size_bytes,
        "resumed_bytes": resumed,
        "seconds": round(seconds, 3),
    }
    if json:
        sys.stdout.write(jsonlib.dumps(facts) + "\n")
    else:
        sys.stdout.write(f"{directory} is a database as of {snapshot.lsn}, {snapshot.size_bytes:,} bytes.\n")


async def _download(
    place: Any, tablespace: str, folder: Path, bar: Bar, patience_s: float
) -> tuple[Any, int]:
    """The snapshot whose file is in ``folder`` now, and how much of it was there before."""
    client_module: Any = target.needed("herdpy.rpc.snapshots")
    first: list[int] = []

    def progress(done: int, total: int) -> None:
        first.append(done) if not first else None
        bar.update(done, total, done >> 20)

    async with client_module.SnapshotClient(place) as client:
        snapshot = await _earlier(client, folder)
        if snapshot is None:
            snapshot = await client.begin(tablespace=tablespace)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / "snapshot").write_text(snapshot.id)
        try:
            await client.download(snapshot, folder / "data.mdb", progress=progress, patience_s=patience_s)
        except BaseException:
            tell(f"Not finished. The same command goes on, or remove {folder.parent}.")
            raise
        await _release(client, snapshot)
    return snapshot, first[0] if first else 0


async def _earlier(client: Any, folder: Path) -> Any:
    """The snapshot that an earlier command began to download, if the server still has it."""
    errors: Any = target.needed("herdpy.rpc.errors")
    try:
        name = (folder / "snapshot").read_text().strip()
    except FileNotFoundError:
        return None
    try:
        return await client.describe(name)
    except errors.RemoteError as error:
        if error.sqlstate != "42704":
            raise
    tell("The server has the snapshot no more that was begun with: beginning anew.")
    return None


async def _release(client: Any, snapshot: Any) -> None:
    """Spare the server the copy; that it cannot be told is no failure of the download."""
    errors: Any = target.needed("herdpy.rpc.errors")
    try:
        await client.release(snapshot)
    except errors.RemoteError as error:
        tell(f"warning: the snapshot stays on the server until its lease is over: {error.message}")
