"""Elections among processes on a real ZooKeeper: killed, stopped and continued, cut off, ended in order."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from herdpy.testing import ZooKeeperServer
from herdpy.testing.network import Network

ROOT = Path(__file__).parents[2]
SESSION_S, LEASE_S = 1.0, 0.4
PATIENCE_S = 90.0


class NodeProcess:
    """One node; ``await_word`` reads on in what it tells."""

    def __init__(
        self,
        hostport: str,
        node: str,
        prefix: tuple[str, ...] = (),
        lease_s: float = LEASE_S,
        directory: Path | None = None,
    ) -> None:
        self.node = node
        self.epoch = 0
        self.told: list[dict[str, Any]] = []
        self._lines: queue.Queue[str] = queue.Queue()
        path = ":".join(str(ROOT / part) for part in ("", "server", "sql"))
        command = [
            sys.executable,
            "-m",
            "tests.cluster.node_process",
            hostport,
            node,
            str(SESSION_S),
            str(lease_s),
            *([] if directory is None else [str(directory)]),
        ]
        self.process = subprocess.Popen(
            [*prefix, *command],
            cwd=ROOT,
            env={"PYTHONPATH": path, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def await_word(self, *words: str) -> dict[str, Any]:
        """The next thing it tells that is one of these."""
        while True:
            word = json.loads(self._lines.get(timeout=PATIENCE_S))
            self.told.append(word)
            if word["what"] in words:
                return dict(word)

    def all(self, what: str) -> list[dict[str, Any]]:
        """Everything of a kind that it has reported by now."""
        while not self._lines.empty():
            self.told.append(json.loads(self._lines.get()))
        return [word for word in self.told if word["what"] == what]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


Start = Callable[..., NodeProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    nodes: list[NodeProcess] = []

    def begin(*arguments: Any, **options: Any) -> NodeProcess:
        nodes.append(NodeProcess(*arguments, **options))
        return nodes[-1]

    yield begin
    for node in nodes:
        node.end()


def leader_and_other(start: Start, hostport: str, **options: Any) -> tuple[NodeProcess, NodeProcess]:
    first = start(hostport, "a", **options)
    first.epoch = first.await_word("leads")["epoch"]
    other = start(hostport, "b")
    other.await_word("ready")
    return first, other


def test_killed(server: ZooKeeperServer, start: Start) -> None:
    first, other = leader_and_other(start, server.hostport)
    first.signal(signal.SIGKILL)
    first.process.wait()
    assert other.await_word("leads")["epoch"] == first.epoch + 1
    other.signal(signal.SIGTERM)
    other.await_word("resigned")


def test_stopped_for_longer_than_the_session_and_continued(server: ZooKeeperServer, start: Start) -> None:
    first, other = leader_and_other(start, server.hostport)
    first.signal(signal.SIGSTOP)
    leads = other.await_word("leads")
    first.signal(signal.SIGCONT)
    assert first.await_word("lost")["loss"] == "SESSION"
    other.signal(signal.SIGTERM)
    other.await_word("resigned")
    assert (
        max(word["asked_s"] for word in first.all("answers") if word["epoch"] < leads["epoch"])
        < leads["at_s"]
    )
    first.await_word("leads")


def test_cut_off(network: Network, tmp_path: Path, start: Start) -> None:
    host = network.add_host()
    zookeeper_host = network.add_host()
    with ZooKeeperServer(tmp_path / "zookeeper", place=zookeeper_host) as server:
        first, other = leader_and_other(start, server.hostport, prefix=host.prefix)
        host.cut()
        leads = other.await_word("leads")
        assert not first.all("lost")  # its log is fenced, and its lease is over: that is enough
        host.heal()
        assert first.await_word("lost")["loss"] == "SESSION"
        other.signal(signal.SIGTERM)
        other.await_word("resigned")
        again = first.await_word("leads")
        assert again["epoch"] > leads["epoch"]
        answers = [word for word in first.all("answers") if word["epoch"] < leads["epoch"]]
        assert max(word["asked_s"] for word in answers) < leads["at_s"]


def test_a_successor_does_not_wait_for_a_lease_that_was_given_back(
    server: ZooKeeperServer, start: Start
) -> None:
    first, other = leader_and_other(start, server.hostport, lease_s=60.0)
    first.signal(signal.SIGTERM)  # its lease of a minute would be waited out for longer than the test
    assert other.await_word("leads")["at_s"] - other.all("won")[0]["at_s"] < 60
    other.signal(signal.SIGTERM)
    other.await_word("resigned")


def test_a_node_id_in_use_is_refused(server: ZooKeeperServer, start: Start) -> None:
    start(server.hostport, "a").await_word("leads")
    refused = start(server.hostport, "a").await_word("refused", "ready")
    assert 'another process is node "a"' in refused["reason"]
