"""What can go wrong in a cluster's metadata, below everything else in this package.

What a client's statement caused (a bad name, a tablespace that is there already) is an ``SqlError``; these
here are for the node's own code.
"""

from __future__ import annotations

from herdpy.formats import NEWEST_LEVEL, levels_text


class ClusterError(Exception):
    """The root of this package's errors."""


class NodeIdInUseError(ClusterError):
    """Another live process has this node's id: two would answer for one.

    Attributes:
        node: the id.
        where: where the other one says that it listens.
    """

    def __init__(self, node: str, where: str) -> None:
        super().__init__(
            f'another process is node "{node}" of this cluster already ({where}): '
            "give each one its own cluster.node"
        )
        self.node = node
        self.where = where


class NewerClusterError(ClusterError):
    """The cluster's level is above the newest that this HerdPy knows: it would not understand what it reads.

    Attributes:
        level: the cluster's.
    """

    def __init__(self, level: int) -> None:
        super().__init__(
            f"the cluster is at level {levels_text(level)}, and this HerdPy knows {levels_text(NEWEST_LEVEL)}"
        )
        self.level = level


class MalformedMetadataError(ClusterError):
    """A znode holds what this version cannot read.

    Attributes:
        path: of the znode.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} cannot be read: {reason}")
        self.path = path


class TermLostError(ClusterError):
    """This node leads no more: the term that was asked about is over.

    Attributes:
        epoch: of that term.
        reason: a word of ``term.Loss``, as text.
    """

    def __init__(self, epoch: int, reason: str) -> None:
        super().__init__(f"the term of epoch {epoch} is over: {reason}")
        self.epoch = epoch
        self.reason = reason


class PositionTrimmedError(ClusterError):
    """The log no longer reaches back to the position that was to be kept."""
