"""The settings of the archive and of backups out of a server's configuration."""

from __future__ import annotations

from msgspec import structs

from herdpy.backup.policy import KeepPolicy
from herdpy_server.backup.archiver import ArchiveSettings
from herdpy_server.config import ServerConfig
from herdpy_server.serving.backup_schedule import BackupScheduleSettings
from herdpy_server.serving.backups import BackupDefaults

_NAMES = tuple(ArchiveSettings.__dataclass_fields__)


def archive_settings(config: ServerConfig) -> ArchiveSettings:
    """What the section [backup] says of the archive."""
    backup = structs.asdict(config.backup)
    return ArchiveSettings(**{name: backup[name] for name in _NAMES})


def backup_defaults(config: ServerConfig) -> BackupDefaults:
    """What the section [backup] says of how backups are made."""
    given = config.backup
    return BackupDefaults(
        url=given.url,
        key_file=given.key_file,
        jobs=given.jobs,
        rate_bytes=given.rate_bytes,
        niceness=given.niceness,
    )


def backup_schedule(config: ServerConfig) -> BackupScheduleSettings:
    """What the section [backup] says of when backups are made, and which stay."""
    given = config.backup
    return BackupScheduleSettings(
        making=backup_defaults(config),
        full_interval_s=given.full_interval_s,
        incremental_interval_s=given.incremental_interval_s,
        keep=KeepPolicy(given.keep_last, given.keep_daily, given.keep_weekly, given.keep_monthly),
    )
