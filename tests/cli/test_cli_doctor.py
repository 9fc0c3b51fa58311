"""``herdpy doctor``: each finding, with a machine, a configuration or a cluster that is bad in that way."""

from __future__ import annotations

import datetime
import json
import os
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from herdpy.dev import LocalCluster
from herdpy.doctor import cluster, configuration, machine
from herdpy.doctor.findings import DoctorFinding, Level, worst
from herdpy.testing.process import PortReservation
from tests.cli.processes import command, environment
from tests.support.server_process import RunningServer

GOOD = machine.MachineFacts(
    directory="/srv",
    syncs_s=[0.001] * 10,
    free=500 << 30,
    total=1000 << 30,
    files_needed=3000,
    memory=64 << 30,
    memory_needed=10 << 30,
)
BAD: dict[str, tuple[str, Level, dict[str, Any], str]] = {
    "old Python": ("machine.python", Level.FAILURE, {"python": (3, 10, 4)}, "3.11"),
    "packages": ("machine.packages", Level.FAILURE, {"missing": ["lmdb"]}, "pip install"),
    "clock": ("machine.clock", Level.WARNING, {"clock": False}, "chrony"),
    "no word of the clock": ("machine.clock", Level.ADVICE, {"clock": None}, "chrony"),
    "slow disk": ("machine.sync", Level.WARNING, {"syncs_s": [0.03] * 64}, "SSD"),
    "a disk that is slow at times": (
        "machine.sync",
        Level.WARNING,
        {"syncs_s": [0.001] * 62 + [0.5] * 2},
        "other writers",
    ),
    "a disk that does not sync": ("machine.sync", Level.ADVICE, {"syncs_s": [0.00001] * 64}, "without power"),
    "a directory of root's": ("machine.sync", Level.FAILURE, {"unwritable": "Permission denied"}, "user"),
    "NFS": ("machine.file_system", Level.WARNING, {"file_system": "nfs4"}, "local disk"),
    "memory": ("machine.file_system", Level.WARNING, {"file_system": "tmpfs"}, "restarts"),
    "full": ("machine.space", Level.FAILURE, {"free": 100 << 20}, "53100"),
    "nearly full": ("machine.space", Level.WARNING, {"free": 50 << 30}, "operating.md"),
    "few files": ("machine.limits", Level.WARNING, {"files": 1024}, "LimitNOFILE"),
    "ulimit -v": ("machine.limits", Level.WARNING, {"address_space": 1 << 30}, "Remove"),
    "little memory": ("machine.memory", Level.WARNING, {"memory": 4 << 30}, "workers.maximum"),
    "swap": ("machine.swap", Level.ADVICE, {"swap": 8 << 30, "swappiness": 60}, "swappiness = 1"),
    "overcommit": ("machine.overcommit", Level.WARNING, {"overcommit": 2}, "Set it to 0"),
    "huge pages": ("machine.huge_pages", Level.ADVICE, {"huge_pages": "always"}, "madvise"),
    "port": (
        "machine.ports",
        Level.FAILURE,
        {"ports": [machine.PortUse(listener="http", address="::1", port=80, taken="taken by x")]},
        "http.port",
    ),
}


def one(findings: Iterator[DoctorFinding] | list[DoctorFinding], check: str) -> DoctorFinding:
    """The worst finding of that name."""
    mine = [each for each in findings if each.check == check]
    return next(each for each in mine if each.level is worst(mine))


def test_nothing_is_said_against_a_good_machine() -> None:
    assert worst(machine.judge(GOOD)) is Level.OK


@pytest.mark.parametrize("what", BAD)
def test_a_bad_machine(what: str) -> None:
    check, level, facts, advice = BAD[what]
    findings = list(machine.judge(replace(GOOD, **facts)))
    found = one(findings, check)
    assert (found.level, worst(findings)) == (level, level)
    assert advice in found.advice
    assert [each for each in findings if each.level is not Level.OK] == [found]


