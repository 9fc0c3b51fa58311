"""What can go wrong with published snapshots. The lowest module of the package."""

from __future__ import annotations

from herdpy.log.errors import LogError


class PublishedSnapshotError(LogError):
    """A place that cannot be listed, read or written; the message names it."""


class DamagedSnapshotError(PublishedSnapshotError):
    """A file of a snapshot is not what was written, or is gone.

    Attributes:
        file: its URL.
        reason: what is wrong, for people.
    """

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"the published snapshot is damaged: {file}: {reason}")
        self.file = file
        self.reason = reason

    def __reduce__(self) -> tuple[type[DamagedSnapshotError], tuple[str, str]]:
        return type(self), (self.file, self.reason)
