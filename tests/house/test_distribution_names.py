"""The names under which HerdPy is installed: the constants, pyproject.toml, and lines of pip."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

from herdpy import __version__
from herdpy.distribution import CLIENT_NAME, EXTRAS, NAME, OURS, install_line, requirement

ROOT = Path(__file__).resolve().parents[2]
_INSTALLED = re.compile(
    r"\b(?:pip3?|pipx|uv pip|uv tool) install(?P<words>(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s`;&|)\"']+))+)"
    r"|\buv(?:x| add)(?P<others>(?:[ \t]+[^\s`;&|)]+)+)"
)
_OTHERS_PROJECT = re.compile(r"herdpy(?:\\?\[.*|[<>=!~].*)?")
"""``herdpy`` as a requirement: that name's project on PyPI is not this one."""
_EXTRA = re.compile(r"(?<![\w/-])herdpy\\{0,2}\[\w+(?:,\w+)*\]")
"""``herdpy[server]`` as prose names an extra; an index of Python's, ``herdpy["replicas"]``, is not meant."""


def texts() -> dict[str, str]:
    """Every file of the repository that has text, by its path."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = {}
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if name and name != "uv.lock" and path.is_file() and path != Path(__file__).resolve():
            try:
                found[name] = path.read_text()
            except UnicodeDecodeError:
                continue
    return found


def wrong(text: str) -> list[str]:
    """What in a text would install, or names as ours, the other project."""
    found = [match[0] for match in _EXTRA.finditer(text)]
    for match in _INSTALLED.finditer(text):
        words = (match["words"] or match["others"]).replace('"', " ").replace("'", " ").split()
        found += [match[0] for word in words if _OTHERS_PROJECT.fullmatch(word)]
    return found


def test_no_line_installs_the_other_project():
    assert {name: lines for name, text in texts().items() if (lines := wrong(text))} == {}


def test_such_lines_are_seen():
    for line in (
        "pip install herdpy",
        'pip install "herdpy[server]" pandas',
        "pip install -U herdpy>=1",
        "uv add herdpy",
        'uv pip install pandas "herdpy"',
        "Workers need `herdpy[spark]`.",
        r"the extra \"herdpy\\[server]\"",
    ):
        assert wrong(line), line
    for line in (
        f"pip install {NAME}",
        'pip install "herdpydb[server]"',
        'herdpy["replicas"]',
        "pip install -e .",
    ):
        assert not wrong(line), line


def project(folder: str = ".") -> dict[str, Any]:
    """What a distribution's pyproject.toml says of it."""
    found: dict[str, Any] = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    return found


def test_the_constants_are_the_names_of_the_projects():
    assert project()["name"] == NAME
    assert project("client")["name"] == CLIENT_NAME


def test_both_are_of_one_version_and_license():
    assert f"{CLIENT_NAME}=={__version__}" in project()["dependencies"]
    assert (ROOT / "client" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    for key in ("requires-python", "license", "urls"):
        assert project()[key] == project("client")[key]


NEEDED_BY_USERS_OF_IT = {"alembic", "polars", "pytest"}
"""Modules of programs that bring them: a migration, a program with frames, a test run. pygments comes
with rich, and typing_extensions is for type checkers alone."""


def imported() -> dict[str, str]:
    """By the first part of its name, a module of others' that HerdPy's packages import; and where."""
    line = re.compile(r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w.]*(?: as \w+)?$)", re.MULTILINE)
    found = {
        match[1] or match[2]: str(path.relative_to(ROOT))
        for folder in ("herdpy", "server/herdpy_server", "sql/herdpy_sql", "spark_jobs/herdpy_spark")
        for path in (ROOT / folder).rglob("*.py")
        for match in line.finditer(path.read_text())
    }
    return {name: path for name, path in found.items() if name not in {*OURS, *sys.stdlib_module_names}}


def normal(requirement: str) -> str:
    """The name in a requirement, as indexes have it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!;~ ]", requirement)[0]).lower()


def test_an_extra_is_known_for_every_module_of_others():
    plain = {normal(one) for one in project()["dependencies"] + project("client")["dependencies"]}
    owners = metadata.packages_distributions()
    unknown = {
        name: path
        for name, path in imported().items()
        if name not in EXTRAS and not plain & set(map(normal, owners.get(name, [name])))
    }
    assert set(unknown) <= NEEDED_BY_USERS_OF_IT | {"pygments", "typing_extensions"}, unknown


def test_the_extra_of_a_module_brings_it():
    extras = project()["optional-dependencies"] | project("client")["optional-dependencies"]
    owners = metadata.packages_distributions()

    def brought(extra: str) -> set[str]:
        inner = [re.fullmatch(rf"{NAME}(?:-client)?\[(\w+)\]", one) for one in extras[extra]]
        return {normal(one) for one in extras[extra]}.union(*(brought(one[1]) for one in inner if one))

    for name, extra in EXTRAS.items():
        assert {normal(one) for one in owners.get(name, [name])} & brought(extra) or name == "py4j", name


def test_hints_name_the_distribution():
    assert install_line() == "pip install herdpydb"
    assert install_line("server", "spark") == 'pip install "herdpydb[server,spark]"'
    assert install_line(name=CLIENT_NAME) == "pip install herdpydb-client"
    assert requirement("lake") == "herdpydb[lake]"


def test_every_extra_that_a_text_names_exists():
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    named = re.compile(rf"\b{NAME}\\{{0,2}}\[(\w[\w,]*)\]|install_line\(('\w+'|\"\w+\")")
    unknown = {
        (name, extra)
        for name, text in texts().items()
        for match in named.finditer(text)
        for extra in (match[1] or match[2].strip("\"'")).split(",")
        if extra not in extras
    }
    assert unknown == set()
