"""Where the metadata is: "zk://host:port,host:port/ledgers", as BookKeeper's ``metadataServiceUri``.

Format: BookKeeper's meta/zk/ZKMetadataDriverBase.java. Hosts are separated by "," or ";"; the path is the
ledgers' root; "zk+longhierarchical://", "zk+hierarchical://" and "zk+flat://" expect that layout,
"zk+null://" and "zk://" take the one that is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from herdpy.bookkeeper.metadata.paths import Scheme

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