def test_this_machine_is_measured_and_nothing_is_left(tmp_path: Path) -> None:
    slow = machine.facts(
        tmp_path / "not" / "there", files_needed=1, memory_needed=1, measure=lambda _place: [0.1, 0.2]
    )
    assert one(list(machine.judge(slow)), "machine.sync").level is Level.WARNING
    facts = machine.facts(tmp_path, files_needed=1, memory_needed=1)
    assert len(facts.syncs_s) == machine.SYNCS
    assert all(taken_s > 0 for taken_s in facts.syncs_s)
    assert facts.memory
    assert facts.total
    assert facts.file_system
    assert list(tmp_path.iterdir()) == []

    def refused(_place: Path) -> list[float]:
        raise PermissionError(13, "Permission denied")

    shut = machine.facts(tmp_path, files_needed=1, memory_needed=1, measure=refused)
    assert one(list(machine.judge(shut)), "machine.sync").level is Level.FAILURE


def test_the_file_system_of_a_path() -> None:
    table = (
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:30 / /srv rw shared:1 - nfs4 host:/x rw\n"
        "31 22 0:31 / /srv/my\\040data rw - xfs /dev/sdb rw\n"
    )
    for path, kind in (("/srvx", "ext4"), ("/srv", "nfs4"), ("/srv/a", "nfs4"), ("/srv/my data/b", "xfs")):
        assert machine.file_system_of(Path(path), table) == kind
    assert machine.file_system_of(Path("/"), "") == ""


def test_a_port_that_is_taken_names_the_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
        use = machine.port_use("postgres", "127.0.0.1", port)
        assert use.taken.startswith(f"taken by process {os.getpid()} (")
    assert machine.port_use("postgres", "127.0.0.1", port).taken == ""
    assert "no address" in machine.port_use("postgres", "no.such.host.invalid", port).taken


# A configuration.


def doctor(place: Path, *words: object) -> tuple[int, list[dict[str, str]], str]:
    done = subprocess.run(
        command("doctor", *words, "--json"),
        cwd=place,
        env=environment(place),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout or "[]"), done.stderr


