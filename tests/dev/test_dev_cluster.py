"""A cluster in process: what it says of itself, and what becomes of it when a process of it is harmed."""

import asyncio
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from dataclasses import replace

import psycopg
import pytest

from herdpy.bookkeeper import BookKeeper
from herdpy.dev import DevError, LocalCluster, NotRunningError, PortTakenError, UnknownNameError, report
from herdpy.dev.directory import ClusterDirectory
from herdpy.dev.process import ProcessIdentity
from herdpy.testing.process import await_until, listener_inodes, owns_socket
from herdpy.testing.zookeeper import ClusterZnodes
from tests.dev.dev_programs import processes_of, state_of

NAMES = ["zookeeper", "bookie-1", "bookie-2", "bookie-3", "server-1", "server-2"]
OWNER = """
import signal, sys
from herdpy.dev import LocalCluster
cluster = LocalCluster(sys.argv[1], servers=0, bookies=0)
print(cluster.up().zookeeper.pid, flush=True)
signal.pause()
"""


def process(cluster, name):
    return next(one for one in cluster.status().processes if one.id == name)


def ports(cluster):
    status = cluster.status()
    return [
        status.zookeeper.port,
        *(bookie.port for bookie in status.bookies),
        *(port for one in status.servers for port in (one.sql_port, one.grpc_port, one.http_port)),
    ]


def listens(port):
    return bool(listener_inodes("127.0.0.1", port))


def answers_sql(port):
    """Whether the server answers, once its replica can be used."""

    def answers():
        try:
            with psycopg.connect(host="127.0.0.1", port=port, user="ann", dbname="herdpy") as conn:
                return conn.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False

    return await_until(answers, 60)


def test_status_names_every_process_and_its_ports(cluster):
    status = cluster.status()
    assert [one.id for one in status.processes] == NAMES
    assert {one.state for one in status.processes} == {"running"}
    assert len(set(ports(cluster))) == 10
    assert owns_socket(status.zookeeper.pid, listener_inodes("127.0.0.1", status.zookeeper.port))
    for bookie in status.bookies:
        assert owns_socket(bookie.pid, listener_inodes("127.0.0.1", bookie.port))
        assert bookie.bookie_id == f"127.0.0.1:{bookie.port}"
    for server in status.servers:
        for port in (server.sql_port, server.http_port):
            assert owns_socket(server.pid, listener_inodes("127.0.0.1", port))
        assert answers_sql(server.sql_port)
        with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/health") as page:
            assert page.status == 200
    one, two = status.servers
    assert status.url == f"herdpy://127.0.0.1:{one.sql_port},127.0.0.1:{two.sql_port}/herdpy" == cluster.url
    assert status.bookkeeper_uri == f"zk://{cluster.zookeeper}/ledgers" == cluster.bookkeeper_uri


@pytest.mark.soak
def test_killed_bookie_comes_back_with_its_port_and_its_ledgers(cluster):
    async def write():
        async with BookKeeper(cluster.bookkeeper_uri) as bk:
            ledger = await bk.create_ledger(ack_quorum=3)
            await ledger.append(b"kept")
            await ledger.close()
            return ledger.ledger_id

    async def read(ledger_id):
        async with BookKeeper(cluster.bookkeeper_uri) as bk:
            ledger = await bk.open_ledger(ledger_id)
            return [entry.data async for entry in ledger.read(0, 0)]

    ledger_id = asyncio.run(write())
    before = cluster.status().bookies
    for name in NAMES[1:4]:
        cluster.kill(name)
        assert process(cluster, name).state == "stopped"
        assert process(cluster, name).pid is None
    for bookie in before:
        assert not listens(bookie.port)
    for name in NAMES[1:4]:
        cluster.start(name)
    after = cluster.status().bookies
    assert [one.bookie_id for one in after] == [one.bookie_id for one in before]
    assert not {one.pid for one in after} & {one.pid for one in before}
    assert asyncio.run(read(ledger_id)) == [b"kept"]


def test_killed_zookeeper_comes_back_with_its_port_and_its_znodes(cluster):
    with ClusterZnodes(cluster.zookeeper) as znodes:
        instance = znodes.read("/ledgers/INSTANCEID")
    before = process(cluster, "zookeeper")
    cluster.kill("zookeeper")
    cluster.kill("bookie-1")
    with pytest.raises(DevError, match="bookie-1 needs zookeeper, which does not run"):
        cluster.start("bookie-1")
    cluster.start("zookeeper")
    after = process(cluster, "zookeeper")
    assert (after.port, after.state) == (before.port, "running")
    assert after.pid != before.pid
    with ClusterZnodes(cluster.zookeeper) as znodes:
        assert znodes.read("/ledgers/INSTANCEID") == instance
    cluster.start("bookie-1")


def test_killed_server_comes_back_with_its_ports(cluster):
    before = process(cluster, "server-1")
    cluster.kill("server-1")
    assert not listens(before.sql_port)
    assert process(cluster, "server-1").role == "none"
    cluster.start("server-1")
    after = process(cluster, "server-1")
    assert (after.sql_port, after.http_port) == (before.sql_port, before.http_port)
    assert answers_sql(after.sql_port)


