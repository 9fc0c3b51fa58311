"""What was reported of each change, and whether that can be true of what is there.

A change has a probe: a query that gives 1 where the change is there, and 0 where it is not. Whatever
else it is, the change is there by half.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import herdpy

CLEAR = frozenset({"57P03", "08007", "53100", "53200", "58030", "25006", "57P01", "40001", "57014"})
"""What a database may refuse with, that has met something it cannot get over."""


Probe = Callable[[herdpy.Connection], float]


@dataclass
class Change:
    """One that was asked for: ``outcome`` is what was reported of it, in the driver's words."""

    name: str
    probe: Probe
    outcome: str = "not asked"
    told: str = ""
    seen: float | None = None


@dataclass
class Judge:
    """Compares what is there with what was reported; what does not fit is in ``wrong``.

    Attributes:
        is_defect: the error is one that nothing raises but a defect, so it is reported as XX000.
    """

    changes: list[Change] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    is_defect: bool = False

    def ask(self, name: str, probe: Probe, work: Callable[[], object]) -> None:
        """Have a change made, and record what is reported of it."""
        change = Change(name, probe)
        self.changes.append(change)
        change.outcome = "unknown"  # whatever interrupts it
        try:
            work()
            change.outcome = "done"
        except herdpy.Error as error:
            change.outcome, change.told = error.outcome, f"{error.sqlstate} {error}"
            self._clear(f"{name} was refused", error)
            if error.sqlstate == "08007" and error.outcome != "unknown":
                self.wrong.append(f"{name}: 08007 with outcome {error.outcome}")
        except BaseException as error:
            change.told = repr(error)
            raise

    def _clear(self, what: str, error: herdpy.Error) -> None:
        if error.sqlstate not in CLEAR and not (self.is_defect and error.sqlstate == "XX000"):
            self.wrong.append(f"{what} with {error.sqlstate}: {error}")

    def look(self, connection: herdpy.Connection, *, works: bool | None) -> None:
        """Hold all against what the connection shows.

        Args:
            works: the database goes on, so that nothing may change any more that was seen; None: it was
                opened again, and shows what will stay.
        """
        for change in self.changes:
            try:
                found = change.probe(connection)
            except herdpy.Error as error:
                if works is not False:
                    self.wrong.append(f"{change.name} cannot be looked at: {error.sqlstate} {error}")
                else:
                    self._clear(f"reading {change.name} was refused", error)
                continue
            self._hold(change, found, "reopened" if works is None else "open")
            if change.seen is not None and change.seen != found:
                self.wrong.append(f"{change.name} was {change.seen} and is {found} now")
            if works is not False or found:
                change.seen = found

    def _hold(self, change: Change, found: float, when: str) -> None:
        if found not in (0, 1):
            self.wrong.append(f"{when}: {change.name} is there by half: {found}")
        elif change.outcome == "done" and not found:
            self.wrong.append(f"{when}: {change.name} was acknowledged, and is lost")
        elif change.outcome in ("not done", "not asked") and found:
            self.wrong.append(f"{when}: {change.name} was reported as not done ({change.told}), and is there")
