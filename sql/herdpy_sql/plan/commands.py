"""What the session itself carries out: transactions, settings, checkpoints, explanations.

They are plans so that preparing any text gives one, but ``run`` is not called on them; the session
looks at their class.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn, Plan
from herdpy_sql.execute.measured import measured
from herdpy_sql.plan.analyze import AnalyzePlan
from herdpy_sql.plan.columnar import ColumnarSelect
from herdpy_sql.types import JSON, TEXT

if TYPE_CHECKING:
    from herdpy_sql.parse import Command
    from herdpy_sql.types import SqlType


SHOWN_NAMES = {"datestyle": "DateStyle", "intervalstyle": "IntervalStyle", "timezone": "TimeZone"}
"""Settings whose names are shown with capitals."""


@dataclass(frozen=True)
class Begin(Plan):
    """BEGIN or START TRANSACTION. ``modes`` in capitals, as they were said."""

    modes: tuple[str, ...] = ()
    tag: str = "BEGIN"
    read_only = True

    @property
    def brief(self) -> bool:  # type: ignore[override]
        return not self.modes


@dataclass(frozen=True)
class Commit(Plan):
    """COMMIT or END; with ``chain``, the next transaction begins at once."""

    chain: bool = False
    tag = "COMMIT"
    read_only = True

    @property
    def brief(self) -> bool:  # type: ignore[override]
        return not self.chain


@dataclass(frozen=True)
class Rollback(Plan):
    """ROLLBACK or ABORT."""

    chain: bool = False
    tag = "ROLLBACK"
    read_only = True


@dataclass(frozen=True)
class Savepoint(Plan):
    """SAVEPOINT name."""

    name: str
    tag = "SAVEPOINT"
    read_only = True


@dataclass(frozen=True)
class ReleaseSavepoint(Plan):
    """RELEASE name."""

    name: str
    tag = "RELEASE"
    read_only = True


@dataclass(frozen=True)
class RollbackToSavepoint(Plan):
    """ROLLBACK TO name."""

    name: str
    tag = "ROLLBACK"
    read_only = True


@dataclass(frozen=True)
class SetSetting(Plan):
    """SET name = value; ``value`` None is DEFAULT; ``local`` until the transaction ends."""

    name: str
    value: str | None
    local: bool = False
    tag = "SET"
    read_only = True


@dataclass(frozen=True)
class ResetSetting(Plan):
    """RESET name, or "all"."""

    name: str
    tag = "RESET"
    read_only = True


@dataclass(frozen=True)
class ShowSetting(Plan):
    """SHOW name, or "all": one row with one column named after the setting."""

    name: str
    tag = "SHOW"
    read_only = True

    @property
    def columns(self) -> tuple[OutputColumn, ...]:  # type: ignore[override]
        """One text column; of SHOW ALL three."""
        if self.name == "all":
            return tuple(OutputColumn(name, TEXT) for name in ("name", "setting", "description"))
        return (OutputColumn(SHOWN_NAMES.get(self.name, self.name), TEXT),)


@dataclass(frozen=True)
class Checkpoint(Plan):
    """CHECKPOINT."""

    tag = "CHECKPOINT"
    read_only = True


@dataclass(frozen=True)
class Vacuum(Plan):
    """VACUUM: what is in memory goes to the store, and the log that it came from may go. ANALYZE: a look.

    Attributes:
        analyzed: the look at each table, one after the other.
    """

    tag: str
    analyzed: tuple[AnalyzePlan, ...] = ()
    read_only = True

    @property
    def reclaims(self) -> bool:
        """Whether there is anything to be done."""
        return self.tag == "VACUUM"


@dataclass(frozen=True)
class Explain(Plan):
    """EXPLAIN; with ``analyze`` the session runs ``plan`` and adds what it measured."""

    plan: Plan
    analyze: bool = False
    as_json: bool = False
    tag = "EXPLAIN"
    read_only = True

    @property
    def inner(self) -> Plan:
        """The statement explained."""
        return self.plan

    @property
    def param_types(self) -> tuple[SqlType, ...]:  # type: ignore[override]
        """Those of the statement explained."""
        return self.plan.param_types

    @property
    def columns(self) -> tuple[OutputColumn, ...]:  # type: ignore[override]
        """One column, QUERY PLAN."""
        return (OutputColumn("QUERY PLAN", JSON if self.as_json else TEXT),)

    def measured(self) -> Explain:
        """The same of a plan that counts and times its steps while it runs, once."""
        if type(self.plan) is ColumnarSelect:
            from herdpy_sql.columnar.profile import MeasuredColumnar  # loads DuckDB

            return replace(self, plan=MeasuredColumnar(self.plan))
        return replace(self, plan=measured(self.plan))

    def lines(self, measured: dict[str, object] | None = None) -> list[str]:
        """The rows of the answer; ``measured`` is what ANALYZE adds, by name."""
        from herdpy_sql.explain import explain_document, explain_lines

        if self.as_json:
            return [json.dumps([explain_document(self.plan, measured)], indent=2)]
        return explain_lines(self.plan, measured)


def command_plan(command: Command) -> Plan:
    """The plan of a command other than EXPLAIN and the definitions."""
    name, options = command.name, command.options
    if name == "BEGIN":
        return Begin(tuple(options), command.argument or "BEGIN")
    if name == "COMMIT":
        return Commit("CHAIN" in options)
    if name == "ROLLBACK":
        return Rollback("CHAIN" in options)
    if name == "SAVEPOINT":
        return Savepoint(command.argument)
    if name == "RELEASE":
        return ReleaseSavepoint(command.argument)
    if name == "ROLLBACK TO":
        return RollbackToSavepoint(command.argument)
    if name == "SET":
        if command.argument in {"transaction", "session characteristics"}:
            return SetSetting(command.argument, ", ".join(options), local=command.argument == "transaction")
        return SetSetting(command.argument, command.value, "LOCAL" in options)
    if name == "RESET":
        return ResetSetting(command.argument)
    if name == "SHOW":
        return ShowSetting(command.argument)
    if name == "CHECKPOINT":
        return Checkpoint()
    raise SqlError("0A000", f"{name} is not supported")
