"""Where ledgers are: a metadata URI, the znode of an id, and the id of a znode, in each layout.

Pure: text in, text out. A URI is "zk://host:port,host:port/ledgers", as BookKeeper's ``metadataServiceUri``
(meta/zk/ZKMetadataDriverBase.java): hosts are separated by "," or ";"; "zk+longhierarchical://",
"zk+hierarchical://" and "zk+flat://" expect that layout, "zk+null://" and "zk://" take the one that is found.
The LAYOUT znode says which scheme a cluster uses; it wins over a URI. Format: util/StringUtils.java,
meta/*LedgerManager.java; of the LAYOUT: meta/LedgerLayout.java and meta/AbstractZkLedgerManagerFactory.java
(the layout's format version, a newline, the ledger manager's factory class, in format 1 its short name, a
colon, its version).

- long hierarchical: 19 digits split 3/4/4/4/L4: ledger 5 is ``000/0000/0000/0000/L0005``;
- hierarchical: 10 digits split 2/4/L4 for ids below 2**31 - 1, the long form from there on;
- flat: ``L`` and 10 digits (or more, when the id has more).
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from herdpy.bookkeeper.errors import MetadataError, UnknownLayoutError
from herdpy.bookkeeper.metadata.znodes import NoNodeError, Znodes

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


# URIs.

DEFAULT_PORT = 2181
"""ZooKeeper's port, where the URI names none."""


@dataclass(frozen=True, slots=True)
class MetadataUri:
    """The parts of a metadata service URI.

    Attributes:
        hosts: "host:port" of each ZooKeeper server.
        root: the absolute path of the ledgers.
        scheme: the layout the URI asks for; None takes what is found.
    """

    hosts: tuple[str, ...]
    root: str
    scheme: Scheme | None = None

    @property
    def connect_string(self) -> str:
        """The hosts as ZooKeeper clients write them."""
        return ",".join(self.hosts)


def parse_uri(uri: str) -> MetadataUri:
    """Take a URI apart.

    Raises:
        ValueError: it is not a ZooKeeper URI, or names no host, no root, or an unknown layout.
    """
    parts = urlsplit(uri)
    kind, _, layout = parts.scheme.lower().partition("+")
    if kind != "zk":
        raise ValueError(f"{uri!r}: a metadata URI starts with zk:// (or zk+<layout>://)")
    hosts = tuple(_host_port(host, uri) for host in parts.netloc.replace(";", ",").split(",") if host)
    if not hosts:
        raise ValueError(f"{uri!r} names no ZooKeeper server")
    root = parts.path.rstrip("/")
    if not root or "//" in root or parts.query or parts.fragment:
        raise ValueError(f"{uri!r} must end with the path of the ledgers, such as /ledgers")
    return MetadataUri(hosts, root, _scheme(layout, uri))


def _scheme(layout: str, uri: str) -> Scheme | None:
    if layout in {"", "null"}:
        return None
    try:
        return Scheme(layout)
    except ValueError:
        known = ", ".join(scheme.value for scheme in Scheme)
        raise ValueError(f"{uri!r} asks for the layout {layout!r}; known: {known}, null") from None


def _host_port(host: str, uri: str) -> str:
    name, colon, port = host.rpartition(":")
    if host.endswith("]") or not colon:
        name, port = host, str(DEFAULT_PORT)
    if not name or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{uri!r}: {host!r} is not host:port")
    return f"{name}:{port}"
