"""What a gRPC door asks of the process that it is in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """A setting with its value and default as TOML writes them."""

    name: str
    value: str
    default: str
    description: str
    reloadable: bool


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What reading the configuration again led to: full names of settings, or what is wrong with it."""

    taken_over: Sequence[str] = ()
    need_restart: Sequence[str] = ()
    problems: Sequence[str] = ()


class NodeControl(Protocol):
    """The process: its state, its configuration, its logs. All of it is for the loop's thread."""

    version: str

    @property
    def phase(self) -> str:
        """ "starting", "serving" or "stopping"."""

    @property
    def is_ready(self) -> bool:
        """Whether clients should be sent here."""

    @property
    def uptime_s(self) -> float:
        """Since the process began to start."""

    def problems(self) -> Mapping[str, str]:
        """By the name of its check what is wrong now."""

    def settings(self) -> Sequence[ShownSetting]:
        """Every setting, with the value that holds."""

    def log_levels(self) -> tuple[str, Mapping[str, str]]:
        """The level of all logs, and of single ones."""

    def set_log_levels(self, level: str, levels: Mapping[str, str]) -> None:
        """Change them until the next reload."""

    def reload(self) -> Reloaded:
        """Read the configuration again."""
