"""Plans: a parsed statement bound to a catalog, with the cheapest way to its rows chosen.

    plan = prepare(statement, catalog)          once for a text and a catalog version
    plan.run(view, params, clock)               as often as wanted

Data passes so: ``prepare`` tells statements apart; ``scope`` resolves names; ``access`` reads the
conditions for a key or index to use; ``select``, ``insert``, ``change`` and ``create_table`` build the
plans of ``execute``, or leave a query to ``columnar``. What the session itself carries out (transactions,
settings, prepared statements, cursors) are the small classes of ``commands``.
"""

from __future__ import annotations

from herdpy_sql.execute.base import OutputColumn, Plan, PlanOutcome, SourceChanged
from herdpy_sql.plan.commands import (
    Begin,
    ChangeRights,
    ChangeRoles,
    ChangeTablespaces,
    Checkpoint,
    CheckTablespace,
    CloseCursor,
    Commit,
    CreateSchemaFor,
    Deallocate,
    DeclareCursor,
    Discard,
    Execute,
    Explain,
    Fetch,
    Listen,
    Prepare,
    ReleaseSavepoint,
    RequestFunction,
    ResetSetting,
    Rollback,
    RollbackToSavepoint,
    Savepoint,
    SetConstraints,
    SetSetting,
    ShowSetting,
    UndropTable,
    Vacuum,
)
from herdpy_sql.plan.copying import CopyFrom, CopyParameters, CopyTo
from herdpy_sql.plan.prepare import prepare
from herdpy_sql.plan.settings import Engine

__all__ = [
    "Begin",
    "ChangeRights",
    "ChangeRoles",
    "ChangeTablespaces",
    "CheckTablespace",
    "Checkpoint",
    "CloseCursor",
    "Commit",
    "CopyFrom",
    "CopyParameters",
    "CopyTo",
    "CreateSchemaFor",
    "Deallocate",
    "DeclareCursor",
    "Discard",
    "Engine",
    "Execute",
    "Explain",
    "Fetch",
    "Listen",
    "OutputColumn",
    "Plan",
    "PlanOutcome",
    "Prepare",
    "ReleaseSavepoint",
    "RequestFunction",
    "ResetSetting",
    "Rollback",
    "RollbackToSavepoint",
    "Savepoint",
    "SetConstraints",
    "SetSetting",
    "ShowSetting",
    "SourceChanged",
    "UndropTable",
    "Vacuum",
    "prepare",
]
