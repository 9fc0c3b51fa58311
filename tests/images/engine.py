"""A container engine for tests: podman with runc, with all of its files in one directory.

No daemon runs. What the tests make of containers, networks and volumes is gone when an engine is closed;
images stay in the directory of caches, so that the next run builds only what changed. Images of registries
are not needed: the base is a root file system made of Debian's packages, and what stands in for other images
is tagged as docker/ names them.

Health checks are run by the tests (``healthy``): podman leaves that to timers of systemd, which need not run
here.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from herdpy.testing.java import cache_directory, jars
from herdpy.testing.process import await_until

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
BASE = "localhost/herdpy-tests/base"
COMPOSE = ROOT / "docker" / "compose.cluster.yaml"
_SUITE = "trixie"  # has the Python of docker/Dockerfile's base
_PACKAGES = "ca-certificates,python3,python3-venv,python-is-python3,netcat-openbsd,openjdk-21-jre-headless"
_CERTIFICATES = Path("/etc/ssl/certs")
_RUN = Path("/run/herdpy-tests")
PATIENCE_S = 180.0

# A container gets the limits that its configuration names, as far as this machine lets anyone raise them.
_RUNTIME = """#!{python}
import json, os, resource, sys
arguments = sys.argv[1:]

def lower(path, part):
    with open(path) as file:
        config = json.load(file)
    for limit in part(config).get("rlimits", ()):
        most = resource.getrlimit(getattr(resource, limit["type"]))[1]
        if most != resource.RLIM_INFINITY:
            limit["hard"], limit["soft"] = min(limit["hard"], most), min(limit["soft"], most)
    with open(path, "w") as file:
        json.dump(config, file)

if "create" in arguments:
    bundle = arguments[arguments.index("--bundle") + 1]
    lower(os.path.join(bundle, "config.json"), lambda config: config["process"])
elif "--process" in arguments:
    lower(arguments[arguments.index("--process") + 1], lambda config: config)
os.execv({runc!r}, [{runc!r}, *arguments])
"""


def missing() -> str | None:
    """Why no container can be run here; None when it can."""
    if os.geteuid() != 0:
        return "containers of the tests are run by root"
    programs = ("podman", "runc", "mmdebstrap")
    absent = [name for name in programs if _program(name) is None]
    return f"{', '.join(absent)} not installed: sh tools/install-containers.sh" if absent else None


def _program(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class Engine:
    """Podman with a store of its own.

    Attributes:
        environment: with which podman and programs above it (podman-compose) use this store.
    """

    def __init__(self, directory: Path, store: Path) -> None:
        """``directory`` has what is gone after a boot, ``store`` the images, which stay.

        Always the same two: podman notes in the store where the other is.
        """
        directory.mkdir(parents=True, exist_ok=True)
        store.mkdir(parents=True, exist_ok=True)
        runtime = directory / "runtime"
        runtime.write_text(_RUNTIME.format(python=sys.executable, runc=_program("runc")))
        runtime.chmod(runtime.stat().st_mode | stat.S_IXUSR)
        (directory / "containers.conf").write_text(
            f'[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "{directory / "networks"}"\n'
            f'[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "here"\n'
            f'tmp_dir = "{directory / "libpod"}"\n[engine.runtimes]\nhere = ["{runtime}"]\n'
        )
        (directory / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{store}"\nrunroot = "{directory / "run"}"\n'
        )
        self.environment = {
            **os.environ,
            "CONTAINERS_CONF": str(directory / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(directory / "storage.conf"),
        }

    def run(
        self, *arguments: object, check: bool = True, timeout_s: float = 600.0
    ) -> subprocess.CompletedProcess[str]:
        """One command of podman; AssertionError with what it printed when it fails, if ``check``."""
        done = subprocess.run(
            ["podman", *map(str, arguments)],
            env=self.environment, capture_output=True, text=True, check=False, timeout=timeout_s,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"podman {arguments}: {done.stdout}\n{done.stderr}"
        return done

    def out(self, *arguments: object) -> str:
        """What a command of podman prints."""
        return self.run(*arguments).stdout.strip()

    def state(self, container: str) -> dict[str, Any]:
        """What podman says of a container."""
        found: dict[str, Any] = json.loads(self.out("inspect", container))[0]
        return found

    def healthy(self, container: str) -> bool:
        """Run a container's health check once."""
        return self.run("healthcheck", "run", container, check=False).returncode == 0

    def await_healthy(self, container: str) -> None:
        """Until its health check passes; AssertionError with its log where it does not."""
        assert await_until(lambda: self.healthy(container), PATIENCE_S), self.logs(container)

    def logs(self, container: str) -> str:
        """What it printed."""
        done = self.run("logs", "--tail", "60", container, check=False)
        return done.stdout + done.stderr

    def close(self) -> None:
        """End and remove all containers, networks and volumes; images stay."""
        self.run("rm", "--all", "--force", "--volumes", "--time", "0", check=False)
        self.run("network", "prune", "--force", check=False)
        self.run("volume", "rm", "--all", "--force", check=False)


