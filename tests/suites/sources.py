"""Sources of other people's suites, fetched by the names of packages into ``.venv/suites``.

PostgreSQL's regression scripts come from Debian's source package of PostgreSQL 15, by ``apt-get source`` with
a list of sources of its own, which names the mirror that the machine takes its packages from; nothing of the
machine's configuration is changed. Django's and asyncpg's tests are in their source distributions, which pip
fetches; psycopg's are in Debian's source package of sid alone.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

KEPT = Path(sys.prefix) / "suites"
"""Where sources are kept."""
_LIST = """\
Types: deb-src
URIs: {mirror}
Suites: {codename}
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
_DJANGO = Path(__file__).with_name("requirements-django.txt")
_ASYNCPG = Path(__file__).with_name("requirements-asyncpg.txt")
_REGRESS = "src/test/regress/"
_WANTED = ("sql", "data", "expected", "parallel_schedule")


def regress() -> Path:
    """The folder of PostgreSQL 15's regression scripts: sql, data, parallel_schedule."""
    folder = KEPT / "postgresql-15"
    if not folder.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as scratch:
            unpacked = Path(scratch) / "unpacked"
            _unpack(_download("postgresql-15", Path(scratch)), unpacked)
            unpacked.rename(folder)
    return folder


def django() -> Path:
    """The folder of Django's source, with its tests."""
    pinned = _pinned(_DJANGO, "django")
    folder = KEPT / pinned.replace("==", "-")
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=KEPT) as scratch:
            command = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "django", pinned]
            subprocess.run([KEPT / "django" / "bin" / "python", *command], cwd=scratch, check=True)
            with tarfile.open(Path(scratch) / f"{folder.name}.tar.gz") as packed:
                packed.extractall(scratch, filter="data")
            (Path(scratch) / folder.name).rename(folder)
    return folder


def psycopg() -> Path:
    """psycopg's sources, with its tests: those that HERDPY_PSYCOPG_SOURCES names, or Debian's."""
    if given := os.environ.get("HERDPY_PSYCOPG_SOURCES"):
        return Path(given).resolve()
    folder = KEPT / "psycopg-sources"
    if not folder.exists():
        with _scratch() as scratch:
            _unpack_all(_download("psycopg3", scratch, codename="sid"), scratch / "unpacked").rename(folder)
    return folder


def asyncpg() -> Path:
    """A folder with asyncpg's tests alone: what they test is the package that is installed."""
    pinned = _pinned(_ASYNCPG, "asyncpg")
    folder = KEPT / pinned.replace("==", "-")
    if not folder.exists():
        with _scratch() as scratch:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "asyncpg"]
            subprocess.run([*pip, "--dest", scratch, pinned], check=True)
            unpacked = _unpack_all(scratch / f"{folder.name}.tar.gz", scratch / "unpacked")
            (scratch / "alone").mkdir()
            (unpacked / "tests").rename(scratch / "alone" / "tests")
            (scratch / "alone").rename(folder)
    return folder


def _pinned(requirements: Path, package: str) -> str:
    """A package with its version, as a file of requirements has it."""
    return next(line for line in requirements.read_text().splitlines() if line.startswith(f"{package}=="))


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder beside the sources for what is not complete yet."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=KEPT) as scratch:
        yield Path(scratch)


def _download(package: str, folder: Path, codename: str = "") -> Path:
    """Let apt fetch a source package of the machine's release, or of another; where its archive is."""
    lists, sources = folder / "lists", folder / "debian.sources"
    (lists / "partial").mkdir(parents=True)
    mirror, own = _release()
    sources.write_text(_LIST.format(mirror=mirror, codename=codename or own))
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": os.devnull,
        "Dir::State::lists": lists,
        "APT::Sandbox::User": "root",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    for command in ("update", f"source --download-only {package}"):
        subprocess.run(["apt-get", "-qq", *options, *command.split()], cwd=folder, check=True)
    (archive,) = folder.glob(f"{package}_*.orig.tar.*")
    return archive


def _release() -> tuple[str, str]:
    """The mirror and the codename of the machine's release, as apt knows them; not of its updates."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Created-By: Packages"]
    known = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    targets = (line.split() for line in known.splitlines())
    return next((mirror, codename) for mirror, codename in targets if codename.isalpha())


def _unpack(archive: Path, folder: Path) -> None:
    """Take the regression scripts out of an archive, in one pass."""
    with tarfile.open(archive, "r|*") as packed:
        for member in packed:
            _, inside, name = member.name.partition(_REGRESS)
            if inside and name.split("/")[0] in _WANTED:
                packed.extract(member.replace(name=name), folder, filter="data")


def _unpack_all(archive: Path, folder: Path) -> Path:
    """Take everything out of an archive; its one folder."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    return unpacked