def test_a_wrong_configuration(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('[data]\ndirectory = "d"\n[postgres]\nprot = 5\n')
    code, found, _said = doctor(tmp_path, "--config", file)
    wrong = [each for each in found if each["check"] == "configuration.settings"]
    assert code == 1
    assert (
        "server.toml:4: there is no setting postgres.prot; did you mean postgres.port?"
        in wrong[0]["measured"]
    )


def test_secrets_that_others_read(tmp_path: Path) -> None:
    file, secret = tmp_path / "server.toml", tmp_path / "secret"
    secret.write_text("0123456789abcdef\n")
    secret.chmod(0o644)
    ports = "[http]\nenabled = false\n[grpc]\nenabled = false\n[postgres]\nport = 0\n"
    file.write_text(f'[data]\ndirectory = "{tmp_path}/d"\n[cluster]\nsecret_file = "{secret}"\n{ports}')
    file.chmod(0o666)
    loaded, _findings = configuration.load(file, {})
    texts = [each.measured for each in configuration.check(loaded, file) if each.level is Level.FAILURE]
    assert texts == [
        f"cluster.secret_file: others may use {secret} (0644)",
        f"others may write {file} (0666)",
    ]
    secret.chmod(0o600)
    file.chmod(0o640)
    assert worst(configuration.check(loaded, file)) is Level.OK


def test_certificates_end(tmp_path: Path) -> None:
    done = subprocess.run(
        command("init", "data", "--tls", "self-signed", "--yes"),
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    file = tmp_path / "server.crt"
    ends_s = ssl.cert_time_to_seconds(ssl._ssl._test_decode_cert(str(file))["notAfter"])  # type: ignore[attr-defined]
    ends = datetime.datetime.fromtimestamp(ends_s, datetime.UTC)
    for days, level in ((100, Level.OK), (29, Level.WARNING), (0, Level.FAILURE), (2000, Level.FAILURE)):
        now = ends - datetime.timedelta(days=days)
        assert worst(configuration.certificate(file, ["localhost", "127.0.0.1"], now)) is level
    wrong = list(configuration.certificate(file, ["db1.example.org"], ends - datetime.timedelta(days=99)))
    assert "is not for db1.example.org" in one(wrong, "configuration.certificate").measured


def test_a_server_without_a_supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "server.toml"
    file.write_text(
        f'[data]\ndirectory = "{tmp_path}/d"\n[cluster]\nzookeeper = "127.0.0.1:2181"\nnode = "a"\n'
    )
    loaded, _findings = configuration.load(file, {})
    assert one(configuration.check(loaded, file), "configuration.supervisor").level is Level.OK
    assert "is off" in configuration.supervisor(is_wanted=False).measured

    def refused(_pid: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    for way, said in ((refused, "Operation not permitted"), (lambda _pid: None, "no pidfd_open")):
        monkeypatch.setattr("herdpy.machine.end_of_process", way)
        found = one(configuration.check(loaded, file), "configuration.supervisor")
        assert found.level is Level.ADVICE
        assert said in found.measured


# Servers.


def test_a_server_that_runs_is_well_and_has_its_own_ports(tmp_path: Path) -> None:
    server = RunningServer(tmp_path / "data").ready()
    try:
        file = tmp_path / "server.toml"
        ports = {"postgres": server.port, "http": server.http_port, "grpc": server.grpc_port}
        lines = "".join(f"[{name}]\nport = {port}\n" for name, port in ports.items())
        file.write_text(f'[data]\ndirectory = "{tmp_path / "data"}"\n{lines}')
        url = f"herdpy://127.0.0.1:{server.port}/herdpy"
        code, found, said = doctor(tmp_path, url, "--config", file)
        mine = [each for each in found if each["check"] in ("machine.ports", "servers.reached")]
        assert [each["level"] for each in mine] == ["ok"] * 4, (found, said)
        assert any(each["check"] == "servers.clock" and each["level"] == "ok" for each in found)
        assert any(each["check"] == "servers.backups" and each["level"] == "advice" for each in found)
        assert code == (1 if any(each["level"] == "failure" for each in found) else 0)
    finally:
        server.close()
    code, found, _said = doctor(tmp_path, url)
    assert code == 1
    assert found[-1]["check"] == "servers.reached"
    assert found[-1]["measured"].startswith("08001")


NOW = datetime.datetime(2026, 1, 10, tzinfo=datetime.UTC)
NODE = {"node": "a", "version": "0.2.0"}
REPLICA = {"tablespace": "t", "node": "a", "state": "leading", "problem": None, "lag_entries": 0}
TABLESPACE = {"name": "t", "leader": "a", "state": "open", "expected_replicas": 1}
BACKUP = {"tablespace": "t", "finished": NOW - datetime.timedelta(hours=3)}
WELL = cluster.ServerFacts(
    nodes=[NODE], replicas=[REPLICA], tablespaces=[TABLESPACE], backups=[BACKUP], ahead_s={"a:1": 0.01}
)


@pytest.mark.parametrize(
    ("check", "level", "facts"),
    [
        ("servers.versions", Level.ADVICE, {"nodes": [NODE, {**NODE, "version": "0.1.0"}]}),
        ("servers.replicas", Level.WARNING, {"tablespaces": [{**TABLESPACE, "expected_replicas": 3}]}),
        ("servers.replicas", Level.FAILURE, {"tablespaces": [{**TABLESPACE, "leader": None}]}),
        ("servers.replicas", Level.WARNING, {"replicas": [{**REPLICA, "problem": "its disk is full"}]}),
        ("servers.lag", Level.WARNING, {"replicas": [{**REPLICA, "lag_entries": 10**6}]}),
        ("servers.clock", Level.WARNING, {"ahead_s": {"a:1": -3.0}}),
        ("servers.clock", Level.FAILURE, {"ahead_s": {"a:1": 300.0}}),
        ("servers.backups", Level.ADVICE, {"backups": []}),
        (
            "servers.backups",
            Level.WARNING,
            {"backups": [{"tablespace": "t", "finished": NOW - datetime.timedelta(days=9)}]},
        ),
        ("servers.reached", Level.FAILURE, {"problem": "08001: no"}),
    ],
)
def test_a_bad_cluster(check: str, level: Level, facts: dict[str, Any]) -> None:
    assert worst(cluster.judge_servers(WELL, NOW)) is Level.OK
    found = one(list(cluster.judge_servers(replace(WELL, **facts), NOW)), check)
    assert found.level is level
    assert found.advice


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_real_zookeeper_with_an_odd_tick_and_a_dead_bookie(tmp_path: Path) -> None:
    place = tmp_path / "c"
    with LocalCluster(place, servers=0, bookies=2) as there:
        from herdpy.zookeeper_access import IN_THE_CLEAR

        zookeeper = there.zookeeper
        fit = cluster.zookeeper_facts(zookeeper, 10.0, IN_THE_CLEAR)
        assert fit.granted_s == 10.0
        assert [each.mode for each in fit.servers] == ["standalone"]
        tick_ms = fit.servers[0].tick_ms
        assert tick_ms
        assert one(list(cluster.judge_zookeeper(fit)), "zookeeper.clock").level is Level.OK
        assert one(list(cluster.judge_zookeeper(fit)), "zookeeper.servers").level is Level.ADVICE
        short_s = tick_ms / 1000  # a session has two ticks at least
        odd = cluster.zookeeper_facts(zookeeper, short_s, IN_THE_CLEAR)
        found = one(list(cluster.judge_zookeeper(odd)), "zookeeper.tick")
        assert found.level is Level.WARNING
        assert f"tickTime={tick_ms // 2}" in found.advice
        with closing(PortReservation("127.0.0.1")) as free:
            half = cluster.zookeeper_facts(f"{zookeeper},127.0.0.1:{free.port}", 10.0, IN_THE_CLEAR)
            assert one(list(cluster.judge_zookeeper(half)), "zookeeper.servers").level is Level.FAILURE
            gone = cluster.zookeeper_facts(f"127.0.0.1:{free.port}", 1.0, IN_THE_CLEAR)
            assert one(list(cluster.judge_zookeeper(gone)), "zookeeper.session").level is Level.FAILURE
        well = cluster.bookie_facts(there.bookkeeper_uri, IN_THE_CLEAR)
        assert (len(well.appends_s), well.appended) == (cluster.APPENDS, 2)
        assert one(list(cluster.judge_bookies(well, 2, 2)), "bookies.up").level is Level.ADVICE
        there.kill("bookie-2")
        there.start("bookie-2")
        there.stop("bookie-2")
        dead = cluster.bookie_facts(there.bookkeeper_uri, IN_THE_CLEAR)
        findings = list(cluster.judge_bookies(dead, 2, 2))
        assert one(findings, "bookies.up").level is Level.FAILURE
        assert any("is down" in each.measured for each in findings)
        assert one(list(cluster.judge_bookies(dead, 1, 1)), "bookies.up").level is Level.WARNING
        listed = subprocess.run(
            command("ledgers", "ls", "--cluster", there.bookkeeper_uri, "--json"),
            env=environment(tmp_path), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert json.loads(listed.stdout) == [], "the ledgers that were measured with are gone"


def test_slow_bookies() -> None:
    many = [cluster.BookieSeen(id=str(n), state="writable", free=1 << 40, total=1 << 41) for n in range(4)]
    slow = cluster.BookieFacts(bookies=many, appends_s=[0.05] * 30, appended=3)
    assert one(list(cluster.judge_bookies(slow, 3, 2)), "bookies.journal").level is Level.WARNING
    quick = replace(slow, appends_s=[0.001] * 30)
    assert worst(cluster.judge_bookies(quick, 3, 2)) is Level.OK
    full = replace(
        quick, bookies=[*many, cluster.BookieSeen(id="9", state="writable", free=1 << 20, total=1 << 40)]
    )
    assert one(list(cluster.judge_bookies(full, 3, 2)), "bookies.space").level is Level.WARNING


def test_every_check_has_a_section() -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs/doctor.md").read_text(encoding="utf-8")
    sources = "".join(path.read_text() for path in (root / "herdpy/doctor").glob("*.py"))
    checks = set(re.findall(r'"((?:machine|configuration|zookeeper|bookies|servers)\.\w+)"', sources)) - {
        "zookeeper.key"
    }
    assert len(checks) > 20
    assert checks == set(re.findall(r"^### (\S+)$", page, re.MULTILINE))
    assert DoctorFinding("machine.file_system", Level.OK, "").page == "docs/doctor.md#machinefile_system"
