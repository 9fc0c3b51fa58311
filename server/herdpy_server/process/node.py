"""The process as its gRPC door sees it: state, settings, logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from herdpy_server.config import RELOADABLE, ServerConfig
from herdpy_server.config.fields import all_settings
from herdpy_server.config.render import toml
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
    """What a door may know of the process, and ask of it (``service.Node``).

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
