"""The tutorials that need processes beside them: a server on free ports, and a whole cluster (soak).

Pages: "server.md", "cluster.md", "broker.md". What a reader starts in a terminal of its own is started here,
on free ports, which take the place of the ones in the page.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy.dev import LocalCluster
from tests.docs import test_examples
from tests.docs.test_examples import run_page
from tests.support.server_process import RunningServer

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    """The server that the reader has in another terminal."""
    made = RunningServer(tmp_path / "shop")
    yield made.ready()
    made.close()


def test_the_server_of_the_tutorial(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("psql") is None:
        pytest.skip("the tutorial needs psql")
    monkeypatch.chdir(tmp_path)
    text = (TUTORIALS / "server.md").read_text(encoding="utf-8")
    assert "\nherdpy server --data ./shop\n" in text
    assert len(re.findall(r"\b5432\b", text)) > 10
    page = tmp_path / "server.md"
    text = re.sub(r"\b5432\b", str(server.port), text).replace(":8480/", f":{server.http_port}/")
    text = re.sub(r"127.0.0.1:8481\b", f"127.0.0.1:{server.grpc_port}", text)
    page.write_text(text, encoding="utf-8")
    assert run_page(page, ("herdpy", "psql", "curl")) == 6


@pytest.fixture
def installed_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of the broker for the page's commands: its own command, and its drill, by entry points."""
    component = ROOT / "examples" / "broker"
    project = tomllib.loads((component / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = tmp_path / "site" / "herdpy_broker-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: herdpy-broker\nVersion: 0\n")
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    command = tmp_path / "bin" / "herdpy-broker"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom herdpy_broker.cli import app\n\napp()\n")
    command.chmod(0o755)
    programs = [str(command.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(programs))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(component), str(metadata.parent)]))


SERVER_PART, CLUSTER_PART = "\n## 5. ", "\n## 6. "


@pytest.mark.usefixtures("installed_broker")
def test_the_broker_of_the_tutorial(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("psql") is None:
        pytest.skip("the tutorial needs psql")
    monkeypatch.chdir(tmp_path)
    text, _cluster = (ROOT / "docs" / "broker.md").read_text(encoding="utf-8").split(CLUSTER_PART)
    assert "\nherdpy server --data ./shop\n" in text
    (exported,) = re.findall(r"^export HERDPY_URL=(\S+):5432/shop$", text, re.MULTILINE)
    monkeypatch.setenv("HERDPY_URL", f"{exported}:{server.port}/shop")
    page = tmp_path / "broker.md"
    page.write_text(text.replace("-p 5432 ", f"-p {server.port} "), encoding="utf-8")
    assert run_page(page, ("herdpy", "psql")) == 7


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("installed_broker")
def test_the_cluster_of_the_broker_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(test_examples, "COMMAND_TIMEOUT_S", 400)  # a drill makes a cluster, and removes it
    text, cluster = (ROOT / "docs" / "broker.md").read_text(encoding="utf-8").split(CLUSTER_PART)
    page = tmp_path / "broker.md"
    page.write_text(text.split(SERVER_PART)[0] + CLUSTER_PART + cluster, encoding="utf-8")
    try:
        assert run_page(page) == 9
    finally:
        if (tmp_path / "c").exists():
            LocalCluster(tmp_path / "c").down()
    assert (tmp_path / "storm.svg").exists()


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_the_cluster_of_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    try:
        assert run_page(TUTORIALS / "cluster.md") == 8
    finally:
        if (tmp_path / "c").exists():
            LocalCluster(tmp_path / "c").down()
    assert {path.name for path in tmp_path.iterdir()} == {"kill-leader.svg", "kill-leader.json"}
