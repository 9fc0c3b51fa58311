"""Repositories of backups, as commands name, open and show them. Below the commands about backups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from herdpy.cli.errors import CliError
from herdpy.cli.extras import needed

RepositoryArgument = Annotated[
    str,
    typer.Argument(
        metavar="REPO", help="The repository: a directory, or a store such as s3://bucket/prefix."
    ),
]
KeyFileOption = Annotated[
    Path | None, typer.Option("--key-file", metavar="FILE", help="The key of an encrypted repository.")
]


def opened(url: str, key_file: Path | None) -> Any:
    """A repository that is there (``herdpy.backup.repository.Repository``). Errors: see ``translated``."""
    module: Any = needed("herdpy.backup.repository")
    return module.Repository.open(url, key_of(key_file))


def key_of(key_file: Path | None) -> bytes | None:
    """The key in a file. CliError: it cannot be read; RepositoryError: it has none."""
    if key_file is None:
        return None
    module: Any = needed("herdpy.backup.repository")
    try:
        key: bytes = module.read_key(key_file)
    except OSError as error:
        hint = "herdpy backups key FILE makes one."
        raise CliError(f"the key file {key_file} cannot be read: {error.strerror}", hint=hint) from error
    return key


def without_userinfo(url: str) -> str:
    """A URL as it may be shown. The log's modules, which know how, are loaded only then."""
    shown: str = needed("herdpy.log.place").without_userinfo(url)
    return shown


@contextmanager
def translated() -> Iterator[None]:
    """What can go wrong with a repository, a store or a log, as the command line says it."""
    errors: Any = needed("herdpy.backup.errors")
    log: Any = needed("herdpy.log")
    store: Any = needed("herdpy_server.store")
    try:
        yield
    except errors.BackupError as error:
        raise CliError(str(error), hint=error.hint) from error
    except (log.LogError, store.StoreDamagedError) as error:
        raise CliError(str(error)) from error
