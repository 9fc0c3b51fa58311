"""What `herdpy doctor` says of one thing that it looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How bad it is; a failure ends the command with 1."""

    OK = "ok"
    ADVICE = "advice"
    WARNING = "warning"
    FAILURE = "failure"


_ORDER = list(Level)


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One line.

    Attributes:
        check: what was looked at, as ``machine.sync``.
        measured: what was found, with its unit.
        advice: what to do; empty where nothing is to be done.
        page: where it is explained, as ``docs/doctor.md#sync``.
    """

    check: str
    level: Level
    measured: str
    advice: str = ""

    @property
    def page(self) -> str:
        """The section of the page about this check."""
        return f"docs/doctor.md#{self.check.replace('.', '')}"


def ok(check: str, measured: str) -> DoctorFinding:
    """Nothing is to be done."""
    return DoctorFinding(check, Level.OK, measured)


def advice(check: str, measured: str, what: str) -> DoctorFinding:
    """It works, and would be better otherwise."""
    return DoctorFinding(check, Level.ADVICE, measured, what)


def warning(check: str, measured: str, what: str) -> DoctorFinding:
    """It works now, and may cost data or availability."""
    return DoctorFinding(check, Level.WARNING, measured, what)


def failure(check: str, measured: str, what: str) -> DoctorFinding:
    """It does not work, or loses data."""
    return DoctorFinding(check, Level.FAILURE, measured, what)


def worst(findings: Iterable[DoctorFinding]) -> Level:
    """The worst level among them."""
    return max((one.level for one in findings), key=_ORDER.index, default=Level.OK)
