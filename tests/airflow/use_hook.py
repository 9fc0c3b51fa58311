"""Use the hook, the operator and the trigger in Airflow's environment; test_airflow_page.py starts this.

    python use_hook.py URL-OF-THE-DATABASE INTERPRETER-WITH-SPARK

The connection is $AIRFLOW_CONN_HERDPY_DEFAULT. What is wrong ends the program.
"""

from __future__ import annotations

import asyncio
import datetime
import sys
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from airflow.sdk.exceptions import AirflowException, AirflowFailException

import herdpy
from herdpy.log.lsn import LSN
from herdpy_airflow.hooks import HerdPyHook
from herdpy_airflow.operators import HerdPySparkOperator
from herdpy_airflow.sensors import HerdPyPositionSensor
from herdpy_airflow.triggers import HerdPyPositionTrigger

TABLES = ('public."odd name"', 'other."odd name"')
COLUMNS = ["id", "a b", 'quo"te', "user", "data", "at"]


def rows(hook: HerdPyHook, table: str) -> None:
    """insert_rows: values as they are, names that need quotes, replaced by key."""
    at = datetime.datetime(2026, 3, 1, 8, tzinfo=datetime.timezone(datetime.timedelta(hours=5, minutes=45)))
    first = [(1, "x", [1, None], None, b"\x00\xff", at), (2, "", [], "u", None, None)]
    hook.insert_rows(table, first, COLUMNS)
    hook.insert_rows(table, [(2, "y", [2], "v", b"", at)], COLUMNS, replace=True, replace_index="id")
    hook.insert_rows(table, [(2, "z", [2], "w", b"", at)], COLUMNS, replace=True)
    assert hook.get_records(f"SELECT * FROM {table} ORDER BY id") == [first[0], (2, "z", [2], "w", b"", at)]
    assert hook.get_first(f'SELECT "a b" FROM {table} WHERE id = %s', [1]) == ("x",)
    with pytest.raises(herdpy.IntegrityError):
        hook.insert_rows(table, first, COLUMNS)


def the_hook() -> None:
    """All that the page promises of it."""
    hook = HerdPyHook()
    assert hook.test_connection() == (True, "Connection successfully tested")
    hook.run("CREATE SCHEMA other")
    assert hook.commit_position is not None
    for table in TABLES:
        hook.run(
            f'CREATE TABLE {table} (id INT PRIMARY KEY, "a b" TEXT, "quo""te" INT[], "user" TEXT, data BYTEA,'
            " at TIMESTAMPTZ)"
        )
        rows(hook, table)
    with hook.get_sqlalchemy_engine().connect() as connection:
        assert connection.execute(sa.text('SELECT count(*) FROM "odd name"')).scalar_one() == 2
    assert [one["name"] for one in hook.get_table_schema("odd name")] == COLUMNS
    with pytest.raises(herdpy.DatabaseError):
        hook.run(['DELETE FROM public."odd name"', "SELECT 1/0"])
    assert hook.get_first('SELECT count(*) FROM "odd name"') == (2,)  # the whole run was rolled back


def what_fails(url: str, python: str) -> None:
    """Errors come as errors, and those that no retry mends say so."""
    context = {
        "ti": SimpleNamespace(task_id="t", dag_id="d", run_id="r", map_index=-1, xcom_push=lambda **_: None)
    }
    for wrong in (["--no-such-argument"], ["--url", url]):
        with pytest.raises(AirflowFailException):
            HerdPySparkOperator(task_id="t", job="export", arguments=wrong, python=python).execute(context)
    with pytest.raises(AirflowException):
        HerdPyPositionSensor(task_id="p", position="nowhere").poke({})
    with pytest.raises(ValueError, match="reached_by"):
        HerdPyPositionSensor(task_id="q", position="1:1", reached_by="the moon")
    with pytest.raises(ValueError, match="export"):
        HerdPyPositionSensor(task_id="q", position="1:1", export="/e")


async def the_trigger(url: str) -> None:
    """It waits for what is not there yet, and fires when it is; its arguments make another like it."""
    with herdpy.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE later (id INT PRIMARY KEY)")
        here = LSN.parse(connection.info.commit_position)
        behind = str(LSN(here.ledger_id, here.entry_id + 1))
        name, arguments = HerdPyPositionTrigger(
            position=behind,
            reached_by="replicas",
            export=None,
            herdpy_conn_id="herdpy_default",
            poll_interval_s=0.1,
        ).serialize()
        assert name == "herdpy_airflow.triggers.HerdPyPositionTrigger"
        waiting = asyncio.create_task(anext(HerdPyPositionTrigger(**arguments).run()))
        done, _ = await asyncio.wait([waiting], timeout=1)
        assert not done
        connection.execute("INSERT INTO later VALUES (1), (2)")
        event = await asyncio.wait_for(waiting, 60)
        assert event.payload == {"status": "reached"}
    failed = HerdPyPositionTrigger(**{**arguments, "position": "nowhere"})
    assert (await anext(failed.run())).payload["status"] == "failed"


def main(url: str, python: str) -> None:
    """Everything."""
    the_hook()
    what_fails(url, python)
    asyncio.run(the_trigger(url))
    print("DONE")


if __name__ == "__main__":
    main(*sys.argv[1:])
