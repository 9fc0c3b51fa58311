"""Run a DAG in Airflow's environment; test_airflow_page.py starts this and reads what it prints.

    python run_dag.py DAGFILE DAG-ID TASK-ID

Tasks run in this process, one after another (`dag.test()`). Then the named task is tried once more, as a
scheduler does when the process that ran it died before it could say that it was done.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

from airflow.dag_processing.dagbag import DagBag
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session


def main(file: str, name: str, again: str) -> None:
    """Parse the file as Airflow does, run the DAG, print states and results."""
    bag = DagBag(file)
    if bag.import_errors:
        raise SystemExit(str(bag.import_errors))
    run = bag.dags[name].test()
    with create_session() as session:
        tasks = run.get_task_instances(session=session)
        states = {one.task_id: str(one.state) for one in tasks}
        kept = session.query(XComModel).filter(XComModel.dag_id == name)
        results = {f"{one.task_id}.{one.key}": XComModel.deserialize_value(one) for one in kept}
    task = bag.dags[name].get_task(again)
    same = SimpleNamespace(task_id=again, dag_id=name, run_id=run.run_id, map_index=-1)
    repeated = task.execute({"ti": same})
    found = {"run": str(run.state), "states": states, "results": results, "again": repeated}
    print("OUTCOME " + json.dumps(found, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
