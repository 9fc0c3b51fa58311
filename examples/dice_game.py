"""The state that all dice agree on: the rolls so far, and the list of ledgers that hold them.

Nothing here sends or waits for anything but one znode. See dice.py for the game.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from herdpy.bookkeeper import Znodes
from herdpy.bookkeeper.metadata.znodes import NodeExistsError


@dataclass(frozen=True)
class State:
    """What follows from the first `rolls` rolls, the last of which is `entry` of `ledger` (-1: none yet)."""

    ledger: int = -1
    entry: int = -1
    rolls: int = 0
    total: int = 0

    def after(self, ledger: int, entry: int, data: bytes) -> State:
        """The state one roll on. It depends on nothing but its arguments, so all dice compute the same."""
        return State(ledger, entry, self.rolls + 1, self.total + sum(map(int, data.split())))


@dataclass(frozen=True)
class Ledgers:
    """The ledgers of the game in order, as one znode has them.

    Attributes:
        ids: all ledgers that are still there; only the last one can be open.
        snapshot: the state where the first of them begins.
        deleting: ledgers taken off the list; deleted by whoever changes the list next, at the latest.
        version: the znode's, for compare-and-set.
    """

    ids: tuple[int, ...] = ()
    snapshot: State = field(default_factory=State)
    deleting: tuple[int, ...] = ()
    version: int = 0

    @classmethod
    def decode(cls, data: bytes, version: int) -> Ledgers:
        found: dict[str, Any] = json.loads(data)
        return cls(tuple(found["ids"]), State(**found["snapshot"]), tuple(found["deleting"]), version)

    def encode(self) -> bytes:
        listed = {"ids": self.ids, "snapshot": asdict(self.snapshot), "deleting": self.deleting}
        return json.dumps(listed).encode()

    def after(self, ledger: int) -> tuple[int, ...]:
        """The ledgers behind one of them; all when it is none of them."""
        return self.ids[self.ids.index(ledger) + 1 :] if ledger in self.ids else self.ids


class LedgerList:
    """The znode that holds the list. It is changed by compare-and-set and in no other way."""

    def __init__(self, znodes: Znodes, path: str) -> None:
        self.znodes = znodes
        self.path = path

    async def make(self) -> None:
        """Make the znode if nobody has."""
        try:
            await self.znodes.create(self.path, Ledgers().encode(), make_parents=True)
        except NodeExistsError:
            pass

    async def read(self) -> Ledgers:
        """The list as it is now."""
        found = await self.znodes.get(self.path)
        return Ledgers.decode(found.data, found.version)

    async def change(self, new: Ledgers) -> Ledgers:
        """Write the list if it still has the version that `new` was made from.

        Raises:
            BadVersionError: somebody else changed it: there is another leader.
        """
        version = await self.znodes.set(self.path, new.encode(), new.version)
        return Ledgers(new.ids, new.snapshot, new.deleting, version)