@contextmanager
def engine() -> Iterator[Engine]:
    """The engine, whose images are in the directory of caches; one process at a time has it."""
    caches = cache_directory().with_name("containers")
    caches.mkdir(exist_ok=True)
    with (caches / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = Engine(_RUN, caches / "store")
        made.close()  # what a run that was killed has left
        try:
            yield made
        finally:
            made.close()


# Images.


def await_green(status: Callable[[], tuple[int, dict[str, Any]]], replicas: int) -> None:
    """Until `herdpy status` finds nothing wrong with so many replicas.

    Args:
        status: calls it; its exit code and its document.
    """
    seen: list[tuple[int, dict[str, Any]]] = []

    def green() -> bool:
        seen.append(status())
        code, found = seen[-1]
        return code == 0 and len(found["tablespaces"][0]["replicas"]) == replicas

    assert await_until(green, PATIENCE_S), seen[-1]


def build_images(engine: Engine, scratch: Path) -> None:
    """The images that docker/ names, under the names by which it does: ours of docker/Dockerfile."""
    make_base(engine)
    bookkeeper, zookeeper = image_of("apache/bookkeeper"), image_of("zookeeper")
    for place, image in (("bookkeeper", bookkeeper), ("zookeeper", zookeeper)):
        _build_java(engine, scratch, place, f"docker.io/{image if '/' in image else 'library/' + image}")
    build_server(engine, scratch, "localhost/herdpy:latest")


def image_of(name: str) -> str:
    """An image of docker/compose.cluster.yaml with its version."""
    found = re.search(rf"image: ({name}:\S+)", COMPOSE.read_text())
    assert found is not None, name
    return found[1]


def make_base(engine: Engine) -> None:
    """Debian with Python and Java, once for all runs."""
    if engine.run("image", "exists", BASE, check=False).returncode == 0:
        return
    tar = cache_directory().with_name("containers") / f"{_SUITE}.tar"
    if not tar.exists():
        part = tar.with_suffix(".part.tar")
        command = ["mmdebstrap", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(part)]
        subprocess.run(command, check=True, capture_output=True, timeout=900)
        part.rename(tar)
    engine.run("import", tar, BASE)


def _build_java(engine: Engine, scratch: Path, place: str, tag: str) -> None:
    context = scratch / place
    shutil.copytree(HERE / place, context)
    shutil.copytree(jars(), context / "jars")
    shutil.copy(ROOT / "herdpy" / "testing" / "logging.xml", context)
    engine.run("build", "--format", "docker", "--tag", tag, "--file", context / "Containerfile", context)


def package_mounts(scratch: Path) -> list[str]:
    """Options with which uv in a container fetches as here: with this machine's certificates and cache."""
    settings = scratch / "uv.toml"
    settings.write_text("system-certs = true\n")
    cache = Path(os.environ.get("UV_CACHE_DIR") or Path.home() / ".cache" / "uv")
    cache.mkdir(parents=True, exist_ok=True)
    mounts = {settings: "/etc/uv/uv.toml:ro", cache: "/root/.cache/uv"}
    if _CERTIFICATES.is_dir():
        mounts[_CERTIFICATES] = f"{_CERTIFICATES}:ro"
    return [f"--volume={source}:{target}" for source, target in mounts.items()]


def build_server(engine: Engine, scratch: Path, tag: str) -> None:
    """docker/Dockerfile on the tests' base."""
    file = ROOT / "docker" / "Dockerfile"
    engine.run(
        "build", "--format", "docker", "--network", "host", "--build-arg", f"BASE={BASE}",
        *package_mounts(scratch), "--ignorefile", f"{file}.dockerignore", "--tag", tag, "--file", file, ROOT,
    )  # fmt: skip
