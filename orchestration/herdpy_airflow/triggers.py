"""The trigger of the deferred sensor: looks at intervals, in the triggerer's loop, and never blocks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

import herdpy.aio
from herdpy.log.lsn import LSN
from herdpy_airflow import positions
from herdpy_airflow.hooks import HerdPyHook, address_of


class HerdPyPositionTrigger(BaseTrigger):
    """Fires when a position has been reached, or when looking fails.

    It carries no password, only the connection's id: Airflow keeps its arguments in plain text.

    Args:
        position: where in the log, as ``ledger:entry``.
        reached_by: as the sensor has it.
        export: the directory of an export, or None.
        herdpy_conn_id: the Airflow connection.
        poll_interval_s: seconds between two looks.
    """

    def __init__(
        self,
        *,
        position: str,
        reached_by: str,
        export: str | None,
        herdpy_conn_id: str,
        poll_interval_s: float,
    ) -> None:
        super().__init__()
        self.position = position
        self.reached_by = reached_by
        self.export = export
        self.herdpy_conn_id = herdpy_conn_id
        self.poll_interval_s = poll_interval_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and what makes another one like this."""
        names = ("position", "reached_by", "export", "herdpy_conn_id", "poll_interval_s")
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: ``{"status": "reached"}``, or ``{"status": "failed", "message": ...}``."""
        try:
            position = LSN.parse(self.position)
            while not positions.reached(await self._found(), position):
                await asyncio.sleep(self.poll_interval_s)
        except Exception as error:  # noqa: BLE001 - the trigger's edge: the task fails with it, and is tried again
            yield TriggerEvent({"status": "failed", "message": f"{type(error).__name__}: {error}"})
        else:
            yield TriggerEvent({"status": "reached"})

    async def _found(self) -> list[str | None]:
        if self.export is not None:
            return list(await asyncio.to_thread(positions.exported, self.export))
        there = address_of(await HerdPyHook.aget_connection(self.herdpy_conn_id))
        role: dict[str, Any] = dict(there.role)
        async with herdpy.aio.connect(there.driver_url, autocommit=True, **role) as connection:
            cursor = await connection.execute(positions.QUERIES[self.reached_by])
            return [row[0] for row in await cursor.fetchall()]
