"""The section [grpc]: what the front end is made with, what is warned of, what cannot be."""

from __future__ import annotations

from dataclasses import fields

import grpc
import msgspec
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc

from herdpy_server.config import ConfigError, ServerConfig, load
from herdpy_server.process.front_ends import service_settings
from herdpy_server.service import ServiceSettings
from tests.service.calls import refused

DATA = ("--data", "data.directory", "/nowhere")


def loaded(*settings: tuple[str, str]):
    """A configuration of flags."""
    return load(
        None, environment={}, flags=[DATA, *((f"--set {key}", key, value) for key, value in settings)]
    )


def test_every_setting_of_the_door_can_be_set():
    given = {*msgspec.structs.asdict(ServerConfig().grpc), *msgspec.structs.asdict(ServerConfig().tls)}
    own = {field.name.removeprefix("tls_") for field in fields(ServiceSettings)}
    # "required" gives client_ca, see below; "backups" are those of the section backup
    assert given == (own - {"backups"}) | {"enabled", "client_certificate"}
    assert service_settings(ServerConfig()) == ServiceSettings()
    other = loaded(("grpc.max_plans", "3"), ("grpc.port", "9"), ("grpc.max_message_bytes", "1 MiB")).config
    made = service_settings(other)
    assert (made.max_plans, made.port, made.max_message_bytes) == (3, 9, 1 << 20)


@pytest.mark.parametrize("asked", ["required", "optional"])
def test_client_certificates_are_asked_for_where_all_must_have_one(asked, tmp_path):
    authority = trustme.CA()
    both, ca = tmp_path / "both.pem", tmp_path / "ca.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(both)
    authority.cert_pem.write_to_path(ca)
    given = [
        (f"tls.{name}", str(file)) for name, file in (("certificate", both), ("key", both), ("client_ca", ca))
    ]
    made = service_settings(loaded(*given, ("tls.client_certificate", asked)).config)
    assert made.tls_client_ca == (ca if asked == "required" else None)


def test_it_is_told_when_no_password_could_be_sent():
    warned = loaded(("grpc.address", "10.1.1.1")).warnings
    assert any("grpc.address" in one and "passwords" in one for one in warned)
    assert not loaded(("grpc.address", "10.1.1.1"), ("grpc.enabled", "false")).warnings
    assert not loaded().warnings


def test_two_doors_cannot_have_one_place():
    with pytest.raises(ConfigError) as caught:
        loaded(("grpc.port", "8480"))
    assert "grpc.port = 8480 is http.port as well" in caught.value.problems[0]
    assert loaded(("grpc.port", "8480"), ("grpc.enabled", "false")).config.grpc.port == 8480


def test_there_is_a_limit_to_calls(start, channels):
    server = start("--set", "grpc.max_calls=2").ready()
    stub = health_pb2_grpc.HealthStub(channels(server))
    watchers = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(2)]
    for one in watchers:
        assert next(one).status == health_pb2.HealthCheckResponse.SERVING
    code, _, _ = refused(lambda: stub.Check(health_pb2.HealthCheckRequest()))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    for one in watchers:
        one.cancel()
