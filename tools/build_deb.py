"""Build a package for Debian: the server in an environment of its own, its service, and its configuration.

    python3 tools/build_deb.py DIRECTORY [--version VERSION] [--uv UV] [--quick]

Run it on the distribution that the package is for, by its own Python, which the package depends on: the
environment in /opt/herdpy has links to that interpreter. It needs dpkg-deb and uv. Packages of Python come at
the versions of uv.lock. DIRECTORY gets herdpydb_VERSION_ARCHITECTURE.deb, whose path is printed.

The maintainer's scripts are in deploy/deb. The data in /var/lib/herdpy outlives the package, however it goes.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME = "herdpydb"
_OPT = "opt/herdpy"
_SCRIPTS = ("postinst", "prerm", "postrm")
_EXTRAS = ("server", "tracing")
_CONTROL = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: HerdPy <herdpy@localhost.invalid>
Installed-Size: {size_kib}
Section: database
Priority: optional
Depends: {python}, python3 (>= 3.11~), adduser, init-system-helpers (>= 1.54), libc6, libstdc++6
Suggests: postgresql-client
Description: SQL database that is a replicated state machine over a log
 HerdPy serves PostgreSQL's protocol. One process with local files is a complete
 database; several of them replicate tablespaces over Apache BookKeeper.
 .
 This package has the server and the command herdpy, with all Python packages
 that they need, in an environment of its own, and the service herdpy.service.
"""
_COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: HerdPy

Files: *
Copyright: 2026 the authors of HerdPy
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
 .
 Packages of Python in /opt/herdpy have their own licenses, in their directories
 named *.dist-info.
"""


def version_of_sources() -> str:
    """The version as Debian sorts it: 0.2.0.dev0 comes before 0.2.0."""
    found = re.search(r'__version__ = "([^"]+)"', (ROOT / "herdpy" / "_version.py").read_text())
    if found is None:
        raise SystemExit("herdpy/_version.py has no version")
    return re.sub(r"\.?(dev|a|b|rc)(\d+)", r"~\1\2", found[1])


def build(directory: Path, version: str, uv: str, *, quick: bool) -> Path:
    """Make the package; its path. ``quick`` compresses less. CalledProcessError where a program fails."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="deb-") as scratch:
        tree = Path(scratch) / "tree"
        tree.mkdir(mode=0o755)
        make_environment(tree / _OPT, uv)
        place_files(tree, version)
        architecture = _output("dpkg", "--print-architecture")
        write_control(tree, version, architecture)
        package = directory / f"{NAME}_{version}_{architecture}.deb"
        compression = ["-Zgzip", "-z1"] if quick else ["-Zxz"]
        command = ["dpkg-deb", "--root-owner-group", *compression, "--build", str(tree), str(package)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return package


def make_environment(place: Path, uv: str) -> None:
    """The environment at ``place``, as it will be in /opt/herdpy."""
    python = f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    if not os.access(python, os.X_OK):
        raise SystemExit(f"{python} is not there: run this by the distribution's own Python")
    subprocess.run([uv, "venv", "--quiet", "--relocatable", "--python", python, str(place)], check=True)
    extras = [word for extra in _EXTRAS for word in ("--extra", extra)]
    environment = {
        **os.environ, "UV_PROJECT_ENVIRONMENT": str(place), "UV_LINK_MODE": "copy",
        "UV_PYTHON_DOWNLOADS": "never", "UV_COMPILE_BYTECODE": "0",
    }  # fmt: skip
    command = [uv, "sync", "--quiet", "--frozen", "--no-editable", *extras]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)
    for path in (place / "bin").iterdir():
        if path.name.startswith(("activate", "deactivate", "pydoc")):
            path.unlink()
        elif path.is_file() and not path.is_symlink():
            _relocate(path)
    for name in (".gitignore", ".lock", "CACHEDIR.TAG"):
        (place / name).unlink(missing_ok=True)
    for cache in place.rglob("__pycache__"):
        shutil.rmtree(cache)


def _relocate(script: Path) -> None:
    """A script that uv made, or a binary, which stays as it is: run by /opt/herdpy's Python."""
    data = script.read_bytes()
    if not data.startswith(b"#!"):
        return
    head = b"#!/" + _OPT.encode() + b"/bin/python\n"
    if data.startswith(b"#!/bin/sh\n'''exec'"):  # the relocatable form: three lines
        _shell, _exec, _end, rest = data.split(b"\n", 3)
        script.write_bytes(head + rest)
    else:
        _first, _newline, rest = data.partition(b"\n")
        script.write_bytes(head + rest)


def place_files(tree: Path, version: str) -> None:
    """All that is not the environment."""
    deb = ROOT / "deploy" / "deb"
    files = {
        "etc/herdpy/server.toml": ROOT / "conf" / "server.toml",
        "usr/lib/systemd/system/herdpy.service": ROOT / "deploy" / "systemd" / "herdpy.service",
        f"usr/share/lintian/overrides/{NAME}": deb / "lintian-overrides",
    }
    for name, source in files.items():
        _install(tree / name, source.read_bytes())
    _install(tree / f"usr/share/doc/{NAME}/copyright", _COPYRIGHT.encode())
    log = (
        f"{NAME} ({version}) unstable; urgency=medium\n\n  * See CHANGELOG.md of the sources.\n\n"
        " -- HerdPy <herdpy@localhost.invalid>  Thu, 01 Jan 2026 00:00:00 +0000\n"
    )
    _install(tree / f"usr/share/doc/{NAME}/changelog.gz", gzip.compress(log.encode(), 9, mtime=0))
    _install(
        tree / "usr/share/man/man1/herdpy.1.gz", gzip.compress((deb / "herdpy.1").read_bytes(), 9, mtime=0)
    )
    completion = _output(
        str(tree / _OPT / "bin" / "python"),
        "-m",
        "herdpy.cli",
        environment={"_HERDPY_COMPLETE": "source_bash"},
    )
    _install(tree / "usr/share/bash-completion/completions/herdpy", (completion + "\n").encode())
    for cache in (tree / _OPT).rglob("__pycache__"):
        shutil.rmtree(cache)
    link = tree / "usr/bin/herdpy"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(f"/{_OPT}/bin/herdpy")


def write_control(tree: Path, version: str, architecture: str) -> None:
    """DEBIAN: what the package is, its scripts, and its configuration files."""
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    size = sum(path.lstat().st_size for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    control = _CONTROL.format(
        name=NAME, version=version, architecture=architecture, size_kib=size // 1024, python=python
    )
    _install(tree / "DEBIAN" / "control", control.encode())
    _install(tree / "DEBIAN" / "conffiles", b"/etc/herdpy/server.toml\n")
    for name in _SCRIPTS:
        _install(tree / "DEBIAN" / name, (ROOT / "deploy" / "deb" / name).read_bytes(), mode=0o755)
    for path in tree.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
        elif not path.is_symlink():
            is_library = ".so" in path.suffixes
            path.chmod(0o644 if is_library else path.stat().st_mode & 0o755 | 0o644)


def _install(path: Path, data: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def _output(*command: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **(environment or {})}
    )
    return done.stdout.strip()


def main() -> None:
    """Build it, and print where it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--version", default=version_of_sources())
    parser.add_argument("--uv", default=str(Path(sys.executable).with_name("uv")))
    parser.add_argument("--quick", action="store_true", help="compress less")
    given = parser.parse_args()
    uv = given.uv if os.access(given.uv, os.X_OK) else "uv"
    print(build(given.directory, given.version, uv, quick=given.quick))


if __name__ == "__main__":
    main()
