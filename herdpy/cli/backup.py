"""``herdpy backup``: a backup of a database in a directory, of a server, or of a cluster's tablespaces.

A directory is read by this process, whether another one has it open or not. A server makes its backup itself,
by a process of its own, into a repository that it reaches. ``herdpy_server.backup`` does the work.
"""

from __future__ import annotations

import json as jsonlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdpy.cli import target
from herdpy.cli.backup_servers import ServerBackup, back_up_all, back_up_one
from herdpy.cli.errors import FAILED, USAGE, CliError, interruptible, print_note
from herdpy.cli.extras import needed
from herdpy.cli.output import Bar, write_document
from herdpy.cli.repositories import key_of, translated, without_userinfo
from herdpy.cli.snapshot import is_grpc_url
from herdpy.cli.target import JsonOption, Place

if TYPE_CHECKING:
    from herdpy.backup.manifest import BackupManifest

_DEFAULT = "default"
_JOBS = 2
_PATIENCE_S = 60.0
_KINDS = {"full": "a full backup", "pages": "changed pages", "log": "the log since"}


To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="REPO",
        help="The repository: a directory, or a store such as s3://bucket/prefix. A server writes there by"
        " itself; without, it takes its own, backup.url.",
    ),
]
Full = Annotated[
    bool, typer.Option("--full", help="An image of its own, even where there is an earlier backup.")
]
Incremental = Annotated[
    bool,
    typer.Option("--incremental", help="What changed since the newest backup; refused where there is none."),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        help="The key that encrypts the repository: see herdpy backups key. A server has its own.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", min=1, max=64, help="Parts that are compressed and written at a time."),
]
Rate = Annotated[
    str, typer.Option("--rate", metavar="SIZE", help="Bytes a second that are written at most: 20MB.")
]
Tablespace = Annotated[
    str,
    typer.Option(
        "--tablespace", metavar="NAME", help="Whose; of a directory, what it is called in the repository."
    ),
]
All = Annotated[bool, typer.Option("--all", help="All tablespaces of a cluster.")]
Ca = Annotated[Path | None, typer.Option("--ca", help="A PEM file with the CAs of the server's certificate.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be made, of a directory, and write nothing.")
]
Patience = Annotated[
    float | None,
    typer.Option("--patience", min=0.0, help="Seconds to try other nodes while nothing moves; 60."),
]


