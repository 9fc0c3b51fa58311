"""The service Admin, health and reflection of a server process."""

from __future__ import annotations

import grpc
import psycopg
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from herdpy._version import __version__
from herdpy.rpc import admin_pb2 as pb
from tests.service.calls import admin, refused

SERVICES = {"herdpy.v1.Admin", "herdpy.v1.Snapshots", "herdpy.v1.Partitions"}


def test_the_node_says_what_it_is(server, channel):
    node = admin(channel).GetNode(pb.GetNodeRequest())
    assert (node.version, node.pid, node.phase) == (__version__, server.pid, "serving")
    assert node.directory == str(server.data)
    assert dict(node.problems) == {}
    assert node.uptime_s > 0


def test_positions_grow_with_commits_and_a_checkpoint_catches_up(server, channel):
    stub = admin(channel)
    connection = server.connect()
    (before,) = stub.ListTablespaces(pb.ListTablespacesRequest()).tablespaces
    connection.execute("CREATE TABLE positions (id INT PRIMARY KEY)")
    (after,) = stub.ListTablespaces(pb.ListTablespacesRequest()).tablespaces
    assert after.name == "default"
    assert lsn(after.applied) > lsn(before.applied)
    assert after.applied == after.log_end
    assert after.tables == before.tables + 1
    done = stub.Checkpoint(pb.CheckpointRequest())
    (last,) = stub.ListTablespaces(pb.ListTablespacesRequest()).tablespaces
    assert done.durable == last.durable == after.applied
    assert last.memtable_rows == 0
    assert done.deleted_ledger_ids
    there = {one.ledger_id for one in stub.ListLedgers(pb.ListLedgersRequest()).ledgers}
    assert there.isdisjoint(done.deleted_ledger_ids)
    connection.execute("INSERT INTO positions VALUES (1)")
    (newest,) = stub.ListLedgers(pb.ListLedgersRequest()).ledgers
    assert (newest.closed, newest.ledger_id > max(done.deleted_ledger_ids)) == (False, True)


def lsn(told):
    return told.ledger_id, told.entry_id


def test_sessions_are_shown_without_passwords_cancelled_and_ended(server, channel):
    stub = admin(channel)
    connection = server.connect(application_name="of the test")
    pid = connection.info.backend_pid
    connection.execute("CREATE ROLE hidden PASSWORD 'very secret'")

    def shown():
        found = [one for one in stub.ListSessions(pb.ListSessionsRequest()).sessions if one.pid == pid]
        return found[0] if found else None

    one = shown()
    assert (one.user, one.application_name, one.state) == ("ann", "of the test", "idle")
    assert (one.client_address, one.client_port > 0) == ("127.0.0.1", True)
    assert "CREATE ROLE hidden" in one.query
    assert "very secret" not in one.query
    stub.CancelSession(pb.SessionId(pid=pid))  # runs nothing: stays
    assert connection.execute("SELECT 1").fetchone() == (1,)
    stub.TerminateSession(pb.SessionId(pid=pid))
    with pytest.raises(psycopg.OperationalError, match="administrator command"):
        connection.execute("SELECT 1")
    assert shown() is None
    code, state, _ = refused(lambda: stub.TerminateSession(pb.SessionId(pid=pid)))
    assert (code, state) == (grpc.StatusCode.NOT_FOUND, "42704")


def test_a_statement_is_cancelled(server, channel):
    stub = admin(channel)
    holder, waiter = server.connect(autocommit=False), server.connect()
    holder.execute("CREATE TABLE held (id INT PRIMARY KEY)")
    holder.execute("INSERT INTO held VALUES (1)")
    holder.commit()
    holder.execute("UPDATE held SET id = 1 WHERE id = 1")
    pid = waiter.info.backend_pid
    waiter.pgconn.send_query(b"DELETE FROM held WHERE id = 1")
    while True:
        states = {one.pid: one.state for one in stub.ListSessions(pb.ListSessionsRequest()).sessions}
        if states[pid] == "active":
            break
    stub.CancelSession(pb.SessionId(pid=pid))
    result = waiter.pgconn.get_result()
    assert result.error_field(ord("C")) == b"57014"
    holder.rollback()


