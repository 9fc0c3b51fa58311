"""How many bookies a new ledger is given, and making it. Above ``settings``; used by who leads.

A ledger is made before it is listed, so what is in the list exists. One that was made and never
listed is an orphan: its custom metadata say whose it is, ``sweep`` finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.digest import DigestType
from herdpy.bookkeeper.errors import NotEnoughBookiesError
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.log.bookkeeper.settings import LedgerLogSettings

_log = logging.getLogger("herdpy.log.ensembles")

#: Keys of the custom metadata of every ledger of a log.
APPLICATION, LOG, TABLESPACE, NODE, EPOCH = "application", "log", "tablespace", "node", "epoch"


class Quorums(NamedTuple):
    """The sizes of a ledger: bookies in all, that get each entry, that must have it."""

    ensemble: int
    write: int
    ack: int


def quorums_for(settings: LedgerLogSettings, bookies: int) -> Quorums | None:
    """The sizes of a ledger when so many bookies can be used; None when they are too few.

    The ensemble shrinks first, down to the write quorum; then, unless strict, both, down to the ack
    quorum. That one never shrinks: an entry acknowledged is an entry that so many bookies have.
    """
    ensemble = min(settings.ensemble, bookies)
    write = min(settings.write_quorum, ensemble)
    if write < settings.write_quorum and (settings.strict or write < settings.ack_quorum):
        return None
    return Quorums(ensemble, write, settings.ack_quorum)


def wanted(settings: LedgerLogSettings) -> Quorums:
    """The sizes of a ledger when enough bookies are there."""
    return Quorums(settings.ensemble, settings.write_quorum, settings.ack_quorum)


async def create_ledger(
    bk: BookKeeper, settings: LedgerLogSettings, log_id: str, node: str, epoch: int
) -> LedgerWriter:
    """Make a ledger of a log, as :func:`create_sized`, with the custom metadata that say whose it is."""
    custom = {
        APPLICATION: b"herdpy",
        LOG: log_id.encode(),
        TABLESPACE: settings.tablespace.encode(),
        NODE: node.encode(),
        EPOCH: str(epoch).encode(),
    }
    return await create_sized(bk, settings, custom)


async def create_sized(
    bk: BookKeeper, settings: LedgerLogSettings, custom: Mapping[str, bytes]
) -> LedgerWriter:
    """Make a ledger of as many bookies as can be used, at most as many as the settings say.

    Bookies that failed lately are used only when there would be too few without them.

    Raises:
        NotEnoughBookiesError: there are fewer than the settings allow.
        BookKeeperError: see ``BookKeeper.create_ledger``.
    """
    size = quorums_for(settings, len(bk.usable_bookies()))
    smallest = settings.write_quorum if settings.strict else settings.ack_quorum
    if size is None:
        size = quorums_for(settings, smallest)  # with bookies that failed lately, if they are there
    assert size is not None
    while True:
        try:
            writer = await bk.create_ledger(
                size.ensemble, size.write, size.ack, DigestType.CRC32C, settings.password, custom
            )
        except NotEnoughBookiesError:
            if size.ensemble <= smallest:
                raise
            smaller = quorums_for(settings, size.ensemble - 1)
            if smaller is None:
                raise
            size = smaller
            continue
        if size != wanted(settings):
            _log.warning(
                "a ledger has fewer bookies than it should",
                extra={"ledger_id": writer.ledger_id, "quorums": "-".join(map(str, size))},
            )
        return writer
