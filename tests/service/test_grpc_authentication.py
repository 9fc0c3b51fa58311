"""Who may call: the server's rules, passwords, roles, TLS."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from herdpy.rpc import admin_pb2, partitions_pb2, snapshots_pb2
from herdpy.rpc.address import GrpcAddress, RemoteError
from herdpy.rpc.snapshots import SnapshotClient
from herdpy_server.cluster.layout import Address
from herdpy_server.replica.seeding import Credentials
from tests.service.calls import admin, basic, partitions, refused, snapshots
from tests.support.server_process import RunningServer

RULES = """
[authentication]
rules = [
    { method = "trust", network = "loopback", user = "local" },
    { method = "reject", user = "banned" },
    { method = "scram-sha-256", network = "all" },
]
"""
TRUSTED = '{ method = "trust", network = "loopback" }'
CERTIFIED = f'[{{ method = "cert", user = "ann" }}, {{ method = "cert", user = "bob" }}, {TRUSTED}]'
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
DENIED = grpc.StatusCode.PERMISSION_DENIED


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    """A server that asks for passwords, with roles of several kinds."""
    folder = tmp_path_factory.mktemp("rules")
    (folder / "server.toml").write_text(RULES)
    running = RunningServer(folder / "data", "--config", folder / "server.toml").ready()
    connection = running.connect(user="local")
    for role in (
        "boss SUPERUSER LOGIN PASSWORD 'of the boss'",
        "copier REPLICATION LOGIN PASSWORD 'of the copier'",
        "plain LOGIN PASSWORD 'of the plain'",
        "nologin NOLOGIN PASSWORD 'of nobody'",
        "late LOGIN PASSWORD 'too late' VALID UNTIL '2001-01-01'",
        "banned LOGIN PASSWORD 'of the banned'",
    ):
        connection.execute(f"CREATE ROLE {role}")
    connection.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    connection.execute("CREATE TABLE hidden (id INT PRIMARY KEY)")
    connection.execute("GRANT SELECT ON t TO plain")
    yield running
    running.close()


def test_a_node_that_is_seeded_shows_its_role(server: RunningServer, tmp_path: Path):
    file = tmp_path / "password"
    credentials = Credentials("copier", file)

    async def begin() -> None:
        async with SnapshotClient(credentials.place(Address("127.0.0.1", server.grpc_port))) as client:
            await client.release(await client.begin())

    file.write_text("of the boss\n")
    with pytest.raises(RemoteError) as caught:
        asyncio.run(begin())
    assert caught.value.sqlstate == "28P01"
    file.write_text("of the copier\n")  # read again each time
    asyncio.run(begin())
    assert "of the" not in str(server.records())


NODE = admin_pb2.GetNodeRequest()


@pytest.mark.parametrize(
    ("metadata", "code", "state"),
    [
        ((), UNAUTHENTICATED, "28P01"),
        (basic("boss"), UNAUTHENTICATED, "28P01"),
        (basic("boss", "of the copier"), UNAUTHENTICATED, "28P01"),
        (basic("boss", "of the boss "), UNAUTHENTICATED, "28P01"),
        (basic("nobody", "of nobody"), UNAUTHENTICATED, "28P01"),
        (basic("nologin", "of nobody"), UNAUTHENTICATED, "28P01"),
        (basic("late", "too late"), UNAUTHENTICATED, "28P01"),
        (basic("banned", "of the banned"), UNAUTHENTICATED, "28000"),
        (basic("plain", "of the plain"), DENIED, "42501"),
        (basic("copier", "of the copier"), DENIED, "42501"),
        ((("authorization", "Basic !"),), UNAUTHENTICATED, "28000"),
        ((("authorization", "Bearer abc"),), UNAUTHENTICATED, "28000"),
        ((("authorization", "Basic Ym9zcw=="),), UNAUTHENTICATED, "28000"),
        ((*basic("local"), *basic("boss")), UNAUTHENTICATED, "28000"),
        ((("authorization", "Basic " + "A" * 6000),), UNAUTHENTICATED, "28000"),
    ],
)
def test_who_may_not_is_refused(channel, metadata, code, state):
    found = refused(lambda: admin(channel).GetNode(NODE, metadata=metadata))
    assert found[:2] == (code, state)


def test_who_may_is_let_in(channel):
    stub = admin(channel)
    for metadata in (basic("boss", "of the boss"), basic("local"), basic("boss", "of the boss")):
        assert stub.GetNode(NODE, metadata=metadata).phase == "serving"
    wanted = snapshots_pb2.ListSnapshotsRequest()
    assert not snapshots(channel).List(wanted, metadata=basic("copier", "of the copier")).snapshots
    plan = partitions_pb2.PlanRequest(table="t", partitions=1)
    assert partitions(channel).Plan(plan, metadata=basic("plain", "of the plain")).id
    other = partitions_pb2.PlanRequest(table="hidden", partitions=1)
    code, state, _ = refused(lambda: partitions(channel).Plan(other, metadata=basic("plain", "of the plain")))
    assert (code, state) == (DENIED, "42501")
    assert partitions(channel).Plan(other, metadata=basic("boss", "of the boss")).id
    code, state, _ = refused(lambda: snapshots(channel).List(wanted, metadata=basic("plain", "of the plain")))
    assert (code, state) == (DENIED, "42501")


def test_a_password_that_was_right_is_no_more_when_it_is_changed(server, channel):
    connection = server.connect(user="local")
    connection.execute("CREATE ROLE changing SUPERUSER LOGIN PASSWORD 'old'")
    stub = admin(channel)
    assert stub.GetNode(NODE, metadata=basic("changing", "old")).phase
    connection.execute("ALTER ROLE changing PASSWORD 'new'")
    assert refused(lambda: stub.GetNode(NODE, metadata=basic("changing", "old")))[1] == "28P01"
    assert stub.GetNode(NODE, metadata=basic("changing", "new")).phase
    connection.execute("ALTER ROLE changing NOSUPERUSER")
    assert refused(lambda: stub.GetNode(NODE, metadata=basic("changing", "new")))[1] == "42501"
    connection.execute("ALTER ROLE changing NOLOGIN")
    assert refused(lambda: stub.GetNode(NODE, metadata=basic("changing", "new")))[0] is UNAUTHENTICATED


def test_streams_and_reflection_are_for_known_callers_and_health_for_all(channel):
    fetch = snapshots(channel).Fetch
    found = refused(lambda: next(fetch(snapshots_pb2.FetchRequest(id="x"), metadata=basic("boss", "no"))))
    assert found[:2] == (UNAUTHENTICATED, "28P01")
    ask = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    assert refused(lambda: next(ask(iter([request]))))[:2] == (UNAUTHENTICATED, "28P01")
    assert next(ask(iter([request]), metadata=basic("plain", "of the plain"))).list_services_response.service
    check = health_pb2_grpc.HealthStub(channel).Check
    assert check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.SERVING


def test_a_request_is_not_read_before_its_caller_is_known(channel):
    call = channel.unary_unary("/herdpy.v1.Admin/CancelSession")
    nonsense = b"\xff\xff\xff"
    assert refused(lambda: call(nonsense))[1] == "28P01"
    assert refused(lambda: call(nonsense, metadata=basic("boss", "of the boss")))[1] == "08P01"


def outside_address() -> str:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but loopback")
        address: str = probe.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    return address


def test_a_password_is_not_taken_in_the_clear_from_elsewhere(start):
    address = outside_address()
    server = start("--set", f"grpc.address={address}").ready()
    server.connect().execute("CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'of the boss'")
    with grpc.insecure_channel(f"{address}:{server.grpc_port}") as channel:
        stub = admin(channel)
        code, state, message = refused(lambda: stub.GetNode(NODE, metadata=basic("boss", "of the boss")))
        assert (code, state) == (UNAUTHENTICATED, "28000")
        assert "TLS" in message
        assert refused(lambda: stub.GetNode(NODE))[:2] == (UNAUTHENTICATED, "28P01")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[trustme.CA, Path, Path]:
    """Who signs, his certificate in a file, and a server's certificate with its key in another."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        tmp_path / "both.pem"
    )
    return authority, tmp_path / "ca.pem", tmp_path / "both.pem"


