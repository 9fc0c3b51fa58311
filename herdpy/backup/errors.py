"""What can be wrong with a repository of backups. Below all other modules of ``backup``."""

from __future__ import annotations

from typing import Literal

Fault = Literal["missing", "damaged", "foreign", "misplaced"]
"""What is wrong with a file: it is gone; it is not what was written; it is another repository's; it is
another one of this repository."""


class BackupError(Exception):
    """A backup or a restore cannot go on; the message says why.

    Attributes:
        hint: what to do, or None.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class RepositoryError(BackupError):
    """A repository that is not there, is another program's or a newer version's, or refuses the key."""


class DamagedPartError(BackupError):
    """A file of a repository is not what was written there, or is gone.

    Attributes:
        file: its name in the repository.
        reason: what is wrong, for people.
        fault: what it is.
    """

    def __init__(self, file: str, reason: str, fault: Fault = "damaged") -> None:
        super().__init__(f"the repository is damaged: {file}: {reason}")
        self.file = file
        self.reason = reason
        self.fault = fault


class MissingPartError(DamagedPartError):
    """A file that is not there."""

    def __init__(self, file: str) -> None:
        super().__init__(file, "it is not there", "missing")


class MissingLogError(BackupError):
    """Entries of the log that a restore needs are not in the repository."""
