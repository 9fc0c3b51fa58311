"""``herdpy admin``: each call of the service Admin from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from herdpy.cli.app import app
from herdpy.rpc import snapshots_pb2
from tests.service.calls import TIMEOUT_S, loads, snapshots
from tests.service.test_loads import batch, publish, stage, table


@pytest.fixture
def admin(server: Any) -> Callable[..., Any]:
    """``admin(command, *arguments, code=0)``: what the command wrote; its JSON where ``--json`` is given."""

    def run(command: str, *arguments: object, code: int = 0) -> Any:
        place = f"grpc://127.0.0.1:{server.grpc_port}"
        done = CliRunner().invoke(app, ["admin", command, place, *map(str, arguments)])
        assert done.exit_code == code, done.output
        return json.loads(done.stdout) if "--json" in arguments else done.output

    return run


def test_every_list_is_shown_as_a_table_and_as_json(server, admin):
    node = admin("node", "--json")
    assert (node["pid"], node["phase"]) == (str(server.pid), "serving")
    assert str(server.data) in "".join(admin("node").split())
    (tablespace,) = admin("tablespaces", "--json")
    assert (tablespace["name"], tablespace["role"]) == ("default", "leader")
    assert "default" in admin("tablespaces")
    assert any(one["name"] == "grpc.port" for one in admin("settings", "--json"))


def test_a_checkpoint_deletes_the_ledgers_before_it(server, admin):
    with server.connect() as connection:
        connection.execute("CREATE TABLE checkpointed (id INT PRIMARY KEY)")
    (tablespace,) = admin("tablespaces", "--json")
    done = admin("checkpoint", "--json")
    assert done["durable"] == tablespace["applied"]
    left = {one["ledger_id"] for one in admin("ledgers", "--json")}
    assert done["deleted_ledger_ids"]
    assert left.isdisjoint(done["deleted_ledger_ids"])


def test_a_session_is_shown_cancelled_and_ended(server, admin):
    connection = server.connect(application_name="of the command")
    pid = connection.info.backend_pid
    assert any(one["pid"] == str(pid) for one in admin("sessions", "--json"))
    admin("cancel", pid)  # runs nothing: stays
    assert connection.execute("SELECT 1").fetchone() == (1,)
    admin("terminate", pid)
    with pytest.raises(psycopg.OperationalError, match="administrator command"):
        connection.execute("SELECT 1")
    assert "no such session" in admin("terminate", pid, code=1)


def test_log_levels_are_set_until_a_reload(admin):
    before = admin("log-levels", "--json")
    changed = admin("log-levels", "warning", "herdpy.checkpointer=debug", "--json")
    assert changed == {"level": "warning", "levels": {"herdpy.checkpointer": "debug"}}
    admin("log-levels", "warning", "info", code=2)
    assert admin("reload", "--json")["problems"] == []
    assert admin("log-levels", "--json") == before


def test_snapshots_that_are_kept_for_downloads_are_listed(channel, admin):
    stub = snapshots(channel)
    made = stub.Begin(snapshots_pb2.BeginSnapshotRequest(lease_s=600), timeout=TIMEOUT_S)
    (listed,) = [one for one in admin("snapshots", "--json") if one["id"] == made.id]
    assert listed["size_bytes"] == str(made.size_bytes)
    assert 0 < listed["lease"]["remaining_s"] <= 600
    assert made.id in "".join(admin("snapshots").split())
    stub.Release(snapshots_pb2.SnapshotId(id=made.id), timeout=TIMEOUT_S)
    assert made.id not in [one["id"] for one in admin("snapshots", "--json")]


def test_a_load_is_shown_once_it_is_published(server, channel, admin):
    name, stub = table(server, "shown"), loads(channel)
    part = stage(stub, "shown", batch([1, 2]))
    assert "was not published" in admin("load", "shown", code=1)
    outcome = publish(stub, "shown", name, part)
    shown = admin("load", "shown", "--json")
    assert (shown["load_id"], shown["inserted"]) == ("shown", "2")
    assert shown["lsn"]["entry_id"] == str(outcome.lsn.entry_id)
    assert f"{outcome.lsn.ledger_id}:{outcome.lsn.entry_id}" in admin("load", "shown")


def test_a_server_that_is_not_there_is_an_error():
    done = CliRunner().invoke(app, ["admin", "node", "grpc://127.0.0.1:1"])
    assert done.exit_code == 1
    assert "UNAVAILABLE" in done.output or "connect" in done.output
