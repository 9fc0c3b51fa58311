"""The end of a process is attested by its supervisor, or by the node's next process: on a real ZooKeeper.

Leaders have a lease of an hour: who leads after one without waiting for that has found an attestation.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from herdpy import machine
from herdpy.bookkeeper.metadata.znodes import SessionKey
from herdpy.bookkeeper.metadata.zookeeper import KazooZnodes
from herdpy.testing import ZooKeeperServer
from herdpy.testing.tls import Certificates
from herdpy.zookeeper_access import ZooKeeperAccess
from herdpy_server.supervisor import former
from herdpy_server.supervisor.attestation import Attestation, attest
from tests.cluster.test_election_processes import LEASE_S, NodeProcess, Start, start

__all__ = ["start"]

PARENT = (sys.executable, "-m", "herdpy_server.supervisor", "run")
LONG_S = 3600.0
PATIENCE_S = 60.0


class Supervised:
    """A node with a supervisor, and one that takes over."""

    def __init__(
        self, server: ZooKeeperServer, start: Start, directory: Path, lease_s: float = LONG_S
    ) -> None:
        self.hostport = server.hostport
        self.start = start
        self.directory = directory
        self.first = start(server.hostport, "a", lease_s=lease_s, directory=directory)
        self.supervisor = self.first.await_word("supervised")
        self.epoch = self.first.await_word("leads")["epoch"]
        self.other = start(server.hostport, "b")
        self.other.await_word("ready")

    def other_leads(self) -> None:
        assert self.other.await_word("leads", "won")["what"] == "won"
        assert self.other.await_word("leads")["epoch"] == self.epoch + 1


@pytest.fixture
def supervised(server: ZooKeeperServer, start: Start, tmp_path: Path) -> Supervised:
    return Supervised(server, start, tmp_path / "a")


def await_end(pid: int) -> None:
    """Return when that process has ended."""
    try:
        end = machine.end_of_process(pid)
    except ProcessLookupError:
        return
    assert end is not None
    ready, _, _ = select.select([end], [], [], PATIENCE_S)
    os.close(end)
    assert ready, f"process {pid} has not ended"


def children(pid: int) -> list[int]:
    """The child processes that the kernel lists."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def successor_of(pid: int, of: NodeProcess) -> int:
    """The supervisor that a server has started after that one."""
    while not (found := [one for one in children(of.process.pid) if one != pid]):
        assert of.process.poll() is None
    return found[0]


def test_a_killed_leader_is_attested(supervised: Supervised) -> None:
    supervised.first.signal(signal.SIGKILL)
    supervised.other_leads()
    await_end(supervised.supervisor["pid"])


def test_a_leader_that_exits_by_itself_is_attested(supervised: Supervised) -> None:
    supervised.first.signal(signal.SIGUSR1)
    supervised.other_leads()
    await_end(supervised.supervisor["pid"])


def test_a_supervisor_ignores_what_ends_servers(supervised: Supervised) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(supervised.supervisor["pid"], number)
    supervised.first.signal(signal.SIGKILL)
    supervised.other_leads()


def test_a_supervisor_that_is_killed_is_replaced(supervised: Supervised) -> None:
    os.kill(supervised.supervisor["pid"], signal.SIGKILL)
    another = successor_of(supervised.supervisor["pid"], supervised.first)
    assert not supervised.first.all("lost")
    supervised.first.signal(signal.SIGKILL)
    supervised.other_leads()
    await_end(another)


def test_both_are_killed_and_the_next_process_attests_it(supervised: Supervised) -> None:
    supervised.other.end()
    supervised.first.signal(signal.SIGSTOP)  # so that it does not replace its supervisor
    os.kill(supervised.supervisor["pid"], signal.SIGKILL)
    supervised.first.signal(signal.SIGKILL)
    supervised.first.process.wait()
    again = supervised.start(supervised.hostport, "a", directory=supervised.directory)
    assert again.await_word("leads")["epoch"] == supervised.epoch + 1


def test_a_supervisor_that_was_stopped_attests_late_and_does_no_harm(
    server: ZooKeeperServer, start: Start, tmp_path: Path
) -> None:
    supervised = Supervised(server, start, tmp_path / "a", LEASE_S)
    pid = supervised.supervisor["pid"]
    os.kill(pid, signal.SIGSTOP)
    supervised.first.signal(signal.SIGKILL)
    supervised.other_leads()  # by the session's expiry, after the lease
    os.kill(pid, signal.SIGCONT)
    await_end(pid)
    assert not supervised.other.all("lost")
    supervised.other.signal(signal.SIGTERM)
    supervised.other.await_word("resigned")


def test_nothing_is_attested_of_a_process_that_ends_in_order(
    server: ZooKeeperServer, supervised: Supervised
) -> None:
    supervised.first.signal(signal.SIGTERM)
    supervised.first.await_word("resigned")
    supervised.first.process.wait()
    await_end(supervised.supervisor["pid"])
    assert not (supervised.directory / former.FILE_NAME).exists()
    supervised.other_leads()


