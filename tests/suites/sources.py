"""Sources of other people's suites, fetched by the names of packages into ``.venv/suites``.

PostgreSQL's regression scripts come from Debian's source package of PostgreSQL 15, by ``apt-get source`` with
a list of sources of its own, which names the mirror that the machine takes its packages from; nothing of the
machine's configuration is changed. Django's tests are in its source distribution, which pip fetches.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
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
    pinned = next(line for line in _DJANGO.read_text().splitlines() if line.startswith("django=="))
    folder = KEPT / pinned.replace("==", "-")
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=KEPT) as scratch:
            command = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "django", pinned]
            subprocess.run([KEPT / "django" / "bin" / "python", *command], cwd=scratch, check=True)
            with tarfile.open(Path(scratch) / f"{folder.name}.tar.gz") as packed:
                packed.extractall(scratch, filter="data")
            (Path(scratch) / folder.name).rename(folder)
    return folder


def _download(package: str, folder: Path) -> Path:
    """Let apt fetch a source package; where its archive is."""
    lists, sources = folder / "lists", folder / "debian.sources"
    (lists / "partial").mkdir(parents=True)
    mirror, codename = _release()
    sources.write_text(_LIST.format(mirror=mirror, codename=codename))
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
