"""A real cluster: what happens to its servers, seen by BookKeeper's own client."""

import base64
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from herdpy.testing import (
    BookKeeperCluster,
    Certificates,
    JavaProgram,
    JavaProgramError,
    KitError,
    StartError,
)
from herdpy.testing.process import Child, await_until
from tests.testing_kit.kit_programs import LISTENER, await_end, python, state

PEER = Path(__file__).parent.parent / "bookkeeper" / "java" / "LedgerPeer.java"


@pytest.fixture(scope="module")
def cluster():
    with BookKeeperCluster(bookies=2) as started:
        yield started


@pytest.fixture(scope="module")
def peer(cluster):
    with JavaProgram(PEER, cluster.metadata_service_uri) as program:
        yield program


def written(peer, *entries, ensemble=2):
    """The id of a closed ledger with `entries`, on `ensemble` bookies."""
    quorum = {"ensemble_size": ensemble, "write_quorum": ensemble, "ack_quorum": ensemble}
    ledger_id = peer.request("create", digest="CRC32C", password="", **quorum)["ledger_id"]
    peer.request("append", ledger_id=ledger_id, entries=[base64.b64encode(one).decode() for one in entries])
    peer.request("close", ledger_id=ledger_id)
    return ledger_id


def read(peer, ledger_id):
    opened = peer.request("open", ledger_id=ledger_id, digest="CRC32C", password="", recover=False)
    found = peer.request("read", ledger_id=ledger_id, first=0, last=opened["last_add_confirmed"])
    return [base64.b64decode(one) for one in found["entries"]]


def registered(cluster):
    client = KazooClient(cluster.zookeeper.hostport)
    client.start()
    try:
        return {name for name in client.get_children("/ledgers/available") if name != "readonly"}
    finally:
        client.stop()
        client.close()


def test_started_cluster_is_registered_and_written_to(cluster, peer):
    assert registered(cluster) == set(cluster.bookie_ids)
    assert read(peer, written(peer, b"one", b"two")) == [b"one", b"two"]
    assert cluster.uri == f"zk://{cluster.zookeeper.hostport}/ledgers"


def test_bookie_keeps_its_entries_and_id_over_a_kill_and_a_stop(cluster, peer):
    bookie = cluster.bookies[0]
    ledger_id, name = written(peer, b"kept"), bookie.id
    cluster.bookies[1].stop()
    for end in (bookie.kill, bookie.stop):
        before = bookie.pid
        end()
        assert (bookie.is_running, await_end([before], 0)) == (False, [])
        bookie.start()
        assert bookie.pid != before
        assert registered(cluster) >= {name}
        assert read(peer, ledger_id) == [b"kept"]
    cluster.bookies[1].start()


def test_start_of_a_running_server_does_nothing(cluster):
    for server in (cluster.zookeeper, cluster.bookies[0]):
        before = server.pid
        server.start()
        assert server.pid == before


def test_wiped_bookie_comes_back_empty(cluster, peer):
    bookie = cluster.bookies[1]
    ledger_id = written(peer, b"gone")
    with pytest.raises(ValueError, match="bookie 1 runs"):
        bookie.wipe()
    bookie.kill()
    bookie.wipe()
    bookie.start()
    cluster.bookies[0].kill()
    with pytest.raises(JavaProgramError):
        read(peer, ledger_id)
    cluster.bookies[0].start()
    assert read(peer, ledger_id) == [b"gone"]


def test_paused_servers_do_not_run_until_they_are_resumed(cluster, peer):
    servers = [cluster.zookeeper, *cluster.bookies]
    for server in servers:
        server.pause()
    assert await_until(lambda: {state(server.pid) for server in servers} == {"T"}, 20)
    for server in servers:
        server.resume()
    assert read(peer, written(peer, b"later")) == [b"later"]


def test_zookeeper_keeps_ledgers_over_a_kill(cluster, peer):
    ledger_id = written(peer, b"known")
    cluster.zookeeper.kill()
    cluster.zookeeper.start()
    assert read(peer, ledger_id) == [b"known"]


def test_stolen_port_is_noticed_and_named(cluster, tmp_path):
    bookie = cluster.bookies[1]
    bookie.kill()
    thief = Child("thief", python(LISTENER, bookie.port), tmp_path / "log")
    thief.start()
    try:
        thief.await_listening("127.0.0.1", bookie.port, 20)
        with pytest.raises(
            StartError, match=f"bookie 1: port {bookie.port} of 127.0.0.1 is listened on by another"
        ):
            bookie.start()
        assert not bookie.is_running
    finally:
        thief.kill()
    bookie.start()


def test_added_bookie_joins(cluster):
    added = cluster.add_bookie(readOnlyModeEnabled="true")
    assert registered(cluster) == set(cluster.bookie_ids)
    assert added.id in cluster.bookie_ids
    assert "readOnlyModeEnabled=true\n" in added.configuration_path.read_text()


def test_shell_lists_ledgers_and_tells_failures(cluster, peer):
    ledger_id = written(peer, b"shown")
    assert f"ledgerID: {ledger_id}" in cluster.shell("listledgers")
    with pytest.raises(KitError, match="bookie shell nonsense ended with"):
        cluster.shell("nonsense")


def test_own_clusters_stop_and_leave_nothing(own_cluster):
    cluster = own_cluster(bookies=1, auto_recovery=True)
    servers = [cluster.zookeeper, *cluster.bookies, *cluster.recoveries]
    pids = [server.pid for server in servers]
    root = cluster.root
    assert (len(pids), root.is_dir()) == (3, True)
    cluster.stop()
    assert await_end(pids, 0) == []
    assert not root.exists()


def test_failed_start_stops_what_was_started(tmp_path):
    cluster = BookKeeperCluster(bookies=1, root=tmp_path / "root", configuration={"journalMaxSizeMB": "much"})
    with pytest.raises(StartError, match=r"bookie 0 ended with(.|\n)*much"):
        cluster.start()
    assert (cluster.zookeeper.is_running, cluster.bookies) == (False, [])


@pytest.mark.soak  # the client speaks TLS to real bookies with every commit
def test_tls_is_offered_to_those_with_a_certificate(own_cluster, tmp_path):
    certificates = Certificates.issue(tmp_path)
    cluster = own_cluster(bookies=1, tls=certificates)
    client = [f"{name}={value}" for name, value in certificates.bookie_configuration().items()]
    with JavaProgram(PEER, cluster.metadata_service_uri, *client) as peer:
        assert read(peer, written(peer, b"secret", ensemble=1)) == [b"secret"]
    assert (certificates.key.stat().st_mode & 0o777) == 0o600
