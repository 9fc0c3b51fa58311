"""The two wheels and sdists: what is in them, and that no file is in both."""

from __future__ import annotations

import email
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

import herdpy
from herdpy.distribution import CLIENT_NAME, NAME
from tests.install import environments
from tests.install.environments import ROOT
from tests.install.journeys import files_of

SOURCES = {
    "herdpy": "herdpy",
    "herdpy_server": "server/herdpy_server",
    "herdpy_sql": "sql/herdpy_sql",
    "herdpy_spark": "spark_jobs/herdpy_spark",
    "pyspark_herdpy": "spark_jobs/pyspark_herdpy",
    "herdpy_airflow": "orchestration/herdpy_airflow",
}


def archive(place: Path, name: str, suffix: str) -> Path:
    """The wheel or the sdist of a distribution."""
    (found,) = place.glob(f"{name.replace('-', '_')}-[0-9]*{suffix}")
    return found


def sources() -> set[str]:
    """The files of the packages that git knows, as a wheel has them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *SOURCES.values()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return {
        package + line.removeprefix(folder)
        for line in listed
        for package, folder in SOURCES.items()
        if line.startswith(f"{folder}/")
    }


def packed(wheel: Path) -> set[str]:
    """What of a wheel is no metadata."""
    return {name for name in files_of(wheel) if ".dist-info/" not in name}


def test_every_file_is_in_one_wheel(wheels: Path) -> None:
    whole, client = (packed(archive(wheels, name, ".whl")) for name in (NAME, CLIENT_NAME))
    assert whole & client == set()
    assert {one for one in sources() - whole - client if not one.endswith(".md")} == set()
    assert whole | client <= sources()


def test_sdists_have_no_strays(wheels: Path) -> None:
    files = {name: files_of(archive(wheels, name, ".tar.gz")) for name in (NAME, CLIENT_NAME)}
    folders = {name: {one.split("/")[0] for one in found} for name, found in files.items()}
    own = {".gitignore", "LICENSE", "PKG-INFO", "README.md", "hatch_build.py", "pyproject.toml"}
    roots = {"herdpy", "orchestration", "server", "spark_jobs", "sql", "tools"}
    assert folders[NAME] == {*own, *roots, "CHANGELOG.md"}
    assert folders[CLIENT_NAME] == {*own, "herdpy", "herdpy_sql"}
    for name in (NAME, CLIENT_NAME):
        strays = r"(^|/)(tests?|__pycache__|dbt_herdpy)/|\.pyc$|\.so$"
        assert [one for one in files[name] if re.search(strays, one)] == []


@pytest.mark.parametrize("name", [NAME, CLIENT_NAME])
def test_an_sdist_makes_the_same_wheel(wheels: Path, name: str, tmp_path: Path) -> None:
    environments.run("tar", "xzf", archive(wheels, name, ".tar.gz"), "-C", tmp_path)
    (unpacked,) = tmp_path.iterdir()
    environments.uv("build", "--quiet", "--wheel", "--out-dir", tmp_path / "again", unpacked)
    assert files_of(archive(tmp_path / "again", name, ".whl")) == files_of(archive(wheels, name, ".whl"))


@pytest.mark.parametrize("name", [NAME, CLIENT_NAME])
def test_the_metadata_is_complete(wheels: Path, name: str) -> None:
    wheel = archive(wheels, name, ".whl")
    with zipfile.ZipFile(wheel) as opened:
        (metadata,) = (one for one in opened.namelist() if one.endswith(".dist-info/METADATA"))
        found = email.message_from_bytes(opened.read(metadata))
        (license_file,) = (one for one in opened.namelist() if one.endswith("/licenses/LICENSE"))
        assert opened.read(license_file) == (ROOT / "LICENSE").read_bytes()
    assert found["Version"] == herdpy.__version__
    assert found["License-Expression"] == "Apache-2.0"
    assert {line.partition(",")[0] for line in found.get_all("Project-URL", [])} == {
        "Changelog",
        "Documentation",
        "Homepage",
        "Issues",
        "Source",
    }
    classifiers = found.get_all("Classifier", [])
    assert {one for one in classifiers if re.search(r":: 3\.\d+$", one)} == {
        f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)
    }
    text = found.get_payload()
    assert isinstance(text, str)
    assert re.findall(r"\]\((?!https?://|#)[^)]*\)", text) == []
    needed = found.get_all("Requires-Dist", [])
    if name == NAME:
        assert f"{CLIENT_NAME}=={herdpy.__version__}" in needed
    else:
        assert [one for one in needed if "extra ==" not in one] == ["psycopg[binary]>=3.3"]
