"""A cluster's bookies for people: who is up, who is read-only, who is gone, and how much room there is.

Between the client's ``bookies()`` and three sources: the registry (who is up now), the cookies in
ZooKeeper (who ever was), and the bookies themselves (their disks).
"""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass

from herdpy.bookkeeper.bookie.pool import BookiePool
from herdpy.bookkeeper.errors import BookKeeperError
from herdpy.bookkeeper.metadata.registry import Registry
from herdpy.bookkeeper.metadata.znodes import NoNodeError, Znodes


class BookieState(enum.Enum):
    """What ZooKeeper says of a bookie: WRITABLE, READ_ONLY (no new entries), or DOWN (not registered)."""

    WRITABLE = "writable"
    READ_ONLY = "read-only"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class BookieInfo:
    """A bookie.

    Attributes:
        id: its name in ensembles, often host:port.
        host, port: where it listens; None when it is down.
        total_bytes, free_bytes: of the disks that hold its ledgers; None when it did not say.
        problem: why it did not say.
    """

    id: str
    state: BookieState
    host: str | None = None
    port: int | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    problem: str | None = None


async def bookies_of(znodes: Znodes, root: str, registry: Registry, pool: BookiePool) -> list[BookieInfo]:
    """Every bookie with a cookie or a registration, by id; those that are up are asked at the same time."""
    up = dict.fromkeys(registry.readonly, BookieState.READ_ONLY)
    up |= dict.fromkeys(registry.available, BookieState.WRITABLE)
    try:
        known = await znodes.children(f"{root}/cookies")
    except NoNodeError:
        known = []
    asked = await asyncio.gather(*(_ask(one, up[one], registry, pool) for one in sorted(up)))
    gone = [BookieInfo(one, BookieState.DOWN) for one in known if one not in up]
    return sorted([*asked, *gone], key=lambda info: info.id)


async def _ask(bookie_id: str, state: BookieState, registry: Registry, pool: BookiePool) -> BookieInfo:
    host, port = registry.address(bookie_id)
    try:
        info = await pool.get(bookie_id).info()
    except BookKeeperError as error:
        return BookieInfo(bookie_id, state, host, port, problem=str(error))
    return BookieInfo(bookie_id, state, host, port, info.total_bytes, info.free_bytes)