def test_settings_are_told_and_log_levels_changed(server, channel):
    stub = admin(channel)
    settings = {one.name: one for one in stub.ListSettings(pb.ListSettingsRequest()).settings}
    assert settings["grpc.port"].value == "0"
    assert settings["grpc.port"].default_value == "8481"
    assert settings["data.directory"].value == f'"{server.data}"'
    assert settings["logging.level"].reloadable
    levels = stub.SetLogLevels(pb.LogLevels(level="warning", levels={"herdpy.rpc": "debug"}))
    assert levels == stub.GetLogLevels(pb.GetLogLevelsRequest())
    assert (levels.level, dict(levels.levels)) == ("warning", {"herdpy.rpc": "debug"})
    for wrong in (pb.LogLevels(level="loud"), pb.LogLevels(levels={"asyncio": "debug"})):
        code, state, _ = refused(lambda wrong=wrong: stub.SetLogLevels(wrong))
        assert (code, state) == (grpc.StatusCode.INVALID_ARGUMENT, "22023")
    assert stub.GetLogLevels(pb.GetLogLevelsRequest()) == levels
    stub.SetLogLevels(pb.LogLevels(level="info"))


def test_the_configuration_is_read_again(start, channels, tmp_path):
    path = tmp_path / "server.toml"
    path.write_text("[logging]\nlevel = 'info'\n")
    stub = admin(channels(start("--config", path).ready()))
    path.write_text("[logging]\nlevel = 'debug'\n[storage]\nplan_cache = 7\n")
    found = stub.ReloadConfiguration(pb.ReloadConfigurationRequest())
    assert (found.taken_over, found.need_restart) == (["logging.level"], ["storage.plan_cache"])
    assert stub.GetLogLevels(pb.GetLogLevelsRequest()).level == "debug"
    path.write_text("[logging]\nlevel = 'loud'\n")
    found = stub.ReloadConfiguration(pb.ReloadConfigurationRequest())
    assert "logging.level" in found.problems[0]
    assert stub.GetLogLevels(pb.GetLogLevelsRequest()).level == "debug"


def test_health_is_told_for_the_server_and_each_service(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    for service in ("", *SERVICES):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    code, _, _ = refused(lambda: stub.Check(health_pb2.HealthCheckRequest(service="no.such")))
    assert code is grpc.StatusCode.NOT_FOUND
    watch = stub.Watch(health_pb2.HealthCheckRequest(service="no.such"))
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()


def test_there_is_a_limit_to_watchers(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    watchers = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(50)]
    for one in watchers:
        assert next(one).status == health_pb2.HealthCheckResponse.SERVING
    code, state, _ = refused(lambda: next(stub.Watch(health_pb2.HealthCheckRequest())))
    assert (code, state) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "53400")
    assert stub.Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.SERVING
    for one in watchers:
        one.cancel()


def test_reflection_lists_the_services_and_describes_them(channel):
    database = ProtoReflectionDescriptorDatabase(channel)
    assert set(database.get_services()) >= SERVICES | {"grpc.health.v1.Health"}
    described = database.FindFileContainingSymbol("herdpy.v1.Snapshots")
    (service,) = described.service
    assert {"Begin", "Fetch"} <= {method.name for method in service.method}


def test_what_is_no_message_is_refused_and_the_server_goes_on(channel):
    call = channel.unary_unary("/herdpy.v1.Admin/CancelSession")
    code, state, _ = refused(lambda: call(b"\xff\xff\xff"))
    assert (code, state) == (grpc.StatusCode.INVALID_ARGUMENT, "08P01")
    code, _, _ = refused(lambda: channel.unary_unary("/herdpy.v1.Admin/NoSuch")(b""))
    assert code is grpc.StatusCode.UNIMPLEMENTED
    code, _, _ = refused(lambda: channel.unary_unary("/herdpy.v1.Admin/GetNode")(b"x" * (5 << 20)))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert admin(channel).GetNode(pb.GetNodeRequest()).phase == "serving"
