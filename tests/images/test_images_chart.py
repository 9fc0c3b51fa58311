"""The chart by helm: it renders for many values, Kubernetes' schemas fit, and wrong values are refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.make_manifests import CHART, MANIFESTS, manifests

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
KUBERNETES = ("1.27.0", "1.37.0")  # the chart's oldest, and the newest that there are schemas of
VALUES = [
    (),
    ("zookeeper.enabled=false", "zookeeper.servers=zk-0.zk:2181"),
    ("tls.secretName=t", "tls.ca=true", "serviceMonitor.enabled=true", "antiAffinity=soft"),
    (
        "podDisruptionBudgets.enabled=false", "networkPolicy.enabled=false", "firstRole.enabled=false",
        "antiAffinity=none", "zookeeper.replicas=1", "bookkeeper.replicas=1", "server.replicas=1",
    ),
    ("fullnameOverride=db", "server.storage.className=fast", "imagePullSecrets[0].name=hidden"),
]  # fmt: skip


@pytest.fixture(scope="module")
def tools():
    """Where helm, kubeconform and the schemas are."""
    done = subprocess.run(
        ["sh", ROOT / "tools" / "install-kubernetes-tools.sh"], check=True, capture_output=True, text=True
    )
    return Path(done.stdout.splitlines()[-1])


def helm(tools, *arguments):
    command = [tools / "bin" / "helm", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def rendered(tools, values, release="r"):
    given = [word for one in values for word in ("--set", one)]
    done = helm(tools, "template", release, CHART, "--namespace", "n", *given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kubeconform(tools, text, version):
    location = f"{tools}/schemas/v{version}-local-strict/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    return subprocess.run(
        [
            tools / "bin" / "kubeconform", "-strict", "-summary", "-kubernetes-version", version,
            "-schema-location", location, "-skip", "ServiceMonitor",
        ],
        input=text, check=False, capture_output=True, text=True,
    )  # fmt: skip


def test_helm_has_nothing_to_say_against_the_chart(tools):
    done = helm(tools, "lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("values", VALUES, ids=["defaults", "external", "tls", "least", "named"])
def test_what_is_rendered_fits_the_schemas_of_kubernetes(tools, values, version):
    done = kubeconform(tools, rendered(tools, values), version)
    assert done.returncode == 0, done.stdout
    assert "Invalid: 0, Errors: 0" in done.stdout


def test_the_schemas_refuse_what_is_wrong(tools):
    text = rendered(tools, ()).replace("terminationGracePeriodSeconds: 150", "terminationGrace: 150")
    done = kubeconform(tools, text, KUBERNETES[-1])
    assert done.returncode == 1
    assert "terminationGrace" in done.stdout


@pytest.mark.parametrize(
    "value",
    [
        "server.replics=3", "zookeeper.replicas=2", "antiAffinity=always", "server.storage.size=much",
        "server.settings.workers=4", "zookeeper.enabled=false",
    ],
)  # fmt: skip
def test_values_that_are_wrong_are_refused(tools, value):
    assert helm(tools, "template", "r", CHART, "--set", value).returncode != 0


def test_two_releases_in_one_namespace_have_nothing_in_common(tools):
    names = [
        {line for line in rendered(tools, (), release).splitlines() if line.startswith("  name: ")}
        for release in ("one", "two")
    ]
    assert names[0]
    assert not names[0] & names[1]


def test_the_manifests_are_the_chart(tools):
    made = manifests(str(tools / "bin" / "helm"))
    for name, text in made.items():
        assert (MANIFESTS / name).read_text() == text, f"{name}: make manifests"