@pytest.mark.soak
def test_ports_of_what_does_not_run_are_kept(cluster):
    port = process(cluster, "server-2").sql_port
    cluster.stop("server-2")
    with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
        other.bind(("127.0.0.1", port))  # as whoever looks for a free port does
    cluster.start("server-2")
    assert answers_sql(port)


def test_paused_process_is_shown_so_and_goes_on(cluster):
    for name in ("server-2", "bookie-2"):
        cluster.pause(name)
        assert process(cluster, name).state == "paused"
        cluster.resume(name)
        assert process(cluster, name).state == "running"
    assert answers_sql(process(cluster, "server-2").sql_port)


def test_start_of_what_runs_changes_nothing(cluster):
    before = [(one.id, one.pid) for one in cluster.status().processes]
    for name in NAMES:
        cluster.start(name)
    cluster.up()
    assert [(one.id, one.pid) for one in cluster.status().processes] == before


def test_one_that_does_not_run_cannot_be_harmed(cluster):
    cluster.kill("bookie-3")
    for harm in (cluster.kill, cluster.stop, cluster.pause, cluster.resume):
        with pytest.raises(NotRunningError, match="bookie-3 does not run"):
            harm("bookie-3")
    cluster.start("bookie-3")


def test_name_that_is_not_there_is_told_with_those_that_are(cluster):
    with pytest.raises(UnknownNameError, match=r"no bookie-9.*zookeeper, bookie-1"):
        cluster.kill("bookie-9")


@pytest.mark.soak
def test_start_ends_when_the_process_is_killed_meanwhile(cluster):
    cluster.stop("server-1")
    cluster.start("server-1", wait=False)
    cluster.pause("server-1")
    failures = []

    def start():
        try:
            cluster.start("server-1")
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    waiting = threading.Thread(target=start)
    waiting.start()
    cluster.kill("server-1")
    waiting.join(60)
    assert not waiting.is_alive()
    cluster.start("server-1")
    # Killed before it looked, it has started another itself; killed after, it was notified of the end.
    assert all("server-1" in str(error) for error in failures)


def test_process_of_another_is_not_signalled(cluster):
    """The state names a process that somebody else started: nothing of it may be harmed."""
    directory = ClusterDirectory(cluster.directory)
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as other:
        try:
            state = directory.load()
            mine = state.member("bookie-1").process
            theirs = ProcessIdentity.of(other.pid)
            state.member("bookie-1").process = replace(mine, pid=other.pid)
            directory.save(state)
            for harm in (cluster.kill, cluster.stop, cluster.pause, cluster.resume):
                with pytest.raises(NotRunningError):
                    harm("bookie-1")
            assert process(cluster, "bookie-1").pid is None
            assert theirs.is_running
            assert not theirs.is_paused
            state.member("bookie-1").process = mine
            directory.save(state)
            assert process(cluster, "bookie-1").state == "running"
        finally:
            other.kill()


def test_roles_are_those_that_zookeeper_knows_where_servers_do_not_say(cluster, monkeypatch):
    monkeypatch.setattr(report, "get_json", lambda _server, _path: None)
    leader = cluster.await_leader()
    roles = {one.id: one.role for one in cluster.status().servers}
    assert roles[leader] == "leader"
    assert sorted(roles.values()).count("leader") == 1


@pytest.mark.parametrize(
    ("page", "role"),
    [
        (
            {"tablespaces": [{"name": "other", "role": "x"}, {"name": "herdpy", "role": "FOLLOWING"}]},
            "follower",
        ),
        ({"tablespaces": [{"name": "herdpy", "role": "leader"}]}, "leader"),
        ({"tablespaces": []}, "none"),
    ],
)
def test_role_is_what_the_server_says_of_the_default_tablespace(cluster, monkeypatch, page, role):
    monkeypatch.setattr(report, "get_json", lambda _server, path: page if path == "/status" else None)
    assert {one.role for one in cluster.status().servers} == {role}


@pytest.mark.soak
def test_more_can_be_added_and_fewer_cannot_be_had(place):
    with LocalCluster(place, servers=0, bookies=0) as one:
        zookeeper = one.status().zookeeper
        assert one.url == ""
        more = LocalCluster(place, bookies=1).up()
        assert more.zookeeper == zookeeper
        assert [bookie.state for bookie in more.bookies] == ["running"]
        with pytest.raises(DevError, match="has 1 bookies, not 0"):
            LocalCluster(place, bookies=0).up()
        assert one.status() == more


def test_port_that_was_taken_meanwhile_is_told_before_anything_starts(place):
    with LocalCluster(place, servers=0, bookies=0) as cluster:
        port = cluster.status().zookeeper.port
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(PortTakenError, match=rf"zookeeper: its port {port} \(client\) is in use"):
            cluster.up()
    assert not processes_of(place)
    with cluster:
        assert cluster.status().zookeeper.port == port


def test_processes_die_with_the_program_that_made_them(place):
    with subprocess.Popen([sys.executable, "-c", OWNER, place], stdout=subprocess.PIPE, text=True) as owner:
        zookeeper = ProcessIdentity.of(int(owner.stdout.readline()))
        owner.send_signal(signal.SIGKILL)
    assert zookeeper.await_end(20)
    assert LocalCluster(place).status().zookeeper.state == "stopped"
    assert state_of(place).member("zookeeper").process == zookeeper
