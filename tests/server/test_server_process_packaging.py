"""docker/ and the systemd unit: held against the defaults, built and verified where that can be done."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from herdpy_server.config import ServerConfig, load
from herdpy_server.config.fields import all_settings

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
UNITS = ROOT / "deploy" / "systemd"
UNIT = UNITS / "herdpy.service"
KNOWN = {
    *(
        "ARG",
        "FROM",
        "WORKDIR",
        "RUN",
        "COPY",
        "ENV",
        "USER",
        "VOLUME",
        "EXPOSE",
        "STOPSIGNAL",
        "HEALTHCHECK",
    ),
    *("ENTRYPOINT", "CMD"),
}


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile; ValueError for a line that is none."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = []
    for line in filter(str.strip, joined.splitlines()):
        name, _, rest = line.strip().partition(" ")
        if name not in KNOWN or not rest.strip():
            raise ValueError(f"no instruction: {line}")
        found.append((name, rest.strip()))
    return found


def stages(found: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Cut at each FROM."""
    cut: list[list[tuple[str, str]]] = []
    for name, rest in found:
        if name == "FROM":
            cut.append([])
        if name != "ARG":
            cut[-1].append((name, rest))
    return cut


def variables(stage: list[tuple[str, str]]) -> dict[str, str]:
    """What ENV sets."""
    return dict(pair.split("=", 1) for name, rest in stage if name == "ENV" for pair in rest.split())


@pytest.fixture(scope="module")
def final() -> dict[str, str]:
    """The last stage, by instruction (the last of each)."""
    return dict(stages(instructions(DOCKERFILE.read_text()))[-1])


def test_every_line_is_an_instruction_of_a_stage_with_a_pinned_image():
    found = instructions(DOCKERFILE.read_text())
    assert found[0][0] == "ARG"
    assert re.fullmatch(r"BASE=python:\d+\.\d+-slim-\w+", found[0][1])
    for stage in stages(found):
        assert re.fullmatch(r"\$\{BASE\}( AS \w+)?", stage[0][1])


def test_a_line_that_is_none_is_seen():
    with pytest.raises(ValueError, match="no instruction: RNU x"):
        instructions("FROM a:1\nRNU x\n")


def test_the_server_does_not_run_as_root(final):
    assert final["USER"] not in {"root", "0"}


def test_the_doors_of_the_image_are_those_of_the_configuration(final):
    config = ServerConfig()
    ports = {config.postgres.port, config.http.port, config.grpc.port}
    assert {int(port) for port in final["EXPOSE"].split()} == ports
    assert f"127.0.0.1:{config.http.port}/ready" in final["HEALTHCHECK"]
    assert final["STOPSIGNAL"] == "SIGTERM"


def test_the_configuration_of_the_image_is_right(final):
    environment = variables(stages(instructions(DOCKERFILE.read_text()))[-1])
    known = {setting.variable for setting in all_settings().values()}
    assert {name for name in environment if name.startswith("HERDPY_")} <= known
    config = load(ROOT / "conf" / "server.toml", environment=environment).config
    assert config.data.directory == final["VOLUME"]
    assert config.postgres.addresses == ("*",)


def test_the_command_is_run_without_a_shell(final):
    assert json.loads(final["ENTRYPOINT"]) == ["herdpy", "server"]
    assert json.loads(final["CMD"]) == ["--config", "/etc/herdpy/server.toml"]


