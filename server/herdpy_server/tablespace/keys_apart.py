"""Locks of keys that lie in the file of their transaction. Below ``locks``, above ``store.spill_file``."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from herdpy_server.store.physical import MAX_PLAIN
from herdpy_server.store.spilling import SpillFile


class KeysApart:
    """The keys of one database that one transaction has locked, each with its mask of modes."""

    __slots__ = ("_file", "_slot")

    def __init__(self, file: SpillFile, slot: int) -> None:
        self._file = file
        self._slot = slot

    def put(self, masks: Mapping[bytes, int]) -> None:
        """Add keys, or give those that are there another mask. SqlError 53100, 58030: nothing was added."""
        self._file.write(self._slot, [(key, bytes((masks[key],))) for key in sorted(masks)])

    def mask(self, key: bytes) -> int:
        """The modes in which a key is locked; 0 when it is not."""
        found = self._file.view().get(self._slot, key)
        return 0 if found is None else found[0]

    def first_of(self, keys: Collection[bytes]) -> bytes | None:
        """One of the ``keys`` that is here; None when none is."""
        view = self._file.view()
        if max(map(len, keys)) > MAX_PLAIN:
            return next((key for key in keys if view.get(self._slot, key) is not None), None)
        return next(iter(view.existing(self._slot, sorted(keys))), None)
