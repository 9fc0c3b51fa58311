"""The operator for jobs of the data pipeline. SQL has common.sql's SQLExecuteQueryOperator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from herdpy_airflow.addresses import AddressError
from herdpy_airflow.hooks import HerdPyHook
from herdpy_airflow.job_process import JobProcess, job_arguments, job_command, run_name

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

_WRONG_USAGE = 2


class HerdPySparkOperator(BaseOperator):
    """Run a job of ``herdpy spark``: export, bulk-load, changes, verify, archive ...

    A load or export is named after the task instance, so each try is the same run: what a try has done that
    died before it could say so is found by the next, and not done again. The report is the task's result
    (XCom); when the job fails it is there under ``report``.

    Args:
        job: the job's name.
        arguments: its arguments, as on the command line, without --url, --user, --report and the run's name.
        herdpy_conn_id: the Airflow connection. Its password goes by the environment.
        run_id: another name for the run, to have it done anew; None: the task instance's.
        python: an interpreter that has ``herdpydb[spark]``; None: the worker's own.
        submit: ``spark-submit`` and its options, to run on a cluster; empty: a Spark of the worker's machine.
        env: more environment variables.
    """

    template_fields: Sequence[str] = ("job", "arguments", "herdpy_conn_id", "run_id", "submit", "env")
    ui_color = "#e8f0d8"

    def __init__(
        self,
        *,
        job: str,
        arguments: Sequence[str],
        herdpy_conn_id: str = HerdPyHook.default_conn_name,
        run_id: str | None = None,
        python: str | None = None,
        submit: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.arguments = arguments
        self.herdpy_conn_id = herdpy_conn_id
        self.run_id = run_id
        self.python = python
        self.submit = submit
        self.env = env
        self._process = JobProcess()

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the job; its report.

        Raises:
            AirflowFailException: the arguments or the connection are wrong; it is not tried again.
            AirflowException: it failed, or found something to be wrong.
        """
        task = context["ti"]
        name = self.run_id or run_name(task.task_id, task.dag_id, task.run_id, task.map_index)
        try:
            there = HerdPyHook(herdpy_conn_id=self.herdpy_conn_id).address
            job_arguments(self.job, there, self.arguments, name, Path("-"))
        except (AddressError, ValueError) as error:
            raise AirflowFailException(str(error)) from None

        def command(report: Path) -> list[str]:
            rest = job_arguments(self.job, there, self.arguments, name, report)
            return job_command(self.job, rest, self.python, self.submit)

        outcome = self._process.run(command, there.password, self.env or {}, self.log.info)
        if outcome.code == 0:
            return outcome.report
        task.xcom_push(key="report", value=outcome.report)
        if outcome.code == _WRONG_USAGE:
            raise AirflowFailException(f"herdpy spark {self.job}: {outcome.message}")
        raise AirflowException(f"herdpy spark {self.job}: {outcome.message}")

    def on_kill(self) -> None:
        """End the job with the task."""
        self._process.stop()
