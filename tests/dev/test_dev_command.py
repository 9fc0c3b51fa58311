"""`herdpy dev` as a program: what it leaves running, and what it leaves when it is cut short."""

import json
import signal
import subprocess

import pytest
from typer.testing import CliRunner

from herdpy.cli.app import app
from herdpy.dev import LocalCluster
from herdpy.dev.directory import ClusterDirectory
from herdpy.testing.process import await_until, listener_inodes
from tests.dev.dev_programs import PATIENCE_S, await_process, begun, dev, dev_json, processes_of, state_of

pytestmark = pytest.mark.soak  # real processes for minutes: not with every commit

INTERRUPTED = 130


@pytest.fixture
def place(tmp_path):
    """A directory for a cluster, of which nothing may be left running: what is is stopped."""
    directory = tmp_path / "c"
    yield directory
    if (directory / "cluster.json").exists():
        LocalCluster(directory).down()
    assert not processes_of(directory)


def test_cluster_outlives_the_command_until_it_is_taken_down(place):
    up = dev_json("up", "--dir", place, "--servers", 1, "--bookies", 1)
    assert {"url", "zookeeper", "bookies", "servers"} <= up.keys()
    assert {"pid", "port"} <= up["zookeeper"].keys()
    assert {"id", "pid", "port"} <= up["bookies"][0].keys()
    server = up["servers"][0]
    assert {"id", "pid", "sql_port", "grpc_port", "http_port", "role"} <= server.keys()
    pids = {up["zookeeper"]["pid"], up["bookies"][0]["pid"], server["pid"]}
    assert pids <= processes_of(place).keys()

    dev("pause", "server-1", "--dir", place)
    assert dev_json("status", "--dir", place)["servers"][0]["state"] == "paused"
    dev("resume", "server-1", "--dir", place)
    dev("kill", "server-1", "--dir", place)
    back = dev_json("start", "server-1", "--dir", place)["servers"][0]
    assert (back["id"], back["sql_port"], back["state"]) == ("server-1", server["sql_port"], "running")
    assert back["pid"] != server["pid"]
    assert "server-1" in dev("status", "--dir", place)

    down = dev_json("down", "--dir", place)
    assert down.keys() == up.keys()
    assert [down["zookeeper"]["pid"], down["bookies"][0]["pid"], down["servers"][0]["pid"]] == [None] * 3
    assert not processes_of(place)
    ports = [up["zookeeper"]["port"], up["bookies"][0]["port"], server["sql_port"], server["http_port"]]
    assert not any(listener_inodes("127.0.0.1", port) for port in ports)
    dev("down", "--dir", place, "--wipe")
    assert not place.exists()


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("zookeeper", signal.SIGINT),
        ("bookie-1", signal.SIGTERM),
        ("server-1", signal.SIGINT),
    ],
)
def test_interrupted_up_leaves_nothing_running(place, name, number):
    with begun("up", "--dir", place, "--servers", 1, "--bookies", 1) as up:
        await_process(place, name)
        up.send_signal(number)
        said = up.communicate(timeout=PATIENCE_S)[1]
        assert up.returncode == INTERRUPTED, said
    assert not processes_of(place)
    assert not list(state_of(place).running)


def test_up_that_is_killed_leaves_what_down_stops(place):
    with begun("up", "--dir", place, "--servers", 0, "--bookies", 1) as up:
        bookie = await_process(place, "bookie-1")
        up.send_signal(signal.SIGKILL)
        up.wait(PATIENCE_S)
    dev("down", "--dir", place)
    assert not bookie.is_running
    assert not processes_of(place)


def test_up_that_was_cut_short_can_be_gone_on_with(place):
    with begun("up", "--dir", place, "--servers", 0, "--bookies", 1) as up:
        zookeeper = await_process(place, "zookeeper")
        up.send_signal(signal.SIGKILL)
        up.wait(PATIENCE_S)
    done = dev_json("up", "--dir", place)
    assert [one["state"] for one in done["bookies"]] == ["running"]
    assert done["zookeeper"]["pid"] == zookeeper.pid or not zookeeper.is_running


def test_second_up_is_refused_while_the_first_is_at_work(place):
    with begun("up", "--dir", place, "--servers", 0, "--bookies", 0) as first:
        assert await_until((place / "cluster.json").exists, PATIENCE_S)
        first.send_signal(signal.SIGSTOP)
        said = dev("up", "--dir", place, code=1)
        assert f"herdpy dev up (process {first.pid}) is at work in {place}" in said
        first.send_signal(signal.SIGCONT)
        assert first.wait(PATIENCE_S) == 0
    dev("down", "--dir", place)


def test_server_that_does_not_start_is_told_with_its_log_and_nothing_is_left(place):
    said = dev("up", "--dir", place, "--servers", 1, "--bookies", 0, "--set", "storage.plan_cache=x", code=1)
    assert "server-1 ended" in said
    assert f"--- end of {place}/log/server-1.log" in said
    assert "--set storage.plan_cache" in said
    assert not processes_of(place)


def test_state_that_names_a_process_of_another_harms_nobody(place):
    """The file is from before a reboot: since then its process ids have been given to others."""
    dev("up", "--dir", place, "--servers", 0, "--bookies", 0)
    directory = ClusterDirectory(place)
    with subprocess.Popen(["sleep", "1000"]) as other:
        state = directory.load()
        told = json.loads((place / "cluster.json").read_text())
        mine = state.member("zookeeper").process
        told["members"][0]["process"] |= {"pid": other.pid, "boot_id": "an earlier life"}
        (place / "cluster.json").write_text(json.dumps(told))
        assert dev_json("status", "--dir", place)["zookeeper"]["state"] == "stopped"
        dev("down", "--dir", place)
        assert other.poll() is None
        other.kill()
    state.member("zookeeper").process = mine
    directory.save(state)
    dev("down", "--dir", place)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("status",), 1, "there is no cluster in"),
        (("down",), 1, "herdpy dev up --dir"),
        (("kill", "server-1"), 1, "there is no cluster in"),
        (("up", "--set", "nonsense"), 2, "write --set name=value"),
        (("up", "--servers", -1), 2, "--servers"),
    ],
)
def test_what_cannot_be_done_is_told(place, words, code, said):
    assert said in dev(*words, "--dir", place, code=code)
    assert not place.exists()


@pytest.mark.parametrize("name", ["up", "status", "down", "start", "stop", "kill", "pause", "resume"])
def test_every_command_has_help_with_examples(name):
    shown = CliRunner().invoke(app, ["dev", name, "--help"])
    assert shown.exit_code == 0
    assert f"herdpy dev {name}" in shown.output
