"""All ledgers of a cluster, in order of their ids, one directory at a time.

Walks the trees of ``paths``: at most one directory of each level is in memory (10,000 names at most, except
in the flat scheme, where the root holds everything), and no ledger's znode is read.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

from herdpy.bookkeeper.errors import MetadataError
from herdpy.bookkeeper.metadata.paths import LedgerPaths, Walk
from herdpy.bookkeeper.metadata.znodes import NoNodeError, Znodes

_log = logging.getLogger("herdpy.bookkeeper.listing")


async def list_ledgers(znodes: Znodes, paths: LedgerPaths) -> AsyncIterator[int]:
    """Yield the ids of all ledgers, ascending.

    Ledgers created or deleted meanwhile may or may not be met. Names that are no ledger's (``available``,
    ``idgen``, ``LAYOUT`` and the like) are passed over.

    Raises:
        MetadataError: the root does not exist.
        ZooKeeperUnavailableError: ZooKeeper did not answer.
    """
    try:
        top = await znodes.children(paths.root)
    except NoNodeError:
        raise MetadataError(f"{paths.root} does not exist") from None
    for walk in paths.walks:
        async for ledger_id in _walk(znodes, paths, walk, top):
            yield ledger_id


async def _walk(znodes: Znodes, paths: LedgerPaths, walk: Walk, top: list[str]) -> AsyncIterator[int]:
    """Depth first without recursion: a stack of what is left to visit in each open directory."""
    stack = [_visit(paths.root, top, walk, 0)]
    while stack:
        if not stack[-1]:
            stack.pop()
            continue
        path = stack[-1].pop()
        if len(stack) == len(walk):
            try:
                yield paths.id_of(path)
            except MetadataError:
                _log.warning("not a ledger's znode", extra={"path": path})
            continue
        try:
            names = await znodes.children(path)
        except NoNodeError:
            continue  # emptied and removed since its parent was listed
        stack.append(_visit(path, names, walk, len(stack)))


def _visit(parent: str, names: list[str], walk: Walk, level: int) -> list[str]:
    """The paths to visit in a directory, last one first. Longer numbers are larger ones (flat scheme)."""
    wanted = (name for name in names if walk[level].fullmatch(name))
    return [f"{parent}/{name}" for name in sorted(wanted, key=lambda name: (len(name), name), reverse=True)]
