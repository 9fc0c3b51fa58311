"""deploy/kubernetes and the chart, held against conf/, docker/ and the server's settings; no helm is needed.

What helm and Kubernetes' own schemas say is in test_images_chart.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from herdpy.cli.app import app
from herdpy_server.config import load
from herdpy_server.config.fields import all_settings
from tests.dev.test_dev_conf import properties
from tests.images.manifests import manifest_objects
from tools.make_manifests import CHART, COPIES, MANIFESTS

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
PARTS = ("herdpy", "herdpy-bookie", "herdpy-zookeeper")
COMPOSE = yaml.safe_load((ROOT / "docker" / "compose.cluster.yaml").read_text())["services"]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def objects():
    """Every object of the manifests by kind and name."""
    return manifest_objects()


def pods(objects):
    """The templates of all pods, by the name of what makes them."""
    kinds = ("StatefulSet", "Job")
    return {name: one["spec"]["template"] for (kind, name), one in objects.items() if kind in kinds}


def containers(template):
    return [*template["spec"].get("initContainers", []), *template["spec"]["containers"]]


def environment(objects):
    """The server's variables with plain values."""
    (server,) = containers(pods(objects)["herdpy"])
    return {one["name"]: one["value"] for one in server["env"] if "value" in one}


def config(objects):
    """The configuration of a server of the manifests."""
    ours = {name: value for name, value in environment(objects).items() if name.startswith("HERDPY_")}
    return load(CONF / "cluster.toml", environment=ours).config


@pytest.mark.parametrize("name", COPIES)
def test_the_chart_has_the_configurations_of_conf(name):
    assert (CHART / "files" / name).read_text() == (CONF / name).read_text(), "make manifests"