def test_what_is_copied_is_there_and_is_not_ignored():
    ignore = (ROOT / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    allowed = [line[1:] for line in ignore if line.startswith("!")]
    for name, rest in instructions(DOCKERFILE.read_text()):
        if name != "COPY" or "--from" in rest:
            continue
        for source in rest.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert any(fnmatch.fnmatch(source, pattern) for pattern in allowed), source


def test_the_packages_of_the_wheel_are_all_copied():
    text = (ROOT / "pyproject.toml").read_text()
    packages = re.search(r"\[tool.hatch.build.targets.wheel\]\npackages = \[(.*?)\]", text, re.DOTALL)
    assert packages is not None
    roots = {name.split("/")[0] for name in re.findall(r'"([^"]+)"', packages[1])}
    copied = {rest.split()[0] for name, rest in instructions(DOCKERFILE.read_text()) if name == "COPY"}
    assert roots <= copied


def docker_daemon() -> str | None:
    """Why no image can be built here; None when it can."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    if "DOCKER_HOST" not in os.environ:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect("/var/run/docker.sock")
            except OSError as error:
                return f"no docker daemon runs: {error.strerror}"
    return None


@pytest.mark.timeout(900)
@pytest.mark.skipif(docker_daemon() is not None, reason=str(docker_daemon()))
def test_the_image_can_be_built_and_knows_its_configuration():
    tag = f"herdpy-test:{os.getpid()}"
    build = ["docker", "build", "--quiet", "--file", str(DOCKERFILE), "--tag", tag, str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    try:
        check = ["docker", "run", "--rm", tag, "--config", "/etc/herdpy/server.toml", "--check-config"]
        done = subprocess.run(check, check=True, capture_output=True, text=True)
        assert done.stdout == "The configuration is right.\n"
    finally:
        subprocess.run(["docker", "image", "rm", "--force", tag], check=True, capture_output=True)


# systemd


def unit() -> dict[str, str]:
    """The settings of the unit (the last of each)."""
    return dict(
        line.split("=", 1)
        for line in UNIT.read_text().splitlines()
        if "=" in line and not line.startswith("#")
    )


NEEDS_SYSTEMD = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


def analyzed(*arguments: object) -> subprocess.CompletedProcess[str]:
    """What systemd-analyze says."""
    return subprocess.run(
        ["systemd-analyze", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"},
    )


@NEEDS_SYSTEMD
@pytest.mark.parametrize("name", sorted(path.name for path in UNITS.glob("*.service")))
def test_systemd_finds_nothing_wrong_with_a_unit(tmp_path, name):
    text = (UNITS / name).read_text()
    copy = tmp_path / name
    # What is started is not installed here: any program that is there will do.
    copy.write_text(re.sub(r"(?<=ExecStart=)/opt/\S+", str(Path(sys.executable).with_name("herdpy")), text))
    done = analyzed("verify", "--man=no", copy)
    said = [line for line in done.stderr.splitlines() if "herdpy" in line]
    assert (done.returncode, said) == (0, [])


@NEEDS_SYSTEMD
@pytest.mark.parametrize("path", sorted(UNITS.glob("*.service")), ids=lambda path: path.name)
def test_systemd_calls_the_exposure_of_a_unit_ok(path):
    done = analyzed("security", "--offline=yes", "--threshold=30", "--no-pager", path)
    overall = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert overall is not None
    assert float(overall[1]) <= 3.0


@NEEDS_SYSTEMD
def test_systemd_sees_a_unit_that_is_wrong_or_open(tmp_path):
    copy = tmp_path / "herdpy.service"
    copy.write_text(UNIT.read_text().replace("KillMode=process", "KillMode=sometimes"))
    assert "sometimes" in analyzed("verify", "--man=no", copy).stderr
    copy.write_text("[Service]\nExecStart=/bin/true\n")
    assert analyzed("security", "--offline=yes", "--threshold=30", "--no-pager", copy).returncode != 0


def test_the_units_of_java_have_the_disks_and_files_of_conf():
    from tests.dev.test_dev_conf import properties

    zookeeper, bookie = properties(ROOT / "conf/zookeeper.cfg"), properties(ROOT / "conf/bookkeeper.conf")
    disks = {
        "herdpy-zookeeper.service": {zookeeper["dataDir"], zookeeper["dataLogDir"]},
        "herdpy-bookie.service": {bookie["journalDirectories"], bookie["ledgerDirectories"]},
    }
    for name, wanted in disks.items():
        found = re.search(r"^ReadWritePaths=(.*)$", (UNITS / name).read_text(), re.MULTILINE)
        assert found is not None
        assert set(found[1].split()) == wanted


def test_the_command_of_the_unit_is_right(run_check, tmp_path):
    command = unit()["ExecStart"].split()
    assert command[1] == "server"
    assert command[-2:] == ["--data", "/var/lib/" + unit()["StateDirectory"]]
    arguments = [argument.replace("/etc/herdpy", str(ROOT / "conf")) for argument in command[2:]]
    assert run_check(arguments) == "The configuration is right.\n"


@pytest.fixture
def run_check():
    """Checks the configuration that a command line gives."""

    def check(arguments: list[str]) -> str:
        command = [sys.executable, "-m", "herdpy.cli", "server", *arguments, "--check-config"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return check


def test_systemd_waits_longer_than_sessions_may_go_on():
    assert int(unit()["TimeoutStopSec"]) > ServerConfig().shutdown.graceful_timeout_s
    compose = (ROOT / "docker" / "compose.yaml").read_text()
    grace = re.search(r"stop_grace_period: (\d+)s", compose)
    assert grace is not None
    assert int(grace[1]) > ServerConfig().shutdown.graceful_timeout_s


def test_systemd_is_told_when_it_is_ready_and_when_it_stops(start, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        server = start(NOTIFY_SOCKET=str(tmp_path / "notify")).ready()
        messages = [listener.recv(4096).decode() for _ in range(2)]
        server.stop()
        messages.append(listener.recv(4096).decode())
    assert messages == [
        "STATUS=opening the database",
        f"READY=1\nSTATUS=serving {server.data}",
        "STOPPING=1",
    ]
