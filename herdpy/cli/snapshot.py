"""``herdpy snapshot``: a copy of a running server's database, published snapshots, and what a replica has on
its disk.

``copy`` makes a directory that opens as a database; its download is in ``DIR/download`` until it is whole, so
the same command goes on where one was broken off. ``publish`` and ``list`` are for readers of the log, such
as Spark. ``rescue`` reads replicas that are set aside, quarantined, or whose cluster is gone.

A server's gRPC address is given by grpc://, or looked up by SQL: a URL of the driver's (``herdpy://``,
``herdpy+zk://``, ``@profile``) leads to any server of the cluster, which knows the gRPC address of each; one
that follows is taken first, to spare the leader.
"""

from __future__ import annotations

import asyncio
import json as jsonlib
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from herdpy.cli import target
from herdpy.cli.errors import FAILED, USAGE, CliError, print_note
from herdpy.cli.extras import needed
from herdpy.cli.output import Bar, write_document, write_table
from herdpy.cli.status import ServerSession, literal, servers_of, session
from herdpy.cli.target import JsonOption

if TYPE_CHECKING:
    from herdpy.rpc.address import GrpcAddress


PASSWORD_VARIABLE = "HERDPY_PASSWORD"
_GRPC_ADDRESSES = """
SELECT n.grpc_address AS address
FROM herdpy.nodes n JOIN herdpy.replicas r ON r.node = n.node
WHERE r.tablespace = {} AND r.state IN ('following', 'leading') AND n.grpc_address IS NOT NULL
ORDER BY r.state, n.node
"""
_DOWNLOAD = "download"
_RESCUED = "rescued"
HELP = """Copy a running server's database, or publish snapshots for readers of the log.

"herdpy snapshot URL DIR" copies: it is short for "herdpy snapshot copy URL DIR".
"""
COPY = "copy"
Tablespace = Annotated[
    str,
    typer.Option("--tablespace", metavar="NAME", help="Whose; without, the only or the default one."),
]


def is_grpc_url(url: str) -> bool:
    """Whether a URL is a gRPC address itself."""
    return url.startswith(("grpc://", "grpcs://"))


def grpc_address(url: str, tablespace: str, ca: Path | None) -> tuple[GrpcAddress, str]:
    """The first of ``grpc_addresses``."""
    found, name = grpc_addresses(url, tablespace, ca)
    return found[0], name


