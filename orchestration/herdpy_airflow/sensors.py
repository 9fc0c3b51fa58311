"""The sensor of positions: a task that waits until a position of the log has been reached."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from herdpy.log.lsn import LSN
from herdpy_airflow import positions
from herdpy_airflow.hooks import HerdPyHook
from herdpy_airflow.triggers import HerdPyPositionTrigger

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context


class HerdPyPositionSensor(BaseSensorOperator):
    """Wait until what was committed at a position of the log has arrived.

    Args:
        position: where in the log, as ``ledger:entry``: what ``herdpy.commit_position()`` or a report says.
        reached_by: ``server`` (the one that the connection leads to), ``replicas`` (all of the tablespace),
            ``snapshot`` (the newest one that is published) or ``export`` (the newest generation of one).
        export: the directory of the export, on the worker, or on the triggerer where the task is deferred.
        deferrable: wait in the triggerer, which takes no worker's slot.
    """

    template_fields: Sequence[str] = ("position", "export", "herdpy_conn_id")
    ui_color = "#d8e4f0"

    def __init__(
        self,
        *,
        position: str,
        reached_by: str = "server",
        export: str | None = None,
        herdpy_conn_id: str = HerdPyHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if reached_by not in positions.PLACES:
            raise ValueError(f"reached_by is one of {', '.join(positions.PLACES)}, not {reached_by!r}")
        if (export is not None) != (reached_by == positions.EXPORT):
            raise ValueError("export goes with reached_by='export', and with nothing else")
        self.position = position
        self.reached_by = reached_by
        self.export = export
        self.herdpy_conn_id = herdpy_conn_id
        self.deferrable = deferrable

    def poke(self, context: Context) -> bool:
        """Whether it has been reached by now."""
        return positions.reached(self._found(), self._position())

    def execute(self, context: Context) -> Any:
        """Wait here, or hand the waiting to the triggerer unless it has been reached already."""
        if not self.deferrable:
            return super().execute(context)
        if not self.poke(context):
            trigger = HerdPyPositionTrigger(
                position=self.position,
                reached_by=self.reached_by,
                export=self.export,
                herdpy_conn_id=self.herdpy_conn_id,
                poll_interval_s=self.poke_interval,
            )
            self.defer(trigger=trigger, method_name="resume", timeout=timedelta(seconds=self.timeout))
        return None

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """What the trigger found. AirflowException where it could not look."""
        if event["status"] != "reached":
            raise AirflowException(event["message"])
        self.log.info("%s has been reached", self.position)

    def _found(self) -> list[str | None]:
        if self.export is not None:
            return list(positions.exported(self.export))
        rows = HerdPyHook(herdpy_conn_id=self.herdpy_conn_id, log_sql=False).get_records(
            positions.QUERIES[self.reached_by]
        )
        return [row[0] for row in rows]

    def _position(self) -> LSN:
        try:
            return LSN.parse(self.position)
        except ValueError as error:
            raise AirflowFailException(str(error)) from None
