"""Where a ledger's znode is: the path of an id and the id of a path, in each of BookKeeper's schemes.

Pure: text in, text out. ``listing`` walks these paths, ``ledger_store`` uses them for single ledgers.
Format: BookKeeper's util/StringUtils.java and meta/*LedgerManager.java.

- long hierarchical: 19 digits split 3/4/4/4/L4: ledger 5 is ``000/0000/0000/0000/L0005``;
- hierarchical: 10 digits split 2/4/L4 for ids below 2**31 - 1, the long form from there on;
- flat: ``L`` and 10 digits (or more, when the id has more).
"""

from __future__ import annotations

import enum
import re

from herdpy.bookkeeper.errors import MetadataError

LONG_IDS_START = 2**31 - 1
"""The first id of the hierarchical scheme that has the long form."""

MAX_LEDGER_ID = 2**63 - 1


class Scheme(enum.Enum):
    """How ids become paths; the value is the layout's name in metadata URIs."""

    LONG = "longhierarchical"
    HIERARCHICAL = "hierarchical"
    FLAT = "flat"


_LEVEL = re.compile(r"[0-9]{4}")
_LEAF = re.compile(r"L[0-9]{4}")
_SHORT_WALK = (re.compile(r"[0-9]{2}"), _LEVEL, _LEAF)
_LONG_WALK = (re.compile(r"[0-9]{3}"), _LEVEL, _LEVEL, _LEVEL, _LEAF)
_FLAT_WALK = (re.compile(r"L[0-9]{10,19}"),)

Walk = tuple[re.Pattern[str], ...]
"""What the names look like at each level below the root, down to the ledgers."""

_WALKS: dict[Scheme, tuple[Walk, ...]] = {
    Scheme.LONG: (_LONG_WALK,),
    Scheme.HIERARCHICAL: (_SHORT_WALK, _LONG_WALK),
    Scheme.FLAT: (_FLAT_WALK,),
}


class LedgerPaths:
    """The paths of ledgers below a root.

    Attributes:
        root: the absolute path of the ledgers ("/ledgers").
        scheme: how ids become paths.
    """

    def __init__(self, root: str, scheme: Scheme) -> None:
        self.root = root.rstrip("/")
        self.scheme = scheme

    @property
    def walks(self) -> tuple[Walk, ...]:
        """The trees of directories to walk, one after the other, to meet ledgers in order of their ids."""
        return _WALKS[self.scheme]

    def path(self, ledger_id: int) -> str:
        """The path of a ledger's znode.

        Raises:
            MetadataError: the id is not in [0, 2**63).
        """
        if not 0 <= ledger_id <= MAX_LEDGER_ID:
            raise MetadataError(f"{ledger_id} is not a ledger id")
        if self.scheme is Scheme.FLAT:
            return f"{self.root}/L{ledger_id:010d}"
        if self.scheme is Scheme.HIERARCHICAL and ledger_id < LONG_IDS_START:
            digits = f"{ledger_id:010d}"
            return f"{self.root}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
        digits = f"{ledger_id:019d}"
        return f"{self.root}/{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"

    def id_of(self, path: str) -> int:
        """The ledger whose znode this is.

        Raises:
            MetadataError: no ledger of this scheme has that path.
        """
        digits = path.removeprefix(self.root + "/").replace("/", "").replace("L", "")
        if digits.isascii() and digits.isdigit() and len(digits) <= 19:
            ledger_id = int(digits)
            if ledger_id <= MAX_LEDGER_ID and self.path(ledger_id) == path:
                return ledger_id
        raise MetadataError(f"{path[:200]!r} is not a ledger's path in the {self.scheme.value} layout")

    def parents(self, ledger_id: int) -> list[str]:
        """The directories that exist only for ledgers, nearest first; the root is not one of them."""
        found: list[str] = []
        path = self.path(ledger_id)
        while (path := path.rpartition("/")[0]) != self.root:
            found.append(path)
        return found
