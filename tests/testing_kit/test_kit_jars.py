"""Java, Maven and the jars: what is said where they are missing."""

import os
import subprocess
import sys

import pytest

from herdpy.testing import jars as jars_function
from herdpy.testing.java import cache_directory


@pytest.fixture
def tools(tmp_path):
    """A directory for programs that are found on the path, and nothing else is."""
    directory = tmp_path / "bin"
    directory.mkdir()

    def program(name, script):
        path = directory / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    program.path = directory
    return program


def fetch(tools, tmp_path, **environment):
    """Run the fetching of jars in a process that sees only `tools` and an empty cache."""
    environ = {
        name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "XDG_CACHE_HOME")
    }
    environ |= {"PATH": str(tools.path), "HERDPY_CACHE": str(tmp_path / "cache"), **environment}
    command = [sys.executable, "-m", "herdpy.testing"]
    return subprocess.run(command, capture_output=True, text=True, env=environ, check=False, timeout=60)


def fake_java(tools, version):
    tools("java", f"echo 'openjdk version \"{version}\" 2025-01-01' >&2")


def fake_maven(tools):
    """Copies nothing: makes the directory that it is given, with one jar, and counts its runs."""
    script = (
        'for word in "$@"; do case "$word" in -DoutputDirectory=*) out=${word#*=};; esac; done\n'
        f"/bin/mkdir -p $out && echo jar > $out/one.jar && echo run >> {tools.path}/runs"
    )
    tools("mvn", script)


def test_without_maven_the_packages_are_named(tools, tmp_path):
    done = fetch(tools, tmp_path)
    assert done.returncode == 1
    assert "Maven, which fetches BookKeeper" in done.stderr
    assert "apt-get install openjdk-17-jdk-headless maven" in done.stderr


def test_without_java_the_packages_are_named(tools, tmp_path):
    fake_maven(tools)
    done = fetch(tools, tmp_path)
    assert (done.returncode, "no Java was found" in done.stderr) == (1, True)
    assert "apt-get install openjdk-17-jdk-headless maven" in done.stderr


def test_old_java_is_refused_by_its_version(tools, tmp_path):
    fake_maven(tools)
    fake_java(tools, "11.0.2")
    done = fetch(tools, tmp_path)
    assert done.returncode == 1
    assert 'is not Java 17 or newer (openjdk version "11.0.2" 2025-01-01)' in done.stderr


def test_java_home_comes_first(tools, tmp_path):
    fake_maven(tools)
    fake_java(tools, "21.0.1")
    done = fetch(tools, tmp_path, JAVA_HOME=str(tmp_path / "nothing"))
    assert (done.returncode, f"in JAVA_HOME={tmp_path / 'nothing'}" in done.stderr) == (1, True)


def test_what_maven_says_is_shown_and_nothing_half_fetched_is_kept(tools, tmp_path):
    fake_java(tools, "17.0.1")
    tools("mvn", "echo 'repository not reachable'; exit 3")
    done = fetch(tools, tmp_path)
    assert done.returncode == 1
    assert "Maven could not fetch BookKeeper 4.17.3:\nrepository not reachable" in done.stderr
    fake_maven(tools)
    assert fetch(tools, tmp_path).returncode == 0


def test_jars_are_fetched_once_with_progress_on_stderr(tools, tmp_path):
    fake_java(tools, "17.0.1")
    fake_maven(tools)
    first, second = fetch(tools, tmp_path), fetch(tools, tmp_path)
    assert "fetching BookKeeper 4.17.3 into" in first.stderr
    assert "1 jars fetched" in first.stderr
    assert (second.stderr, second.stdout) == ("", first.stdout)
    assert (tools.path / "runs").read_text() == "run\n"


def test_processes_that_fetch_at_the_same_time_fetch_once(tools, tmp_path):
    fake_java(tools, "17.0.1")
    fake_maven(tools)
    environ = {**os.environ, "PATH": str(tools.path), "HERDPY_CACHE": str(tmp_path / "cache")}
    environ.pop("JAVA_HOME", None)
    command = [sys.executable, "-m", "herdpy.testing"]
    both = [
        subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in "ab"
    ]
    assert [one.wait(60) for one in both] == [0, 0]
    assert (tools.path / "runs").read_text() == "run\n"


def test_the_cache_may_be_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setenv("HERDPY_CACHE", str(tmp_path / "here"))
    assert cache_directory() == tmp_path / "here" / "bookkeeper-4.17.3"
    monkeypatch.delenv("HERDPY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "there"))
    assert cache_directory() == tmp_path / "there" / "herdpy" / "bookkeeper-4.17.3"


def test_real_jars_hold_what_servers_need():
    names = {path.name for path in jars_function().glob("*.jar")}
    assert {"bookkeeper-server-4.17.3.jar", "metrics-core-4.1.12.1.jar", "snappy-java-1.1.10.5.jar"} <= names
