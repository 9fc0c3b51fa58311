"""The archive's settings out of a server's configuration."""

from __future__ import annotations

from msgspec import structs

from herdpy_server.backup.archiver import ArchiveSettings
from herdpy_server.config import ServerConfig

_NAMES = tuple(ArchiveSettings.__dataclass_fields__)


def archive_settings(config: ServerConfig) -> ArchiveSettings:
    """What the section [backup] says of the archive."""
    backup = structs.asdict(config.backup)
    return ArchiveSettings(**{name: backup[name] for name in _NAMES})
