"""A cluster of the last release becomes one of this version, server by server, under load: and back again.

Clients with both drivers write all the time. Nothing that was acknowledged is lost, nothing is there twice,
no read misses the own write of its client, and the gap in writes of each step is one of a hand-over: compared
with that of a server of the old version that is restarted as it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import herdpy
from herdpy.dev import LocalCluster
from herdpy.formats import NEWEST_LEVEL
from herdpy.testing.process import await_until
from tests.upgrades.client import ACCOUNTS, MANY
from tests.upgrades.release import ROOT, VERSION, environment, run, unpack

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

SERVERS = ("server-1", "server-2", "server-3")
LEAST_GAP_S = 2.5
"""A gap no longer than this is one of a hand-over on a machine under load, whatever the others were."""


class Clients:
    """Processes that write: two with each driver."""

    def __init__(self, url: str, place: Path, drivers: Mapping[str, Path | None]) -> None:
        self.files = {name: place / f"{name}.jsonl" for name in drivers}
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-P", ROOT / "tests/upgrades/client.py", url, name, self.files[name]],
                env={**os.environ, **environment(release)},
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for name, release in drivers.items()
        ]

    def operations(self) -> dict[str, list[dict[str, Any]]]:
        """What each has done so far; a line that is being written is left out."""
        found = {}
        for name, path in self.files.items():
            lines = path.read_text().split("\n")[:-1] if path.exists() else []
            found[name] = [json.loads(line) for line in lines]
        return found

    def await_progress(self, writes: int = 5) -> None:
        """Return when each has so many more that are done."""

        def done() -> dict[str, int]:
            return {
                name: sum(one["outcome"] == "done" for one in found)
                for name, found in self.operations().items()
            }

        goal = {name: count + writes for name, count in done().items()}
        assert await_until(lambda: all(done()[name] >= goal[name] for name in goal), 60.0), (goal, done())

    def gap_s(self, since: float) -> float:
        """The longest time since then in which nothing was acknowledged."""
        ended = sorted(
            one["ended"]
            for found in self.operations().values()
            for one in found
            if one["outcome"] == "done" and one["ended"] >= since
        )
        return max(after - before for before, after in zip([since, *ended], ended, strict=False))

    def stop(self) -> None:
        """End them; fails when one has not ended well."""
        for process in self._processes:
            _out, said = process.communicate(timeout=60)
            assert process.returncode == 0, said.decode()

    def kill(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


def judge(clients: Clients, url: str) -> int:
    """Compare what clients were answered with the rows; how many operations were not done."""
    with herdpy.connect(url, autocommit=True) as conn:
        there: dict[tuple[str, int], int] = {
            (client, number): count
            for client, number, count in conn.execute(
                "SELECT client, number, count(*) FROM written GROUP BY client, number"
            ).fetchall()
        }
        assert conn.execute("SELECT sum(money), count(*) FROM account").fetchone() == (
            100 * ACCOUNTS,
            ACCOUNTS,
        )
    failed = 0
    for name, found in clients.operations().items():
        for one in found:
            rows = MANY if one["way"] == "many" else 1
            count = there.pop((name, one["number"]), 0)
            allowed = {"done": (rows,), "not done": (0,), "unknown": (0, rows)}[one["outcome"]]
            assert count in allowed, (name, one)
            assert one["seen"], (name, one)
            failed += one["outcome"] != "done"
    assert not there, "rows that no client wrote"
    return failed


class Mixed:
    """A cluster whose servers may be of either version."""

    def __init__(self, place: Path, release: Path) -> None:
        self.release = release
        self.old = dict.fromkeys(SERVERS, True)
        self.cluster = LocalCluster(place, servers=3, bookies=3, environment=self._environment)

    def _environment(self, name: str) -> Mapping[str, str]:
        return environment(self.release if self.old.get(name) else None)

    def url_of(self, name: str, port: str = "grpc") -> str:
        server = next(one for one in self.cluster.status().servers if one.id == name)
        return f"{port}://127.0.0.1:{getattr(server, f'{port}_port')}"

    def replace(self, name: str, *, old: bool) -> None:
        """Stop a server, which hands over, and start the other version; returns when it follows or leads."""
        self.cluster.stop(name)
        self.old[name] = old
        self.cluster.start(name)
        self.await_role(name)

    def await_role(self, name: str) -> None:
        def has_role() -> bool:
            found = {one.id: one.role for one in self.cluster.status().servers}
            return found[name] in ("leader", "follower")

        assert await_until(has_role, 60.0), self.cluster.log_tail(name)

    def version(self, name: str) -> str:
        """What the process says of itself."""
        answer = run(None, "-m", "herdpy.cli", "admin", "node", self.url_of(name), "--json")
        return str(json.loads(answer.stdout)["version"])


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("release"))


@pytest.fixture
def mixed(tmp_path: Path, release: Path) -> Iterator[Mixed]:
    mixed = Mixed(tmp_path / "c", release)
    with mixed.cluster:
        yield mixed


def upgrade(mixed: Mixed, name: str, *more: str) -> subprocess.CompletedProcess[str]:
    return run(None, "-m", "herdpy.cli", "admin", "upgrade", mixed.url_of(name), *more)


def test_server_by_server_under_load(mixed: Mixed, tmp_path: Path) -> None:
    cluster = mixed.cluster
    with herdpy.connect(cluster.url, autocommit=True) as conn:
        assert VERSION in conn.execute("SELECT version()").fetchone()[0]
        conn.execute("CREATE TABLE written (client TEXT, number INTEGER, part INTEGER)")
        conn.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, money INTEGER)")
        conn.execute(f"INSERT INTO account SELECT g, 100 FROM generate_series(0, {ACCOUNTS - 1}) AS g(g)")
        conn.execute("CREATE INDEX ON written (client, number)")
    drivers = {"old-1": mixed.release, "old-2": mixed.release, "new-1": None, "new-2": None}
    clients = Clients(cluster.url, tmp_path, drivers)
    steps: list[tuple[str, float]] = []

    def step(what: str, change: Callable[[], None]) -> None:
        began = time.monotonic()
        change()
        clients.await_progress()
        steps.append((what, clients.gap_s(began)))

    try:
        clients.await_progress()
        leader = cluster.await_leader()
        step(f"restart the leader, {VERSION}", lambda: mixed.replace(leader, old=True))
        for name in (*(one for one in SERVERS if one != cluster.await_leader()), cluster.await_leader()):
            part = "leader" if name == cluster.await_leader() else "follower"
            step(f"upgrade a {part}", lambda name=name: mixed.replace(name, old=False))
            assert mixed.version(name) == herdpy.__version__
        back = cluster.await_leader()
        step("the way back: the leader", lambda: mixed.replace(back, old=True))
        assert mixed.version(back) == VERSION
        other = next(one for one in SERVERS if one != back)
        refused = upgrade(mixed, other, "--finish")
        assert refused.returncode == 1
        assert back in refused.stderr
        assert VERSION in refused.stderr
        assert json.loads(upgrade(mixed, other, "--json").stdout)["level"] == 1
        step("upgrade it again", lambda: mixed.replace(back, old=False))
        for _ in range(2):
            finished = upgrade(mixed, other, "--finish", "--json")
            assert json.loads(finished.stdout)["level"] == NEWEST_LEVEL, finished.stderr
        clients.await_progress()
        _locked_out(mixed, other)
        clients.await_progress()
        clients.stop()
    finally:
        clients.kill()
    failed = judge(clients, cluster.url)
    print("\n| step | gap in writes |\n|---|---|")
    for what, gap_s in steps:
        print(f"| {what} | {gap_s:.2f} s |")
    count = sum(map(len, clients.operations().values()))
    print(f"{count} operations of four clients, {failed} of them not done")
    longest = max(3 * steps[0][1], LEAST_GAP_S)
    assert all(gap_s <= longest for _what, gap_s in steps), steps
    same = run(None, "-m", "herdpy.cli", "check", cluster.url)
    assert same.returncode == 0, same.stdout + same.stderr


def _locked_out(mixed: Mixed, name: str) -> None:
    """The old version, started in a finished cluster, serves nothing and leaves the replica as it is."""
    cluster = mixed.cluster
    cluster.stop(name)
    before = _files(cluster.data_path(name))
    mixed.old[name] = True
    cluster.start(name, wait=False)
    try:
        assert await_until(lambda: "it has format 2, this version knows 1" in cluster.log_tail(name), 60.0)
        page = mixed.url_of(name, "http")
        assert await_until(lambda: "herdpy" not in _tablespaces(page), 30.0)
    finally:
        cluster.stop(name)
    assert _files(cluster.data_path(name)) == before
    mixed.old[name] = False
    cluster.start(name)
    mixed.await_role(name)


def _tablespaces(page: str) -> list[str]:
    try:
        with urllib.request.urlopen(f"{page}/status", timeout=5) as answer:
            return [one["name"] for one in json.load(answer)["tablespaces"]]
    except OSError:
        return ["herdpy"]


def _files(place: Path) -> dict[str, bytes]:
    """The files of replicas, but those that say who has them open."""
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted((place / "tablespaces").rglob("*"))
        if path.is_file() and path.name not in ("LOCK", "lock.mdb", "opened", "closed")
    }
