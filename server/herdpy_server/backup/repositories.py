"""Which key a server opens a repository with. Above ``herdpy.backup.repository``."""

from __future__ import annotations

from herdpy.backup.repository import Repository


def repository_for(url: str, key: bytes | None, *, is_own: bool) -> Repository:
    """The repository of a server, made where there is none.

    Args:
        key: of all repositories that are encrypted, and of new ones.
        is_own: it is the one that is configured beside the key: it has to be encrypted.

    Raises as ``Repository.create``.
    """
    if not is_own and key is not None and Repository.is_encrypted(url) is False:
        key = None
    return Repository.create(url, key)
