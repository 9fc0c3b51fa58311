"""What a database in a directory has beside store and log. Below ``making``; nothing heavy is imported."""

from __future__ import annotations

from pathlib import Path

_USERS = "users.json"


def small_files(path: Path) -> dict[str, bytes]:
    """The small files of a directory, by their names: the roles of a server alone. OSError."""
    users = path / _USERS
    return {_USERS: users.read_bytes()} if users.is_file() else {}