def test_a_supervisor_may_be_the_parent(server: ZooKeeperServer, start: Start, tmp_path: Path) -> None:
    first = start(server.hostport, "a", PARENT, lease_s=LONG_S, directory=tmp_path / "a")
    word = first.await_word("supervised")
    assert word["pid"] == first.process.pid
    epoch = first.await_word("leads")["epoch"]
    other = start(server.hostport, "b")
    other.await_word("ready")
    os.kill(word["server"], signal.SIGKILL)
    assert other.await_word("leads")["epoch"] == epoch + 1
    assert first.process.wait() == 128 + signal.SIGKILL
    other.signal(signal.SIGTERM)
    other.await_word("resigned")


def test_a_parent_passes_signals_and_the_status_on(
    server: ZooKeeperServer, start: Start, tmp_path: Path
) -> None:
    first = start(server.hostport, "a", PARENT, directory=tmp_path / "a")
    first.await_word("leads")
    first.signal(signal.SIGTERM)
    first.await_word("resigned")
    assert first.process.wait() == 0
    again = start(server.hostport, "a", PARENT, directory=tmp_path / "a")
    again.await_word("leads")
    again.signal(signal.SIGUSR1)
    assert again.process.wait() == 7


CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
"""What follows is the first process of a PID namespace."""


@pytest.fixture
def contained() -> None:
    if subprocess.run([*CONTAINER, "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs the right to make PID namespaces")


@pytest.mark.usefixtures("contained")
def test_a_supervisor_that_ends_with_its_container_is_made_up_for(
    server: ZooKeeperServer, start: Start, tmp_path: Path
) -> None:
    first = start(server.hostport, "a", CONTAINER, lease_s=LONG_S, directory=tmp_path / "a")
    epoch = first.await_word("leads")["epoch"]
    (contained,) = children(first.process.pid)
    (supervisor,) = children(contained)
    os.kill(contained, signal.SIGKILL)
    await_end(supervisor)
    again = start(server.hostport, "a", CONTAINER, directory=tmp_path / "a")
    assert again.await_word("leads")["epoch"] == epoch + 1


@pytest.mark.usefixtures("contained")
def test_a_supervisor_is_the_first_process_of_a_container(
    server: ZooKeeperServer, start: Start, tmp_path: Path
) -> None:
    first = start(server.hostport, "a", (*CONTAINER, *PARENT), lease_s=LONG_S, directory=tmp_path / "a")
    epoch = first.await_word("leads")["epoch"]
    other = start(server.hostport, "b")
    other.await_word("ready")
    (supervisor,) = children(first.process.pid)
    (served,) = children(supervisor)
    os.kill(served, signal.SIGKILL)
    assert other.await_word("leads")["epoch"] == epoch + 1
    other.signal(signal.SIGTERM)
    other.await_word("resigned")


def test_zookeeper_is_reached_by_tls(tmp_path: Path) -> None:
    certificates = Certificates.issue(tmp_path, "127.0.0.1")
    access = ZooKeeperAccess(
        tls=True,
        ca=str(certificates.authority),
        certificate=str(certificates.certificate),
        key=str(certificates.key),
    )

    async def ended(hostport: str) -> None:
        owner = KazooZnodes(hostport, session_timeout_s=60.0, access=access)  # it would not expire meanwhile
        await owner.start()
        await owner.create("/leader", ephemeral=True)
        assert owner.session_key is not None
        one = Attestation(
            zookeeper=hostport,
            access=access,
            session_timeout_s=60.0,
            session=owner.session_key,
            path="/of/a",
            data=b"ended",
        )
        await attest(msgspec.json.decode(msgspec.json.encode(one), type=Attestation))
        await owner.close()
        looking = KazooZnodes(hostport, access=access)
        await looking.start()
        assert await looking.exists("/leader") is None
        assert (await looking.get("/of/a")).data == b"ended"
        await looking.close()

    with ZooKeeperServer(tmp_path / "zookeeper", certificates=certificates) as server:
        asyncio.run(ended(server.hostport))


# The file.

KEY = SessionKey(0x1234, bytes(range(16)))


def test_the_next_process_finds_the_session(tmp_path: Path) -> None:
    former.keep(tmp_path, "a", "1", KEY)
    former.keep(tmp_path, "a", "2", KEY)
    found = former.find(tmp_path)
    assert found is not None
    assert (found.node, found.instance, found.session) == ("a", "2", KEY)
    assert (tmp_path / former.FILE_NAME).stat().st_mode & 0o777 == 0o600
    former.forget(tmp_path)
    assert former.find(tmp_path) is None


def test_a_copy_of_the_directory_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    former.keep(tmp_path, "a", "1", KEY)
    (tmp_path / "copy" / former.FILE_NAME).write_bytes((tmp_path / former.FILE_NAME).read_bytes())
    assert former.find(tmp_path / "copy") is None


@pytest.mark.parametrize("boot", ["", "another"])
def test_another_run_of_the_machine_proves_nothing(
    boot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former.keep(tmp_path, "a", "1", KEY)
    monkeypatch.setattr(machine, "boot_id", lambda: boot)
    assert former.find(tmp_path) is None


@pytest.mark.parametrize("damage", [b"", b"{", b'{"format": 1}'])
def test_a_damaged_file_is_passed_over(damage: bytes, tmp_path: Path, caplog: Any) -> None:
    (tmp_path / former.FILE_NAME).write_bytes(damage)
    assert former.find(tmp_path) is None
    assert "not understood" in caplog.text
