"""A command's connection to a BookKeeper cluster, and its failures in words that say what to do next."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from herdpy.cli.errors import USAGE, CliError

if TYPE_CHECKING:
    from herdpy.bookkeeper import BookKeeper, LedgerMetadata

T = TypeVar("T")

_ZOOKEEPER_TIMEOUT_S = 5.0


def with_cluster(uri: str, work: Callable[[BookKeeper], Awaitable[T]]) -> T:
    """Open the cluster, do the work, close it; CliError when anything of that fails."""
    try:
        from herdpy.bookkeeper import BookKeeper, ClientSettings, errors
    except ImportError as error:
        raise CliError(str(error)) from error

    async def run() -> T:
        async with client as bk:
            return await work(bk)

    # kazoo tells of every attempt to connect; here the last word is enough.
    logging.getLogger("kazoo").addHandler(logging.NullHandler())
    try:
        client = BookKeeper(uri, settings=ClientSettings(zookeeper_timeout_s=_ZOOKEEPER_TIMEOUT_S))
    except ImportError as error:
        raise CliError(str(error)) from error
    except ValueError as error:
        raise CliError(str(error), code=USAGE) from error
    try:
        return asyncio.run(run())
    except errors.BookKeeperError as error:
        raise CliError(str(error), hint=_hint(error, uri)) from error


def _hint(error: Exception, uri: str) -> str | None:
    from herdpy.bookkeeper import errors

    hints: list[tuple[type[errors.BookKeeperError], str]] = [
        (errors.NoSuchLedgerError, f"herdpy ledgers ls --cluster {uri} lists what is there."),
        (errors.WrongPasswordError, "Leave --password-file out to take the password from the metadata."),
        (errors.UnknownLayoutError, "Is the path behind the servers right? BookKeeper's is mostly /ledgers."),
        (errors.ZooKeeperUnavailableError, "Name the cluster with --cluster or HERDPY_CLUSTER."),
        (errors.RecoveryError, f"herdpy ledgers bookies --cluster {uri} says which bookies are missing."),
        (errors.BookieUnavailableError, f"herdpy ledgers bookies --cluster {uri} says which are up."),
    ]
    return next((hint for kind, hint in hints if isinstance(error, kind)), None)


def password_of(metadata: LedgerMetadata, password_file: Path | None) -> bytes:
    """What a file says (a line end behind it is not meant), or what stands in the metadata in the clear."""
    if password_file is None:
        return metadata.password
    return password_file.read_bytes().removesuffix(b"\n").removesuffix(b"\r")
