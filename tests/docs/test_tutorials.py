"""The tutorials that need processes beside them: a server on free ports, and a whole cluster (soak).

Pages: "server.md", "cluster.md". What a reader starts in a terminal of its own is started here, on free
ports, which take the place of the ones in the page.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy.dev import LocalCluster
from tests.docs.test_examples import run_page
from tests.support.server_process import RunningServer

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"


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