def test_every_file_is_listed_for_kubectl():
    listed = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["resources"]
    there = {path.name for path in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml", "values.yaml"}
    assert set(listed) == there


def test_there_are_three_of_each_and_one_may_be_away(objects):
    for name in PARTS:
        own = objects["StatefulSet", name]["spec"]
        assert own["replicas"] == 3
        assert own["updateStrategy"] == {"type": "RollingUpdate"}
        assert own["minReadySeconds"] >= 10
        budget = objects["PodDisruptionBudget", name]["spec"]
        assert budget["maxUnavailable"] == 1
        assert budget["selector"] == own["selector"]
        labels = own["template"]["metadata"]["labels"]
        assert own["selector"]["matchLabels"].items() <= labels.items()
        (rule,) = own["template"]["spec"]["affinity"]["podAntiAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        assert rule["labelSelector"] == own["selector"]


def test_selectors_of_one_part_fit_no_other(objects):
    for name in PARTS:
        wanted = objects["StatefulSet", name]["spec"]["selector"]["matchLabels"]
        fitting = [
            other
            for other, template in pods(objects).items()
            if wanted.items() <= template["metadata"]["labels"].items()
        ]
        assert fitting == [name]


def test_nothing_has_more_rights_than_it_needs(objects):
    for template in pods(objects).values():
        assert template["spec"]["automountServiceAccountToken"] is False
        assert template["spec"]["enableServiceLinks"] is False  # HERDPY_PORT would be a setting
        context = template["spec"]["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        for one in containers(template):
            assert one["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"requests", "limits"} <= one["resources"].keys()
    user = re.search(r"useradd --uid (\d+)", DOCKERFILE)
    assert user is not None
    assert pods(objects)["herdpy"]["spec"]["securityContext"]["runAsUser"] == int(user[1])
    assert COMPOSE["zookeeper"]["user"] == "1000:1000"
    assert pods(objects)["herdpy-zookeeper"]["spec"]["securityContext"]["runAsUser"] == 1000


def test_everything_that_runs_on_has_probes_and_is_reached_by_its_ports(objects):
    for name in PARTS:
        (one,) = pods(objects)[name]["spec"]["containers"]
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= one.keys()
        ports = {port["name"] for port in one["ports"]}
        for (kind, service), found in objects.items():
            if (
                kind == "Service"
                and found["spec"]["selector"]
                == objects["StatefulSet", name]["spec"]["selector"]["matchLabels"]
            ):
                assert {port["targetPort"] for port in found["spec"]["ports"]} <= ports, service
        headless = objects["Service", objects["StatefulSet", name]["spec"]["serviceName"]]
        assert headless["spec"]["clusterIP"] == "None"
        assert headless["spec"]["publishNotReadyAddresses"] is True


def test_images_and_commands_are_those_of_compose(objects):
    images = {name: containers(template)[0]["image"] for name, template in pods(objects).items()}
    assert images["herdpy-zookeeper"] == COMPOSE["zookeeper"]["image"]
    assert images["herdpy-bookie"] == COMPOSE["bookie-1"]["image"]
    assert images["herdpy"].partition(":")[0] == COMPOSE["server-1"]["image"]
    (job,) = (name for name in images if name.startswith("herdpy-bookkeeper-metadata"))
    assert images[job] == COMPOSE["bookkeeper-metadata"]["image"]
    assert containers(pods(objects)[job])[0]["command"][-1] == COMPOSE["bookkeeper-metadata"]["command"][0]
    (server,) = containers(pods(objects)["herdpy"])
    assert server["command"] == COMPOSE["server-1"]["entrypoint"]
    assert server["command"][-2:] == ["herdpy", "server"]  # the image's own entry point, below the supervisor
    assert server["args"] == COMPOSE["server-1"]["command"]


def test_what_is_mounted_is_there_and_disks_are_where_the_configurations_say(objects):
    zookeeper, bookie = properties(CONF / "zookeeper.cfg"), properties(CONF / "bookkeeper.conf")
    places = {
        "herdpy": {str(Path(config(objects).data.directory).parent)},
        "herdpy-bookie": {bookie["journalDirectories"], bookie["ledgerDirectories"]},
        "herdpy-zookeeper": {zookeeper["dataDir"], zookeeper["dataLogDir"]},
    }
    for name, wanted in places.items():
        own = objects["StatefulSet", name]["spec"]
        claims = {claim["metadata"]["name"] for claim in own["volumeClaimTemplates"]}
        (one,) = own["template"]["spec"]["containers"]
        kept = {mount["mountPath"] for mount in one["volumeMounts"] if mount["name"] in claims}
        assert kept == wanted
    for template in pods(objects).values():
        volumes = {one["name"]: one for one in template["spec"]["volumes"]}
        for one in volumes.values():
            if "configMap" in one:
                assert ("ConfigMap", one["configMap"]["name"]) in objects


def test_names_and_ports_agree_with_the_configurations(objects):
    found = config(objects)
    ports = {port["name"]: port["containerPort"] for port in containers(pods(objects)["herdpy"])[0]["ports"]}
    assert ports == {"postgres": found.postgres.port, "http": found.http.port, "grpc": found.grpc.port}
    client = properties(CONF / "zookeeper.cfg")["clientPort"]
    hosts = found.cluster.zookeeper.split(",")
    assert len(hosts) == 3
    for number, host in enumerate(hosts):
        expected = f"herdpy-zookeeper-{number}.herdpy-zookeeper.herdpy.svc.cluster.local:{client}"
        assert host == expected
    conf = properties_of(objects["ConfigMap", "herdpy-bookie"]["data"]["bookkeeper.conf"])
    own = {"metadataServiceUri": f"zk+longhierarchical://{';'.join(hosts)}{found.cluster.ledgers_root}"}
    assert conf == {**properties(CONF / "bookkeeper.conf"), **own}
    ensemble = properties_of(objects["ConfigMap", "herdpy-zookeeper"]["data"]["zoo.cfg"])
    added = ensemble.keys() - properties(CONF / "zookeeper.cfg").keys()
    assert added == {"quorumListenOnAllIPs", "server.1", "server.2", "server.3"}
    for number, host in enumerate(hosts, 1):
        assert ensemble[f"server.{number}"] == f"{host.rpartition(':')[0]}:2888:3888"


def properties_of(text):
    pairs = [line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#")]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def test_every_variable_is_a_setting(objects):
    known = {setting.variable for setting in all_settings().values()}
    (server,) = containers(pods(objects)["herdpy"])
    assert {one["name"] for one in server["env"] if one["name"].startswith("HERDPY_")} <= known
    assert config(objects).shutdown.graceful_timeout_s == 30


def test_a_server_hands_over_before_it_gets_sigterm_and_has_the_time(objects):
    template = pods(objects)["herdpy"]
    (server,) = containers(template)
    command = server["lifecycle"]["preStop"]["exec"]["command"]
    assert command[:2] == ["sh", "-c"]
    subprocess.run(["sh", "-n", "-c", command[2]], check=True)
    words = command[2].split()
    assert words[:2] == ["exec", "timeout"]
    assert words[3:6] == ["herdpy", "tablespace", "hand-over"]
    assert CliRunner().invoke(app, ["tablespace", "hand-over", "--help"]).exit_code == 0
    grace_s = template["spec"]["terminationGracePeriodSeconds"]
    assert grace_s > int(words[2]) + config(objects).shutdown.graceful_timeout_s


def test_the_schema_of_values_knows_what_the_values_are():
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(found, part, place):
        if isinstance(found, dict) and "properties" in part and part.get("additionalProperties") is False:
            extra = part["properties"].keys() - found.keys()
            assert extra <= {"global", "requests", "limits", "claims"}, (place, extra)
            for name, value in found.items():
                compare(value, part["properties"][name], f"{place}.{name}")

    compare(values, schema, "")