def backup_command(
    url: Place,
    to: To = "",
    full: Full = False,
    incremental: Incremental = False,
    key_file: KeyFile = None,
    jobs: Jobs = None,
    rate: Rate = "",
    tablespace: Tablespace = "",
    every: All = False,
    ca: Ca = None,
    patience_s: Patience = None,
    dry_run: DryRun = False,
    json: JsonOption = False,
) -> None:
    """Make a backup of a database, while it is used.

    Without --full and --incremental, what changed since the newest backup in the repository, or all of it
    where there is none. A backup that was broken off is gone on with by the same command.

    Servers make their backups themselves, by a process with low priority, and need a superuser or a role with
    REPLICATION. In a cluster a follower does it where there is one. The password, where one is needed, is
    taken from HERDPY_PASSWORD.

    \b
    Examples:
      herdpy backup ./flights --to ./backups
      herdpy backup ./flights --to s3://bucket/backups --key-file backup.key --rate 20MB
      herdpy backup grpc://127.0.0.1:8481 --to /srv/backups --full --jobs 4
      herdpy backup herdpy://db1,db2,db3/ --all --to s3://bucket/backups
    """
    if full and incremental:
        raise CliError("--full and --incremental exclude each other", code=USAGE)
    if every and tablespace:
        raise CliError("--all and --tablespace exclude each other", code=USAGE)
    scope = "full" if full else "increment" if incremental else "any"
    rate_bytes = _rate(rate)
    if is_grpc_url(url) or target.parse(url, servers=True).is_remote:
        if key_file is not None:
            raise CliError(
                "a server encrypts with its own key", hint="Set backup.key_file of the server.", code=USAGE
            )
        if dry_run:
            raise CliError("--dry-run is for directories", code=USAGE)
        patience = _PATIENCE_S if patience_s is None else patience_s
        order = ServerBackup(url, to, scope, jobs or 0, rate_bytes, ca, patience)
        _by_servers(order, tablespace, every=every, json=json)
        return
    if every or ca is not None or patience_s is not None:
        raise CliError("--all, --ca and --patience are for servers", code=USAGE)
    wish = _Wish(to, key_file, scope, jobs or _JOBS, rate_bytes, tablespace or _DEFAULT)
    if dry_run:
        _show_plan(_planned(url, wish), json)
    else:
        _show([_of_directory(url, wish)], json)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What is to be made of a directory."""

    to: str
    key_file: Path | None
    scope: str
    jobs: int
    rate_bytes: int
    tablespace: str

    def order(self, url: str) -> Any:
        """For ``making``. CliError: there is no database, or no repository is named."""
        if not self.to:
            raise CliError("no repository is named", hint="Use --to REPO.", code=USAGE)
        making: Any = needed("herdpy_server.backup.making")
        return making.directory_order(
            target.existing(url).path,
            self.tablespace,
            scope=self.scope,
            jobs=self.jobs,
            rate_bytes=self.rate_bytes,
        )


def _planned(url: str, wish: _Wish) -> dict[str, Any]:
    making: Any = needed("herdpy_server.backup.making")
    module: Any = needed("herdpy.backup.repository")
    with translated():
        order = wish.order(url)
        if module.Repository.is_encrypted(wish.to) is not None:
            plan = making.plan_backup(order, _repository(wish.to, wish.key_file), print_note)
        elif wish.scope == "increment":
            raise making.nothing_to_continue()
        else:
            plan = making.BackupPlan("full", None, (order.store / "data.mdb").stat().st_size)
    return {"kind": plan.kind, "parent": plan.parent, "read_bytes": plan.read_bytes}


def _show_plan(plan: dict[str, Any], json: bool) -> None:
    if json:
        sys.stdout.write(jsonlib.dumps(plan) + "\n")
        return
    after = f" since backup {plan['parent']}" if plan["parent"] else ""
    read = f", {plan['read_bytes'] >> 20:,} MiB of the store to read" if plan["read_bytes"] else ""
    sys.stdout.write(f"It would be {_KINDS[plan['kind']]}{after}{read}.\n")


def _of_directory(url: str, wish: _Wish) -> dict[str, Any]:
    order = wish.order(url)
    making: Any = needed("herdpy_server.backup.making")
    with translated(), interruptible(), Bar("Backing up", "MiB") as bar:
        repository = _repository(wish.to, wish.key_file)

        def report(progress: Any) -> None:
            done, total = progress.read_bytes, progress.total_bytes
            written = progress.stored_bytes >> 20
            bar.show(done, total or None, f"{done >> 20:,} MiB, {written:,} MiB written")

        manifest = making.make_backup(order, repository, report, print_note)
        seconds = bar.seconds
    shown = without_userinfo(wish.to)
    return _facts(manifest) | {"repository": shown, "seconds": round(seconds, 3)}


def _by_servers(order: ServerBackup, tablespace: str, *, every: bool, json: bool) -> None:
    with interruptible():
        if not every:
            _show([back_up_one(order, tablespace)], json)
            return
        made, joined = back_up_all(order)
    if json:
        write_document({"cluster": joined, "backups": made})
    else:
        for facts in made:
            sys.stdout.write(_line(facts) + "\n")
        if joined is not None:
            sys.stdout.write(f"Backup {joined} of the cluster has them all.\n")
    if joined is None:
        raise typer.Exit(FAILED)


def _show(found: list[dict[str, Any]], json: bool) -> None:
    for facts in found:
        sys.stdout.write((jsonlib.dumps(facts) if json else _line(facts)) + "\n")


def _facts(manifest: BackupManifest) -> dict[str, Any]:
    return {
        "id": manifest.id,
        "kind": manifest.kind,
        "tablespace": manifest.tablespace,
        "log_id": manifest.log_id,
        "parent": manifest.parent,
        "lsn": manifest.image.lsn,
        "end": manifest.end,
        "raw_bytes": manifest.raw_bytes,
        "stored_bytes": manifest.stored_bytes,
    }


def _line(facts: dict[str, Any]) -> str:
    kind = _KINDS[facts["kind"]]
    return (
        f"Backup {facts['id']} of tablespace {facts['tablespace']}: {kind}, up to {facts['end']}, "
        f"{facts['stored_bytes']:,} bytes in {facts['seconds']:.1f} s."
    )


def _rate(text: str) -> int:
    from herdpy.options import size_bytes

    if not text:
        return 0
    try:
        return size_bytes(text.removesuffix("/s"))
    except ValueError as error:
        raise CliError(f"--rate {text}: {error}", code=USAGE) from error


def _repository(url: str, key_file: Path | None) -> Any:
    module: Any = needed("herdpy.backup.repository")
    return module.Repository.create(url, key_of(key_file))
