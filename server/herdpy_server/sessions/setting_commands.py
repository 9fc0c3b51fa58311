"""SET, RESET and SHOW. Beside ``control``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdpy_server.sessions.result import Result
from herdpy_server.sessions.transaction_commands import modes_of
from herdpy_sql.plan import ResetSetting, SetSetting, ShowSetting

if TYPE_CHECKING:
    from herdpy_server.sessions.block import TransactionBlock


async def set_setting(session: TransactionBlock, plan: SetSetting) -> Result:
    """SET, SET LOCAL, SET TRANSACTION and SET SESSION CHARACTERISTICS. SqlError as ``Settings.set``."""
    if plan.name == "session characteristics":
        for mode, chosen_value in modes_of((plan.value or "").split(", ")):
            session.settings.set(f"default_{mode}", chosen_value)
        return Result("SET", -1)
    if not plan.local:
        session.set_lasting(plan.name, plan.value)
        return Result("SET", -1)
    if session.transaction is None and not session.autocommit:
        session.begin()
    if not session.in_block:
        what = "SET TRANSACTION" if plan.name == "transaction" else "SET LOCAL"
        session.notice("WARNING", "25P01", f"{what} can only be used in transaction blocks")
    chosen: list[tuple[str, str | None]] = [(plan.name, plan.value)]
    if plan.name == "transaction":
        chosen = [*modes_of((plan.value or "").split(", "))]
    for name, value in chosen:
        if session.transaction is not None:
            session.set_local(name, value)
        else:
            session.settings.checked(name, value)
    return Result("SET", -1)


async def reset_setting(session: TransactionBlock, plan: ResetSetting) -> Result:
    """RESET. SqlError as ``Settings.set``."""
    if plan.name == "all":
        session.settings.reset()
    else:
        session.set_lasting(plan.name, None)
    return Result("RESET", -1)


async def show_setting(session: TransactionBlock, plan: ShowSetting) -> Result:
    """SHOW. SqlError 42704."""
    rows: list[tuple[Any, ...]]
    if plan.name == "all":
        rows = [(setting.name, value, setting.description) for setting, value in session.settings]
    else:
        rows = [(session.settings[plan.name],)]
    return Result("SHOW", len(rows), plan.columns, rows)
