"""``herdpy backup``: a backup of a database in a directory, of a server, or of a cluster's tablespaces.

A directory is read by this process, whether another one has it open or not. A server makes its backup itself,
by a process of its own, into a repository that it reaches. ``herdpy_server.backup`` does the work.
"""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdpy.cli import target
from herdpy.cli.errors import USAGE, CliError, interruptible, print_note
from herdpy.cli.extras import needed
from herdpy.cli.output import Bar
from herdpy.cli.target import JsonOption, Place

if TYPE_CHECKING:
    from herdpy.backup.manifest import BackupManifest

_DEFAULT = "default"


To = Annotated[
    str,
    typer.Option(
        "--to", metavar="REPO", help="The repository: a directory, or a store such as s3://bucket/prefix."
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
    typer.Option("--key-file", help="The key that encrypts the repository: see herdpy backups key."),
]
Jobs = Annotated[
    int, typer.Option("--jobs", min=1, max=64, help="Parts that are compressed and written at a time.")
]
Rate = Annotated[
    str, typer.Option("--rate", metavar="SIZE", help="Bytes a second that are written at most: 20MB.")
]
Tablespace = Annotated[
    str, typer.Option("--tablespace", metavar="NAME", help="What the database is called in the repository.")
]


def backup_command(
    url: Place,
    to: To,
    full: Full = False,
    incremental: Incremental = False,
    key_file: KeyFile = None,
    jobs: Jobs = 2,
    rate: Rate = "",
    tablespace: Tablespace = "",
    json: JsonOption = False,
) -> None:
    """Make a backup of a database, while it is used.

    Without --full and --incremental, what changed since the newest backup in the repository, or all of it
    where there is none. A backup that was broken off is gone on with by the same command.

    \b
    Examples:
      herdpy backup ./flights --to ./backups
      herdpy backup ./flights --to s3://bucket/backups --key-file backup.key --rate 20MB
      herdpy backup ./flights --to ./backups --full --jobs 4
    """
    if full and incremental:
        raise CliError("--full and --incremental exclude each other", code=USAGE)
    rate_bytes = _rate(rate)
    found = target.existing(url)
    making: Any = needed("herdpy_server.backup.making")
    with _translated(), interruptible():
        repository = _repository(to, key_file)
        order = making.directory_order(
            found.path,
            tablespace or _DEFAULT,
            scope="full" if full else "increment" if incremental else "any",
            jobs=jobs,
            rate_bytes=rate_bytes,
        )
        with Bar("Backing up", "MiB") as bar:

            def report(progress: Any) -> None:
                done, total = progress.read_bytes, progress.total_bytes
                bar.show(
                    done, total or None, f"{done >> 20:,} MiB, {progress.stored_bytes >> 20:,} MiB written"
                )

            manifest = making.make_backup(order, repository, report, print_note)
            seconds = bar.seconds
    facts = _facts(manifest) | {"repository": without_userinfo(to), "seconds": round(seconds, 3)}
    if json:
        sys.stdout.write(jsonlib.dumps(facts) + "\n")
    else:
        sys.stdout.write(_line(facts) + "\n")


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
    kind = {"full": "a full backup", "pages": "changed pages", "log": "the log since"}[facts["kind"]]
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
    return module.Repository.create(url, None if key_file is None else module.read_key(key_file))


def without_userinfo(url: str) -> str:
    """A URL as it may be shown: without a user and a password."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


@contextmanager
def _translated() -> Iterator[None]:
    """What can go wrong with a repository, the store or the log, as the command line says it."""
    errors: Any = needed("herdpy.backup.errors")
    log: Any = needed("herdpy.log")
    store: Any = needed("herdpy_server.store")
    try:
        yield
    except errors.BackupError as error:
        raise CliError(str(error), hint=error.hint) from error
    except (log.LogError, store.StoreDamagedError) as error:
        raise CliError(str(error)) from error
