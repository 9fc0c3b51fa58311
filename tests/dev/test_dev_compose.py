"""docker/compose.cluster.yaml, held against the configurations and images as far as no engine is needed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from herdpy.testing.java import BOOKKEEPER_VERSION
from herdpy_server.config import load
from herdpy_server.config.fields import all_settings
from tests.dev.test_dev_conf import properties

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
FILE = DOCKER / "compose.cluster.yaml"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
BOOKIES = [f"bookie-{number}" for number in (1, 2, 3)]
SERVERS = [f"server-{number}" for number in (1, 2, 3)]
# The Compose Specification's names for a service, as far as they are used here.
KNOWN = {
    *("image", "build", "command", "entrypoint", "environment", "ports", "volumes", "hostname", "user"),
    *("restart", "stop_grace_period", "depends_on", "healthcheck", "mem_limit", "ulimits", "read_only"),
    *("tmpfs", "cap_drop", "security_opt"),
}
# What the images have: zookeeper's Dockerfile installs netcat, and BookKeeper's scripts are run by bash.
COMMANDS = {"zookeeper": {"bash", "echo", "nc", "grep"}, "apache/bookkeeper": {"bash", "exec"}}


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    """The services, with what they take from templates."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]
    return found


def mounts(service: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """By the place in the container: what is mounted there, and how."""
    parts = [volume.split(":") for volume in service.get("volumes", [])]
    return {part[1]: (part[0], part[2] if len(part) > 2 else "rw") for part in parts}


def test_there_are_zookeeper_three_bookies_and_three_servers(services):
    assert list(services) == ["zookeeper", "bookkeeper-metadata", *BOOKIES, *SERVERS]
    for name in ("zookeeper", *BOOKIES, *SERVERS):
        assert services[name]["hostname"] == name


def test_every_key_is_one_of_the_specification(services):
    document = yaml.safe_load(FILE.read_text())
    assert {key for key in document if not key.startswith("x-")} == {"name", "services", "volumes"}
    for service in services.values():
        assert service.keys() <= KNOWN


def test_images_are_pinned_and_bookies_are_of_the_version_that_is_tested(services):
    images = {service["image"] for service in services.values() if "build" not in service}
    assert all(re.fullmatch(r"[\w./-]+:\d+\.\d+\.\d+", image) for image in images)
    assert f"apache/bookkeeper:{BOOKKEEPER_VERSION}" in images
    for name in SERVERS:
        build = services[name]["build"]
        assert (DOCKER / build["context"] / build["dockerfile"]).resolve() == DOCKER / "Dockerfile"


def test_what_is_mounted_is_there_and_what_is_kept_is_declared(services):
    declared = set(yaml.safe_load(FILE.read_text())["volumes"])
    used = []
    for service in services.values():
        for source, how in mounts(service).values():
            if source.startswith("."):
                assert (DOCKER / source).resolve().is_file()
                assert how == "ro"
            else:
                used.append(source)
    assert sorted(used) == sorted(declared)  # each by one service


def test_data_is_on_volumes(services):
    zookeeper, bookie = properties(ROOT / "conf/zookeeper.cfg"), properties(ROOT / "conf/bookkeeper.conf")
    assert {zookeeper["dataDir"], zookeeper["dataLogDir"]} <= mounts(services["zookeeper"]).keys()
    for name in BOOKIES:
        assert {bookie["journalDirectories"], bookie["ledgerDirectories"]} <= mounts(services[name]).keys()
    for name in SERVERS:
        assert load(ROOT / "conf/cluster.toml").config.data.directory in mounts(services[name])


def test_names_and_ports_agree_with_the_configurations(services):
    zookeeper, bookie = properties(ROOT / "conf/zookeeper.cfg"), properties(ROOT / "conf/bookkeeper.conf")
    host, _, port = load(ROOT / "conf/cluster.toml").config.cluster.zookeeper.partition(":")
    assert host in services
    assert port == zookeeper["clientPort"]
    assert f" {port} " in services["zookeeper"]["healthcheck"]["test"][-1]
    for name in BOOKIES:
        assert services[name]["healthcheck"]["test"][-1].endswith(f"/{bookie['bookiePort']}")
        assert services[name]["environment"]["BOOKIE_CONF"] in mounts(services[name])
    published = [port.split(":") for name in SERVERS for port in services[name]["ports"]]
    assert {address for address, _, _ in published} == {"127.0.0.1"}
    assert len({outside for _, outside, _ in published}) == len(published)
    config = load(ROOT / "conf/cluster.toml").config
    doors = {str(door.port) for door in (config.postgres, config.http, config.grpc)}
    assert {inside for _, _, inside in published} == doors


@pytest.mark.parametrize("name", SERVERS)
def test_the_configuration_of_each_server_is_right(services, name):
    service = services[name]
    words = service["command"]
    assert words == ["--config", "/etc/herdpy/cluster.toml"]
    assert mounts(service)[words[1]][0] == "../conf/cluster.toml"
    image = re.search(r"ENV HERDPY_DATA_DIRECTORY=.*?\n(?! )", DOCKERFILE, re.DOTALL)
    assert image is not None
    ours = dict(pair.split("=", 1) for pair in image[0].replace("\\\n", " ").split()[1:])
    known = {setting.variable for setting in all_settings().values()}
    assert service["environment"].keys() <= known
    config = load(ROOT / "conf/cluster.toml", environment={**ours, **service["environment"]}).config
    assert (config.cluster.node, config.cluster.advertise) == (name, name)


def test_whoever_depends_on_others_waits_until_they_serve(services):
    for service in services.values():
        for other, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[other]
            else:
                assert how["condition"] == "service_completed_successfully"
                assert services[other]["restart"] == "on-failure"
    assert "HEALTHCHECK" in DOCKERFILE  # the servers' own
    assert all(set(services[name]["depends_on"]) == {"zookeeper", *BOOKIES} for name in SERVERS)


def test_health_checks_are_commands_that_the_images_have(services):
    for service in services.values():
        if "healthcheck" not in service:
            continue
        kind, shell, flag, text = service["healthcheck"]["test"]
        assert (kind, shell, flag) == ("CMD", "bash", "-c")
        subprocess.run(["bash", "-n", "-c", text], check=True)  # is it a sentence?
        used = {part.split()[0] for part in text.split("|")}
        assert used <= COMMANDS[service["image"].split(":")[0]]


def test_the_check_of_a_bookie_fails_where_nobody_listens(services):
    text = services["bookie-1"]["healthcheck"]["test"][-1].replace("/3181", "/1")
    done = subprocess.run(["bash", "-c", text], check=False, capture_output=True)
    assert done.returncode != 0


def test_nothing_has_more_rights_or_memory_than_it_needs(services):
    for service in services.values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert re.fullmatch(r"\d+[mg]", service["mem_limit"])


def test_commands_for_people_name_the_file(services):
    head = [line for line in FILE.read_text().splitlines() if line.startswith("#   docker compose")]
    assert head
    assert all(f"-f {os.path.relpath(FILE, ROOT)}" in line for line in head)