def tls(path: Path) -> list[str]:
    """Flags of a server."""
    return ["--set", f"tls.certificate={path}", "--set", f"tls.key={path}"]


def test_with_a_certificate_everything_is_encrypted(start, certificate):
    _authority, ca, both = certificate
    server = start(*tls(both), "--set", "grpc.address=localhost").ready()
    server.connect().execute("CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'of the boss'")
    place = f"localhost:{server.grpc_port}"
    with grpc.secure_channel(place, grpc.ssl_channel_credentials(ca.read_bytes())) as channel:
        assert admin(channel).GetNode(NODE, metadata=basic("boss", "of the boss")).phase == "serving"
    with grpc.insecure_channel(place) as channel:
        code, _, _ = refused(lambda: admin(channel).GetNode(NODE, timeout=10))
        assert code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}

    async def download() -> None:
        url = f"grpcs://boss@localhost:{server.grpc_port}"
        async with SnapshotClient(GrpcAddress.parse(url, password="of the boss", ca=ca)) as client:
            await client.release(await client.begin())

    asyncio.run(download())


def test_another_certificate_is_taken_over(start, certificate, tmp_path):
    _authority, _ca, both = certificate
    server = start(*tls(both)).ready()
    other = trustme.CA()
    other.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(both)
    credentials = grpc.ssl_channel_credentials(other.cert_pem.bytes())
    server.signal(1)
    server.wait_for("configuration read again")
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(f"localhost:{server.grpc_port}", credentials, options) as channel:
        assert admin(channel).GetNode(NODE).phase == "serving"


