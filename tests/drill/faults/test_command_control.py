"""An operator's commands: what is wrong with a file is reported, and what is right is run, word by word."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

import pytest

from herdpy.drill.control import CLIENTS, CannotError, ClusterObserver
from herdpy.drill.control.commands import (
    COMMANDS,
    CommandControl,
    CommandFailedError,
    CommandFile,
    CommandFileError,
)
from herdpy.drill.control.local import LocalControl
from herdpy.drill.faults.processes import KillLeader, PauseLeader
from herdpy.testing.process import await_until
from tests.drill.faults.writing import PATIENCE_S

URL = "herdpy://db1,db2/herdpy"
PROCESS = """
[[process]]
name = "server-1"
kind = "server"
host = "127.0.0.1"
sql = 1
http = 1
unit = "a b; rm"
"""
BOOKIE = """
[[process]]
name = "bookie-1"
kind = "bookie"
host = "10.0.0.2"
bookie = 3181
"""


def load(tmp_path: Path, text: str) -> CommandFile:
    path = tmp_path / "drill.toml"
    path.write_text(text)
    return CommandFile.load(path)


def recording(tmp_path: Path, names: list[str], fields: str = "") -> str:
    """Commands that write down the words they were run with."""
    script = tmp_path / "record.py"
    script.write_text(
        f"import json, sys\nwith open({str(tmp_path / 'runs')!r}, 'a') as runs:\n"
        "    print(json.dumps(sys.argv[1:]), file=runs)\nprint('said')\n"
    )
    lines = [f'{name} = "{sys.executable} {script} {name} {{name}} {fields}"' for name in names]
    return "[commands]\n" + "\n".join(lines) + "\n"


def runs(tmp_path: Path) -> list[list[str]]:
    return [json.loads(line) for line in (tmp_path / "runs").read_text().splitlines()]


@pytest.mark.parametrize("path", sorted(Path("conf").glob("drill-*.toml")), ids=lambda path: path.name)
def test_examples_are_right(path: Path):
    file = CommandFile.load(path)
    assert {one.place.kind for one in file.processes} == {"zookeeper", "bookie", "server"}
    control = CommandControl(URL, file)
    for process in control.places:
        assert control.can("kill", process.name) is None
        assert control.can("cut", process.name) is None
    for one in file.processes:
        for name, command in one.commands.items():
            fields = {**one.fields, **dict.fromkeys(COMMANDS[name], "x")}
            assert all(command.filled(fields))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", r"process: name each process"),
        ("[commands]\nkil = 'x'\n" + PROCESS, r"commands\.kil: is not known; there are kill, stop"),
        ("[commands]\nkill = 'x'\n" + PROCESS, r"commands\.kill: needs start, which undoes it"),
        ("[commands]\nheal = 'x {peer}'\n" + PROCESS, r"commands\.heal: \{peer\} is no field of server-1"),
        ("[commands]\nheal = 'x {'\n" + PROCESS, r"commands\.heal: .*write \{\{ and \}\}"),
        ("[commands]\nheal = 'x \"'\n" + PROCESS, r"commands\.heal: No closing quotation"),
        ("[commands]\nheal = []\n" + PROCESS, r"commands\.heal: must be a command"),
        (PROCESS + PROCESS, r"process: there are two of the name server-1"),
        (PROCESS.replace('server"', 'servant"'), r"kind: must be one of"),
        (PROCESS.replace("sql = 1", ""), r"process server-1\.sql: must be given: the port"),
        (PROCESS.replace("127.0.0.1", ""), r"process 1\.host: must be given, as text"),
        (BOOKIE, r'there is no process of kind "server"'),
        ("timeout_s = 0\n" + PROCESS, r"timeout_s: must be a number"),
        ("timeout = 1\n" + PROCESS, r"timeout: is not known"),
        ("process = 1", r"process: name each process"),
        ("[commands", r"drill\.toml: "),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, wrong: str):
    with pytest.raises(CommandFileError, match=wrong):
        load(tmp_path, text)


def test_commands_are_run_without_a_shell(tmp_path: Path):
    text = recording(tmp_path, ["pause", "resume", "rot"], "{unit}")
    control = CommandControl(URL, load(tmp_path, text + PROCESS))
    control.pause("server-1")
    control.resume("server-1")
    assert control.rot("server-1", None, Random(1)) == "said"
    assert runs(tmp_path) == [[name, "server-1", "a b; rm"] for name in ("pause", "resume", "rot")]


def test_a_cut_is_made_from_each_peer(tmp_path: Path):
    commands = (
        recording(tmp_path, ["cut"], "{peer} {peer_host} {one_way}") + recording(tmp_path, ["heal"])[11:]
    )
    text = 'clients_host = "10.0.0.9"\n' + commands + PROCESS + BOOKIE
    control = CommandControl(URL, load(tmp_path, text))
    control.cut("server-1", from_=["bookie-1", CLIENTS], one_way="sent")
    control.heal("server-1")
    assert runs(tmp_path) == [
        ["cut", "server-1", "bookie-1", "10.0.0.2", "sent"],
        ["cut", "server-1", "clients", "10.0.0.9", "sent"],
        ["heal", "server-1"],
    ]


def test_what_cannot_be_done_is_said(tmp_path: Path):
    text = recording(tmp_path, ["cut", "heal"])
    control = CommandControl(URL, load(tmp_path, text + PROCESS))
    assert "has no command kill" in str(control.can("kill", "server-1"))
    with pytest.raises(CannotError, match="has no command kill for it"):
        control.kill("server-1")
    with pytest.raises(CannotError, match=r"has no \{one_way\}"):
        control.cut("server-1", from_=[CLIENTS], one_way="sent")
    with pytest.raises(CannotError, match="clients_host"):
        control.cut("server-1", from_=[CLIENTS])
    with pytest.raises(CannotError, match="no process server-2"):
        control.can("kill", "server-2")
    assert "kill server-1: " in str(KillLeader(Random(1)).cannot(control, ClusterObserver(control)))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("sh -c 'echo no >&2; exit 3'", "pause server-1: sh -c echo no >&2; exit 3 ended with 3: no"),
        ("/no/such/program", "No such file"),
        ("sleep 60", "did not end within 0.2 s"),
    ],
)
def test_a_command_that_fails_is_told(tmp_path: Path, command: str, said: str):
    text = f'timeout_s = 0.2\n[commands]\npause = "{command}"\nresume = "true"\n' + PROCESS
    with pytest.raises(CommandFailedError, match=said.replace(">&", ".*")):
        CommandControl(URL, load(tmp_path, text)).pause("server-1")


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("herdpy://db1,db2", ("herdpy", "herdpy", "/herdpy", "/ledgers")),
        ("herdpy://b%40b:p%2Fw@db1,db2/shop", ("shop", "b@b", "/herdpy", "/ledgers")),
        ("herdpy://db1?tablespace=shop&user=ann", ("shop", "ann", "/herdpy", "/ledgers")),
        ("herdpy+zk://zk1,zk2", ("herdpy", "herdpy", "/herdpy", "/ledgers")),
        ("herdpy+zk://ann@zk1:2181/apps/one?tablespace=shop", ("shop", "ann", "/apps/one", "/ledgers")),
        (
            "herdpy+zk://zk1/apps/one?ledgers_root=/bk/ledgers",
            ("herdpy", "herdpy", "/apps/one", "/bk/ledgers"),
        ),
    ],
)
def test_what_a_url_says_of_the_cluster(tmp_path: Path, url: str, seen: tuple[str, ...]):
    view = ClusterObserver(
        CommandControl(url, load(tmp_path, recording(tmp_path, ["kill", "start"]) + PROCESS))
    )
    assert (view.tablespace, view.user, view.root, view.ledgers_root) == seen


def test_a_fault_by_commands(control: LocalControl, view: ClusterObserver, tmp_path: Path):
    """The leader of a real cluster is paused and resumed by commands of `herdpy dev`."""
    place = control.cluster.directory
    dev = f"{sys.executable} -m herdpy.cli dev"
    processes = "".join(
        f'[[process]]\nname = "{one.name}"\nkind = "{one.kind}"\nhost = "{one.host}"\n'
        + "".join(f"{port} = {number}\n" for port, number in one.ports.items())
        for one in control.places
    )
    text = "".join(f'{what} = "{dev} {what} {{name}} --dir {place}"\n' for what in ("pause", "resume"))
    by_commands = CommandControl(control.url, load(tmp_path, "[commands]\n" + text + processes))
    assert [one.name for one in by_commands.places] == [one.name for one in control.places]
    seen = ClusterObserver(by_commands)
    leader = view.await_following()
    assert seen.await_leader() == leader
    fault = PauseLeader(Random(1))
    assert fault.cannot(by_commands, seen) is None
    try:
        fault.begin(by_commands, seen)
        assert seen.await_leader(other_than=leader) != leader
    finally:
        fault.end()
    assert await_until(lambda: view.replica_status(leader).get("role") == "follower", PATIENCE_S)
