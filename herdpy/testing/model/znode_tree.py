"""The data of a model ZooKeeper: a tree of versioned znodes, pure, with no time and no network.

Rules: ZooKeeper's. A znode's version counts the changes of its data, a parent counts the sequence znodes
made under it, an ephemeral znode has no children and belongs to a session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from herdpy.bookkeeper.metadata.znodes import (
    ANY_VERSION,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Znode,
    ZnodeVersionError,
)


@dataclass(slots=True)
class _Node:
    data: bytes
    ctime_ms: int
    czxid: int
    session: int | None
    version: int = 0
    made: int = 0  # children ever made: the next sequence number
    children: dict[str, None] = field(default_factory=dict)


class ZnodeTree:
    """The tree. `on_data(path)` and `on_children(path)` are called after each change."""

    def __init__(self, on_data: Callable[[str], None], on_children: Callable[[str], None]) -> None:
        self._nodes = {"/": _Node(b"", 0, 0, None)}
        self._created = 0  # znodes ever made: their order is all that is asked of their numbers
        self._on_data = on_data
        self._on_children = on_children

    def create(
        self,
        path: str,
        data: bytes,
        *,
        now_ms: int,
        session: int | None = None,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        """Make a znode, ephemeral with a session; its path. Raises NodeExistsError, NoNodeError."""
        parent_path = _parent(path)
        parent = self._nodes.get(parent_path)
        if parent is None:
            if not make_parents:
                raise NoNodeError(path)
            self.create(parent_path, b"", now_ms=now_ms, make_parents=True)
            parent = self._nodes[parent_path]
        if sequence:
            path = f"{path}{parent.made:010d}"
        if path in self._nodes:
            raise NodeExistsError(path)
        parent.made += 1
        parent.children[path.rsplit("/", 1)[1]] = None
        self._created += 1
        self._nodes[path] = _Node(bytes(data), now_ms, self._created, session)
        self._on_data(path)
        self._on_children(path)
        self._on_children(parent_path)
        return path

    def get(self, path: str) -> Znode:
        """A znode. Raises NoNodeError."""
        node = self._node(path)
        return Znode(node.data, node.version, node.ctime_ms, node.czxid)

    def find(self, path: str) -> Znode | None:
        """A znode, or None."""
        return self.get(path) if path in self._nodes else None

    def set(self, path: str, data: bytes, version: int) -> int:
        """Replace the data at `version`; the new version. Raises NoNodeError, BadVersionError."""
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise ZnodeVersionError(path)
        node.data = bytes(data)
        node.version += 1
        self._on_data(path)
        return node.version

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a leaf. Raises NoNodeError, BadVersionError, NotEmptyError."""
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise ZnodeVersionError(path)
        if node.children:
            raise NotEmptyError(path)
        parent_path = _parent(path)
        del self._nodes[path]
        del self._nodes[parent_path].children[path.rsplit("/", 1)[1]]
        self._on_data(path)
        self._on_children(path)
        self._on_children(parent_path)

    def children(self, path: str) -> list[str]:
        """The sorted names of a znode's children. Raises NoNodeError."""
        return sorted(self._node(path).children)

    def delete_ephemerals(self, session: int) -> None:
        """Remove what belongs to a session."""
        for path in [path for path, node in self._nodes.items() if node.session == session]:
            self.delete(path)

    def _node(self, path: str) -> _Node:
        node = self._nodes.get(path)
        if node is None:
            raise NoNodeError(path)
        return node


def _parent(path: str) -> str:
    return path.rsplit("/", 1)[0] or "/"
