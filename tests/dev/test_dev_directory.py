"""The directory of a local cluster: others' things are not touched, and one command works on it at a time."""

import json
import signal
import subprocess
import sys

import pytest

from herdpy.dev import BusyError, ForeignDirectoryError, LocalCluster, NoClusterError
from herdpy.dev.directory import ClusterDirectory, ClusterState, DevMember, DevOptions, PortKeeper
from herdpy.dev.process import ProcessIdentity

HOLDER = """
import signal, sys
from pathlib import Path
from herdpy.dev.directory import ClusterDirectory
with ClusterDirectory(Path(sys.argv[1])).locked("up", create=True):
    print("held", flush=True)
    signal.pause()
"""
STATE = ClusterState(
    [
        DevMember("zookeeper", "zookeeper", {"client": 1}, ProcessIdentity(2, 3, "b")),
        DevMember("server-1", "server", {"sql": 4, "grpc": 5, "http": 6}),
    ],
    DevOptions({"logging.level": "debug"}, {"gcWaitTime": "7"}, ["-Xmx1g"]),
    [PortKeeper(ProcessIdentity(8, 9, "b"), [1, 4, 5, 6])],
)


@pytest.fixture
def place(tmp_path):
    return ClusterDirectory(tmp_path / "c")


@pytest.fixture
def holder(place):
    words = [sys.executable, "-c", HOLDER, place.path]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_state_is_read_as_it_was_written(place):
    place.path.mkdir()
    place.save(STATE)
    assert place.load() == STATE


def test_state_is_replaced_as_a_whole(place, monkeypatch):
    place.path.mkdir()
    place.save(STATE)

    def fail(_descriptor):
        raise OSError("no space")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space"):
        place.save(ClusterState())
    assert place.load() == STATE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": 2}',
        '{"format": 1, "members": [{"kind": "x"}], "keepers": []}',
        '"cluster"',
    ],
)
def test_file_that_is_no_state_is_refused(place, text):
    place.path.mkdir()
    (place.path / "cluster.json").write_text(text)
    for command in (
        LocalCluster(place.path).up,
        LocalCluster(place.path).down,
        LocalCluster(place.path).status,
    ):
        with pytest.raises(ForeignDirectoryError, match=r"cluster\.json"):
            command()
    assert (place.path / "cluster.json").read_text() == text


def test_directory_with_other_things_is_refused_and_left_as_it_is(place):
    place.path.mkdir()
    (place.path / "thesis.txt").write_text("years of work")
    with pytest.raises(ForeignDirectoryError, match=r"thesis\.txt.*new or empty"):
        LocalCluster(place.path).up()
    with pytest.raises(NoClusterError):
        LocalCluster(place.path).down(wipe=True)
    assert [one.name for one in place.path.iterdir()] == ["thesis.txt"]


def test_what_is_no_directory_is_refused(place):
    place.path.write_text("a file")
    with pytest.raises(ForeignDirectoryError, match="not a directory"):
        LocalCluster(place.path).up()


def test_directory_where_a_start_was_cut_short_at_once_may_be_used(place):
    with place.locked("up", create=True):
        place.claim()
    assert place.claim() == ClusterState()


def test_second_command_is_told_who_works_there(place, holder):
    with pytest.raises(
        BusyError, match=rf"herdpy dev up \(process {holder.pid}\) is at work in {place.path}"
    ):
        LocalCluster(place.path).up()


def test_lock_goes_with_its_holder(place, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with place.locked("up", create=True):
        pass


def test_two_threads_of_a_process_keep_apart_as_well(place):
    with place.locked("up", create=True), pytest.raises(BusyError), place.locked("down", create=True):
        pytest.fail("both are in")


def test_wipe_leaves_what_others_put_there(place):
    with place.locked("up", create=True):
        place.save(STATE)
        (place.path / "server-1").mkdir()
        (place.path / "server-1" / "data").write_text("x")
        (place.path / "notes").write_text("mine")
    LocalCluster(place.path).down(wipe=True)
    assert [one.name for one in place.path.iterdir()] == ["notes"]


def test_wiped_directory_is_gone_and_can_be_used_again(place):
    with place.locked("up", create=True):
        place.save(STATE)
    LocalCluster(place.path).down(wipe=True)
    assert not place.path.exists()
    with place.locked("up", create=True):
        assert place.claim() == ClusterState()


def test_state_says_its_format(place):
    place.path.mkdir()
    place.save(STATE)
    assert json.loads((place.path / "cluster.json").read_text())["format"] == 1
