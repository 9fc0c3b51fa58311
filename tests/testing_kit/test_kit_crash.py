"""A test process that is killed leaves no server, directory, bridge or namespace for long."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from herdpy.testing import NetworkUnavailableError
from herdpy.testing.network import Network, ip, sweep
from herdpy.testing.shared import shared_cluster
from herdpy.testing.workspace import home_directory, workspace
from tests.testing_kit.kit_programs import await_end

OWNER = """
import signal
from herdpy.testing import BookKeeperCluster
with BookKeeperCluster(bookies=1) as cluster:
    print(cluster.root, cluster.zookeeper.pid, cluster.bookies[0].pid, flush=True)
    signal.pause()
"""
SHARER = """
import sys
from herdpy.testing.shared import shared_cluster
with shared_cluster(sys.argv[1], bookies=1) as view:
    print(view.shell_configuration, flush=True)
    sys.stdin.read()
"""
NETWORKER = """
import signal
from herdpy.testing import Network
with Network() as network:
    print(network.add_host().namespace, network.bridge, flush=True)
    signal.pause()
"""


def start(code, *arguments):
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def servers_of(root):
    """The Java processes that were given a file of `root`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:  # ended meanwhile
            continue
        if os.fsencode(root) in words and b"java" in words.split(b"\0")[0]:
            found.append(int(path.parent.name))
    return found


def test_killed_owner_leaves_no_server_and_its_directory_goes_next_time():
    with start(OWNER) as owner:
        root, *pids = owner.stdout.readline().split()
        assert sorted(servers_of(root)) == sorted(map(int, pids))
        owner.kill()
    assert await_end(list(map(int, pids))) == []
    assert Path(root).is_dir()
    with workspace():
        assert not Path(root).exists()


def test_a_directory_in_use_is_not_removed():
    with workspace() as mine, workspace() as other:
        assert (mine.is_dir(), other.is_dir(), mine.parent) == (True, True, home_directory())
    assert not mine.exists()


def test_shared_cluster_lives_until_its_last_user_is_gone_even_when_that_is_killed():
    run = f"test-{os.getpid()}"
    with start(SHARER, run) as first, start(SHARER, run) as second:
        configuration = first.stdout.readline().strip()
        assert second.stdout.readline().strip() == configuration
        root = Path(configuration).parent.parent
        pids = servers_of(root)
        assert len(pids) == 2
        first.stdin.close()
        assert first.wait(60) == 0
        assert (servers_of(root), configuration) == (pids, _view_of(run))
        second.kill()
    assert await_end(pids) == []
    with workspace():
        assert not (home_directory() / f"run-{run}").exists()


def _view_of(run):
    with shared_cluster(run) as view:
        return view.shell_configuration


def test_shared_cluster_is_gone_when_its_only_user_has_left():
    with shared_cluster(f"alone-{os.getpid()}", bookies=1) as view:
        root = Path(view.shell_configuration).parent.parent
        pids = servers_of(root)
        assert len(pids) == 2
    assert (await_end(pids, 0), root.exists()) == ([], False)


def test_network_of_a_killed_process_is_removed_by_the_next():
    try:
        with Network():
            pass
    except NetworkUnavailableError as error:
        pytest.skip(str(error))
    with start(NETWORKER) as owner:
        namespace, bridge = owner.stdout.readline().split()
        sweep()
        assert namespace in ip("netns", "list")  # its owner lives
        owner.kill()
    sweep()
    assert namespace not in ip("netns", "list")
    assert bridge not in ip("link", "show")