def grpc_addresses(url: str, tablespace: str, ca: Path | None) -> tuple[list[GrpcAddress], str]:
    """The gRPC addresses that a URL leads to, and the tablespace that it names if ``tablespace`` does not.

    Nodes that follow come first. There is one address at least.

    Raises:
        CliError: the URL makes no sense, no server lets us in, or none knows a gRPC address.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its core has lines of its own for standard error
    needed("grpc")
    place: Any = needed("herdpy.rpc.address").GrpcAddress
    if is_grpc_url(url):
        try:
            return [place.parse(url, password=os.environ.get(PASSWORD_VARIABLE), ca=ca)], tablespace
        except ValueError as error:
            raise CliError(str(error), code=USAGE) from error
    try:
        options = servers_of(url)
    except CliError as error:
        hint = "Write grpc://host:port, or herdpy://host:port/tablespace."
        raise CliError(str(error), hint=hint, code=USAGE) from error
    wanted = tablespace or options.database or ""
    signed = options.libpq.get("sslrootcert", "system")
    like = place(
        "",
        user=options.user,
        password=options.password,
        ca=ca or (None if signed == "system" else Path(signed)),
    )
    with session(url) as asked:
        like = replace(like, tls=bool(asked.connection.pgconn.ssl_in_use))
        nodes = asked.rows(_GRPC_ADDRESSES.format(literal(wanted)))
        alone = not asked.rows("SELECT node FROM herdpy.nodes")
        found = _own(asked) if alone else [str(row["address"]) for row in nodes]
    if not found:
        raise CliError(
            f"no server of tablespace {wanted} reports its gRPC endpoint",
            hint="Give a gRPC address: grpc://role@host:port.",
        )
    parts = [one.rpartition(":") for one in found]
    places = [replace(like, host=host.strip("[]"), port=int(port)) for host, _colon, port in parts]
    # A server that is alone serves what it has under any name.
    return places, tablespace if alone else wanted


def _own(asked: ServerSession) -> list[str]:
    """Of a server that is alone: its host, and its port if the role may see that, or the usual one."""
    rows = asked.rows("SELECT value FROM herdpy.settings WHERE scope = 'server' AND name = 'grpc.port'")
    port = rows[0]["value"] if rows else needed("herdpy.rpc.address").DEFAULT_PORT
    return [f"{asked.connection.info.host}:{port}"] if str(port) != "0" else []


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
        Path | None, typer.Option("--ca", help="A PEM file with the CAs of the server's certificate.")
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
    found, tablespace = grpc_address(url, tablespace, ca)
    seeding = needed("herdpy_server.tablespace.directory")
    directory = directory.expanduser().absolute()
    seeding.check_room(directory, frozenset({_DOWNLOAD}))
    folder = directory / _DOWNLOAD
    errors = needed("herdpy.rpc.address")
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
    client_module: Any = needed("herdpy.rpc.snapshots")
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
            print_note(f"Not finished. Run the same command to resume, or remove {folder.parent}.")
            raise
        await _release(client, snapshot)
    return snapshot, first[0] if first else 0


async def _earlier(client: Any, folder: Path) -> Any:
    """The snapshot that an earlier command began to download, if the server still has it."""
    errors: Any = needed("herdpy.rpc.address")
    try:
        name = (folder / "snapshot").read_text().strip()
    except FileNotFoundError:
        return None
    try:
        return await client.describe(name)
    except errors.RemoteError as error:
        if error.sqlstate != "42704":
            raise
    print_note("The server has the snapshot no more that was begun with: beginning anew.")
    return None


async def _release(client: Any, snapshot: Any) -> None:
    """Spare the server the copy; an error of the call is no failure of the download."""
    errors: Any = needed("herdpy.rpc.address")
    try:
        await client.release(snapshot)
    except errors.RemoteError as error:
        print_note(f"warning: the snapshot stays on the server until its lease is over: {error.message}")


def rescue_command(
    replica: Annotated[
        Path,
        typer.Argument(metavar="REPLICA", help="Its directory: .../tablespaces/NAME, or .../kept/NAME-..."),
    ],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The new database: an empty or new directory.")
    ],
    json: JsonOption = False,
) -> None:
    """Make a database in a directory of what a replica of a cluster has on its disk.

    The replica is only read, and may be one that was set aside or quarantined. What it had applied and had
    not brought to its disk yet is not there.

    \b
    Examples:
      herdpy snapshot rescue /srv/herdpy/kept/herdpy-17-4711 ./rescued
      herdpy sql ./rescued -c "SELECT count(*) FROM item"
    """
    stores = needed("herdpy_server.store")
    seeding = needed("herdpy_server.tablespace.directory")
    source, directory = replica.expanduser() / "store", directory.expanduser().absolute()
    if not (source / "data.mdb").is_file():
        raise CliError(f"{replica} is no replica: it has no store/data.mdb", code=USAGE)
    folder = directory / _RESCUED
    seeding.check_room(directory, frozenset({_RESCUED}))
    shutil.rmtree(folder, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    try:
        store = stores.Store.open(source, read_only=True)
    except stores.StoreDamagedError as error:
        raise CliError(str(error), hint="Try the replica of another node.") from error
    try:
        lsn = store.copy(folder)
    finally:
        store.close()
    seeding.seed(directory, folder / "data.mdb", lsn)
    shutil.rmtree(folder)
    if json:
        sys.stdout.write(jsonlib.dumps({"directory": str(directory), "lsn": str(lsn)}) + "\n")
    else:
        sys.stdout.write(f"{directory} is a database as of {lsn}.\n")


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
        Path | None, typer.Option("--ca", help="A PEM file with the CAs of the server's certificate.")
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
        if is_grpc_url(url) or target.parse(url, servers=True).is_remote:
            facts = _by_server(url, to, tablespace, ca, bar)
        else:
            facts = _by_itself(url, to, tablespace or "default", bar)
        facts["seconds"] = round(bar.seconds, 3)
    if json:
        sys.stdout.write(jsonlib.dumps(facts) + "\n")
    else:
        sys.stdout.write(f"{facts['url']} has the tables as of {facts['lsn']}.\n")


def _by_server(url: str, to: str, tablespace: str, ca: Path | None, bar: Bar) -> dict[str, object]:
    found, tablespace = grpc_address(url, tablespace, ca)
    logs = needed("herdpy.rpc.snapshots")

    def progress(rows: int, total: int, _bytes: int) -> None:
        bar.update(rows, total or None, rows)

    done = asyncio.run(logs.publish(found, url=to, tablespace=tablespace, progress=progress))
    return {"url": done.url, "lsn": f"{done.lsn.ledger_id}:{done.lsn.entry_id}", "time_us": done.time_us}


def _by_itself(url: str, to: str, tablespace: str, bar: Bar) -> dict[str, object]:
    if not to:
        raise CliError("no destination to publish to", code=USAGE, hint="Use --to URL.")
    found = target.existing(url)
    embedded = needed("herdpy_server.embedded")
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
    published = needed("herdpy.log.published")
    try:
        rows = [_row(published, ref, check) for ref in published.snapshots(url, tablespace)]
    except published.PlaceError as error:
        raise CliError(str(error)) from error
    if json:
        write_document(rows)
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
