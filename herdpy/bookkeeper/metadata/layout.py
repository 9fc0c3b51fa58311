"""The LAYOUT znode: which path scheme a cluster uses. It wins over what a URI says.

Format: BookKeeper's meta/LedgerLayout.java and meta/AbstractZkLedgerManagerFactory.java: the layout's format
version, a newline, the ledger manager's factory class (in format 1: its short name), a colon, its version.
"""

from __future__ import annotations

from dataclasses import dataclass

from herdpy.bookkeeper.errors import UnknownLayoutError
from herdpy.bookkeeper.metadata.paths import Scheme
from herdpy.bookkeeper.metadata.znodes import NoNodeError, Znodes

_PACKAGE = "org.apache.bookkeeper.meta."
_MANAGER_VERSION = 1
# By format version: format 1 named the manager, format 2 names the class of its factory.
_SCHEMES: dict[int, dict[str, Scheme]] = {
    1: {"flat": Scheme.FLAT, "hierarchical": Scheme.HIERARCHICAL},
    2: {
        _PACKAGE + "FlatLedgerManagerFactory": Scheme.FLAT,
        _PACKAGE + "HierarchicalLedgerManagerFactory": Scheme.HIERARCHICAL,
        _PACKAGE + "LongHierarchicalLedgerManagerFactory": Scheme.LONG,
    },
}


@dataclass(frozen=True, slots=True)
class LedgerLayout:
    """What LAYOUT says: the path scheme, in the words it was found in."""

    scheme: Scheme
    factory: str
    manager_version: int = _MANAGER_VERSION
    format_version: int = 2

    def to_bytes(self) -> bytes:
        """The value of the LAYOUT znode."""
        return f"{self.format_version}\n{self.factory}:{self.manager_version}".encode()

    @classmethod
    def of(cls, scheme: Scheme) -> LedgerLayout:
        """The layout a new cluster of this scheme has."""
        factory = next(name for name, known in _SCHEMES[2].items() if known is scheme)
        return cls(scheme, factory)


def parse_layout(data: bytes) -> LedgerLayout:
    """Read the value of a LAYOUT znode.

    Raises:
        UnknownLayoutError: it is garbled, or of a version or ledger manager that is not known here.
    """
    try:
        version_line, _, rest = data.decode("utf-8").partition("\n")
        factory, _, manager_version = rest.partition("\n")[0].partition(":")
        format_version, version = _number(version_line), _number(manager_version)
    except ValueError:
        raise UnknownLayoutError(f"LAYOUT is garbled: {data[:200]!r}") from None
    if format_version not in _SCHEMES:
        raise UnknownLayoutError(
            f"LAYOUT has the format version {format_version}; known: {', '.join(map(str, _SCHEMES))}"
        )
    known = _SCHEMES[format_version]
    if factory not in known:
        raise UnknownLayoutError(f"LAYOUT names the ledger manager {factory!r}; known: {', '.join(known)}")
    if version != _MANAGER_VERSION:
        raise UnknownLayoutError(
            f"LAYOUT names version {version} of {factory}; known: version {_MANAGER_VERSION}"
        )
    return LedgerLayout(known[factory], factory, version, format_version)


async def read_layout(znodes: Znodes, root: str, expected: Scheme | None = None) -> LedgerLayout:
    """Read the layout of the cluster at a root.

    Args:
        znodes: a started session.
        root: the absolute path of the ledgers.
        expected: the scheme the URI asked for; None takes any.

    Raises:
        UnknownLayoutError: there is none, it is not known, or it is not the one expected.
        ZooKeeperUnavailableError: ZooKeeper did not answer.
    """
    path = f"{root.rstrip('/')}/LAYOUT"
    try:
        layout = parse_layout((await znodes.get(path)).data)
    except NoNodeError:
        raise UnknownLayoutError(
            f"there is no {path}: no BookKeeper cluster was initialised there (bookkeeper shell metaformat)"
        ) from None
    if expected is not None and layout.scheme is not expected:
        raise UnknownLayoutError(
            f"the URI asks for the layout {expected.value}, {path} says {layout.scheme.value}"
        )
    return layout


def _number(text: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ValueError(text)
    return int(text)
