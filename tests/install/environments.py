"""Wheels of both distributions, and empty environments into which the documented words install them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHILDREN = Path(__file__).parent / "children"
UV = Path(sys.prefix) / "bin" / "uv"
_PATIENCE_S = 600


def run(
    *command: object, cwd: Path | None = None, patience_s: float = _PATIENCE_S, **environment: str
) -> str:
    """What a command prints; it must end with 0."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HERDPY", "PYTHON"))}
    done = subprocess.run(
        [str(one) for one in command],
        cwd=cwd or ROOT,
        env={**kept, "UV_LINK_MODE": "hardlink", "UV_NO_PROGRESS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def uv(*arguments: object, cwd: Path | None = None) -> str:
    """A command of uv: by what its cache has, and with the network where that is not enough."""
    try:
        return run(UV, *arguments, "--offline", cwd=cwd)
    except AssertionError:
        return run(UV, *arguments, cwd=cwd)


def build(place: Path) -> None:
    """Build wheels and sdists of both distributions: the directory ``wheels-...`` of a new one.

    uv takes from its cache what it had from a place of the same name: this name is that of the contents.
    """
    new = place / "new"
    uv("build", "--quiet", "--all-packages", "--out-dir", new)
    contents = hashlib.sha256(b"".join(one.read_bytes() for one in sorted(new.glob("*.whl"))))
    locked(new)
    new.rename(place / f"wheels-{contents.hexdigest()[:16]}")


@dataclass(frozen=True)
class Installed:
    """An environment with one of the distributions.

    Attributes:
        path: its directory.
    """

    path: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.path / "bin" / "python"

    def run(self, *arguments: object, cwd: Path, **environment: str) -> str:
        """What a program in it prints. Its own commands come first, and nothing of this checkout is seen."""
        path = f"{self.path / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return run(*arguments, cwd=cwd, PATH=path, HOME=str(cwd), PYTHONWARNINGS="error", **environment)

    def child(self, name: str, *arguments: object, cwd: Path) -> object:
        """What a script of ``children`` found, as JSON."""
        printed = self.run(self.python, "-P", CHILDREN / name, *arguments, cwd=cwd)
        return json.loads(printed.splitlines()[-1])

    def packages(self) -> dict[str, str]:
        """The versions of what is installed, by name."""
        listed = json.loads(run(UV, "pip", "list", "--quiet", "--format", "json", "--python", self.python))
        return {one["name"]: one["version"] for one in listed}


def locked(place: Path) -> Path:
    """A file of constraints with the versions of uv.lock."""
    extras = ("server", "sqlalchemy", "zk")
    file = place / "constraints.txt"
    export = ("export", "--frozen", "--offline", "--no-dev", "--no-emit-workspace", "--no-hashes", "--quiet")
    file.write_text(run(UV, *export, *(word for extra in extras for word in ("--extra", extra))))
    return file


def install(place: Path, wheels: Path, *words: object, python: object = sys.executable) -> Installed:
    """A new environment, into which uv installs what the words name; ours are among the wheels."""
    run(UV, "venv", "--quiet", "--python", python, place)
    made = Installed(place)
    uv("pip", "install", "--quiet", "--python", made.python, "--find-links", wheels, *words)
    return made


def install_by_pip(place: Path, wheels: Path, *words: object, python: object) -> Installed:
    """As :func:`install`, by pip."""
    run(UV, "venv", "--quiet", "--seed", "--python", python, place)
    made = Installed(place)
    pip = (made.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--find-links", wheels, *words)
    return made


def once(place: Path, make: Callable[[Path], object]) -> Path:
    """A directory that the first process of a test run makes, for all of them."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with _held(place.with_suffix(".lock")):
        if not (place / ".made").exists():
            shutil.rmtree(place, ignore_errors=True)
            make(place)
            (place / ".made").touch()
    return place


@contextmanager
def _held(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def interpreters(version: str) -> Sequence[Path]:
    """The interpreters of a version on this machine, such as 3.13."""
    named = os.environ.get(f"HERDPY_PYTHON{version.replace('.', '_')}")
    if named:
        return [Path(named)]
    found = [Path(one) for one in (shutil.which(f"python{version}"),) if one]
    pyenv = Path.home() / ".pyenv" / "versions"
    found += sorted(pyenv.glob(f"{version}.*/bin/python{version}"))
    return [one for one in found if _runs(one, version)]


def _runs(python: Path, version: str) -> bool:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() == version
