"""The process as gRPC services see it: state, settings, logs; which settings it takes over at SIGHUP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from msgspec import structs

from herdpy_server.config import RELOADABLE, ServerConfig
from herdpy_server.config.fields import all_settings, toml
from herdpy_server.service import Reloaded, ShownSetting

if TYPE_CHECKING:
    from herdpy_server.process.logs import Logs


class Status(Protocol):
    """The state of the process (``http.Status``)."""

    @property
    def phase(self) -> Enum:
        """Where it is in its life."""

    @property
    def is_ready(self) -> bool:
        """Whether clients should be sent here."""

    @property
    def uptime_s(self) -> float:
        """Since it began to start."""

    def problems(self) -> dict[str, str]:
        """By the name of its check what is wrong now."""


class ProcessNode:
    """What a front end may know of the process, and ask of it (``service.Node``).

    Args:
        config: the configuration that holds now.
        reload: takes over another one.
    """

    def __init__(
        self,
        version: str,
        status: Status,
        logs: Logs,
        config: Callable[[], ServerConfig],
        reload: Callable[[], Reloaded],
    ) -> None:
        self.version = version
        self.reload = reload
        self._status = status
        self._logs = logs
        self._config = config

    @property
    def phase(self) -> str:
        """See ``service.Node``."""
        return str(self._status.phase.value)

    @property
    def is_ready(self) -> bool:
        """See ``service.Node``."""
        return self._status.is_ready

    @property
    def uptime_s(self) -> float:
        """See ``service.Node``."""
        return self._status.uptime_s

    def problems(self) -> Mapping[str, str]:
        """See ``service.Node``."""
        return self._status.problems()

    def settings(self) -> Sequence[ShownSetting]:
        """See ``service.Node``. There are no secrets in a configuration."""
        config = self._config()
        return [
            ShownSetting(
                one.key,
                toml(getattr(getattr(config, one.section), one.name), one),
                toml(one.default, one),
                one.description,
                one.key in RELOADABLE,
            )
            for one in all_settings().values()
        ]

    def log_levels(self) -> tuple[str, Mapping[str, str]]:
        """See ``service.Node``."""
        return self._logs.levels

    def set_log_levels(self, level: str, levels: Mapping[str, str]) -> None:
        """See ``service.Node``."""
        self._logs.set_levels(level, levels)


def changed(old: ServerConfig, new: ServerConfig) -> tuple[list[str], list[str]]:
    """Full names of the settings that differ: those to be taken over, and those that need another start."""
    taken: list[str] = []
    left: list[str] = []
    for section in structs.fields(ServerConfig):
        before, after = getattr(old, section.name), getattr(new, section.name)
        for field in structs.fields(type(before)):
            if getattr(before, field.name) != getattr(after, field.name):
                key = f"{section.name}.{field.name}"
                (taken if key in RELOADABLE else left).append(key)
    return taken, left


def taken_over(old: ServerConfig, new: ServerConfig) -> ServerConfig:
    """The configuration that holds after a reload: the old one with what can be taken over of the new one."""
    sections = {}
    for section in structs.fields(ServerConfig):
        before, after = getattr(old, section.name), getattr(new, section.name)
        fresh = {
            field.name: getattr(after, field.name)
            for field in structs.fields(type(before))
            if f"{section.name}.{field.name}" in RELOADABLE
        }
        sections[section.name] = structs.replace(before, **fresh)
    return structs.replace(old, **sections)
