"""Workflows and forms of .github: they run what `.ci/run` and make run, on every Python the package names.

actionlint judges the workflows where Go can fetch it (soak); what needs no other program is tested always.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = [
    path for path in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) if path.stem != "config"
]
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"


def load(path: Path) -> dict[Any, Any]:
    """A file of YAML; the key `on` is True to YAML 1.1."""
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def steps(path: Path) -> list[dict[str, Any]]:
    """Every step of every job."""
    return [step for job in load(path)["jobs"].values() for step in job["steps"]]


def test_the_workflows_are_these() -> None:
    assert [path.stem for path in WORKFLOWS] == ["ci", "docs", "release", "soak"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_little_rights_and_an_end(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 360
        assert set(job.get("permissions", {})) <= {"pages", "id-token"}
    for step in steps(path):
        assert ("uses" in step) != ("run" in step), step
        assert re.fullmatch(r"[\w./-]+@(v\d+|release/v1)", step.get("uses", "a/b@v1")), step


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_a_workflow_runs_is_there(path: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for run in [step["run"] for step in steps(path) if "run" in step]:
        if run.startswith("make "):
            assert run.split()[1] in targets | {".venv/.ready"}
        for named in re.findall(r"(?<![\w/])(?:\.ci|tests|tools)/[\w./]+", run):
            assert (ROOT / named).exists(), named


def test_ci_and_releases_run_what_a_commit_passes() -> None:
    for name in ("ci", "release"):
        assert {"run": ".ci/run"} in steps(ROOT / ".github" / "workflows" / f"{name}.yml")


def test_every_python_of_the_package_is_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    jobs = load(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    assert set(named) <= set(jobs["versions"]["strategy"]["matrix"]["python"])


def test_uv_has_the_version_of_the_checkout() -> None:
    (version,) = re.findall(r"uv==([\d.]+)", (ROOT / "tools" / "make-venv.sh").read_text(encoding="utf-8"))
    named = re.findall(r"uv==([\d.]+)", (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))
    assert named
    assert set(named) == {version}


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_one_that_github_shows(path: Path) -> None:
    form = load(path)
    assert form.keys() <= {"name", "description", "labels", "body"}
    assert {"name", "description", "body"} <= form.keys()
    ids = [field["id"] for field in form["body"]]
    assert len(ids) == len(set(ids))
    for field in form["body"]:
        assert field.keys() <= {"type", "id", "attributes", "validations"}
        assert field["type"] in ("textarea", "dropdown", "checkboxes", "input")
        assert field["attributes"]["label"]
        options = field["attributes"].get("options")
        assert bool(options) == (field["type"] in ("dropdown", "checkboxes"))


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("actionlint needs Go")
    lint = [go, "run", ACTIONLINT, "-shellcheck=", "-pyflakes="]
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(
        "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n      - uze: x\n", "utf-8"
    )
    seen = subprocess.run([*lint, wrong], capture_output=True, text=True, timeout=400, check=False)
    if "no such host" in seen.stderr or "dial tcp" in seen.stderr:
        pytest.skip("actionlint cannot be fetched")
    assert seen.returncode == 1
    assert "uze" in seen.stdout, seen.stderr
    done = subprocess.run([*lint, *WORKFLOWS], capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