def test_clients_must_show_a_certificate_where_that_is_wanted(start, certificate):
    authority, ca, both = certificate
    server = start(
        *tls(both), "--set", f"tls.client_ca={ca}", "--set", f"authentication.rules={CERTIFIED}"
    ).ready()
    place = f"localhost:{server.grpc_port}"
    with grpc.secure_channel(place, grpc.ssl_channel_credentials(ca.read_bytes())) as channel:
        assert refused(lambda: admin(channel).GetNode(NODE, timeout=10))[0] in {
            grpc.StatusCode.UNAVAILABLE,
            grpc.StatusCode.DEADLINE_EXCEEDED,
        }
    mine = authority.issue_cert("client@example.com", common_name="ann")
    shown = grpc.ssl_channel_credentials(
        ca.read_bytes(), mine.private_key_pem.bytes(), mine.cert_chain_pems[0].bytes()
    )
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(place, shown, options) as channel:
        assert admin(channel).GetNode(NODE).phase == "serving"
        assert admin(channel).GetNode(NODE, metadata=basic("ann")).phase == "serving"  # instead of a password
        code, state, said = refused(lambda: admin(channel).GetNode(NODE, metadata=basic("bob")))
        assert (code, state) == (UNAUTHENTICATED, "28000")
        assert said == 'certificate authentication failed for user "bob"'


def test_the_client_is_told_why(server):
    async def begin(url: str) -> RemoteError:
        async with SnapshotClient(GrpcAddress.parse(url)) as client:
            with pytest.raises(RemoteError) as caught:
                await client.begin()
            return caught.value

    error = asyncio.run(begin(f"grpc://plain:of%20the%20plain@127.0.0.1:{server.grpc_port}"))
    assert (error.sqlstate, error.code) == ("42501", DENIED)
    assert not error.is_transient
    error = asyncio.run(begin(f"grpc://127.0.0.1:{server.grpc_port}"))
    assert (error.sqlstate, error.hint is not None) == ("28P01", True)


@pytest.mark.parametrize(
    "url",
    ["http://a:1", "grpc://", "grpc://a:x", "grpc://a:1/db", "grpc://a?b=c", "127.0.0.1:8481"],
)
def test_what_is_no_place_is_refused_without_its_password(url):
    with pytest.raises(ValueError, match=r"URL"):
        GrpcAddress.parse(url)
    assert "secret" not in repr(GrpcAddress.parse("grpc://ann:secret@a"))
