"""The package for Debian: built, judged by lintian, installed, run, upgraded, removed and purged.

The distribution is that of the tests' base, in a container: nothing of this machine is changed.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tomllib
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from herdpy.testing.process import PortReservation, await_until
from tests.images.engine import BASE, PATIENCE_S, ROOT, engine, make_base, missing, package_mounts

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]
VERSION, NEXT = "0.9~test1", "0.9~test2"
CONFIGURATION = "/etc/herdpy/server.toml"
DATA = "/var/lib/herdpy"


@pytest.fixture(scope="module")
def containers():
    """An engine with the base."""
    with engine() as made:
        make_base(made)
        yield made


@pytest.fixture(scope="module")
def packages(containers, tmp_path_factory):
    """The package, and one of a later version."""
    scratch = tmp_path_factory.mktemp("deb")
    out = scratch / "out"
    out.mkdir()
    script = (
        "set -e; python3 -m venv /tmp/uv; /tmp/uv/bin/pip install --quiet uv; cd /src;"
        f" python3 tools/build_deb.py /out --quick --uv /tmp/uv/bin/uv --version '{VERSION}';"
        f" dpkg-deb --raw-extract /out/herdpydb_{VERSION}_*.deb /tmp/next;"
        f" sed -i 's/^Version: .*/Version: {NEXT}/' /tmp/next/DEBIAN/control;"
        " echo '# of the next version' >> /tmp/next/etc/herdpy/server.toml;"
        f" dpkg-deb --root-owner-group -Zgzip -z1 --build /tmp/next /out/herdpydb_{NEXT}_amd64.deb"
    )
    containers.run(
        "run", "--rm", "--network", "host", *package_mounts(scratch), f"--volume={out}:/out",
        f"--volume={ROOT}:/src:ro", BASE, "bash", "-c", script, timeout_s=1800,
    )  # fmt: skip
    (first,) = out.glob(f"herdpydb_{VERSION}_*.deb")
    (later,) = out.glob(f"herdpydb_{NEXT}_*.deb")
    return first, later


class DebianMachine:
    """A container as a machine, to which packages are installed."""

    def __init__(self, containers, packages):
        self._containers = containers
        self.name = f"debian-{secrets.token_hex(4)}"
        with closing(PortReservation()) as reserved:
            self.port = reserved.port
        containers.run(
            "run", "--detach", "--name", self.name, "--network", "host",
            f"--volume={packages[0].parent}:/out:ro", BASE, "sleep", "infinity",
        )  # fmt: skip

    def run(self, *command, check=True, user="root"):
        """A command on it."""
        done = self._containers.run("exec", "--user", user, self.name, *command, check=False)
        assert not check or done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return done

    def apt(self, *arguments):
        """What apt-get prints."""
        quiet = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet", "--yes")
        done = self.run(*quiet, *arguments)
        return done.stdout + done.stderr

    def exists(self, path):
        return self.run("test", "-e", path, check=False).returncode == 0

    def start(self):
        """The server, as the service starts it, on a free port."""
        command = (
            f"echo $$ > /tmp/herdpy.pid; exec herdpy server --config {CONFIGURATION} --data {DATA}"
            f" --port {self.port} --set http.enabled=false --set grpc.enabled=false > /tmp/herdpy.log 2>&1"
        )
        self._containers.run("exec", "--detach", "--user", "herdpy", self.name, "sh", "-c", command)

        def connected():
            try:
                self.connect().close()
            except psycopg.OperationalError:
                return False
            return True

        assert await_until(connected, PATIENCE_S), self.run("cat", "/tmp/herdpy.log", check=False).stdout

    def stop(self):
        """SIGTERM, and wait for its end."""
        self.run("sh", "-c", "kill $(cat /tmp/herdpy.pid)")
        ended = lambda: self.run("sh", "-c", "kill -0 $(cat /tmp/herdpy.pid)", check=False).returncode != 0  # noqa: E731
        assert await_until(ended, PATIENCE_S)

    def connect(self):
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="admin",
            dbname="herdpy",
            autocommit=True,
            connect_timeout=5,
        )

    def close(self):
        self._containers.run("rm", "--force", "--time", "0", self.name)


@pytest.fixture
def machine(containers, packages):
    made = DebianMachine(containers, packages)
    yield made
    made.close()


def test_lintian_finds_no_errors(packages):
    lintian = shutil.which("lintian")
    if lintian is None:
        pytest.skip("lintian is not installed: sh tools/install-containers.sh")
    command = [lintian, "--allow-root", "--fail-on", "error", str(packages[0])]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=2400)
    assert done.returncode == 0, "\n".join(line for line in done.stdout.splitlines() if line.startswith("E:"))


def test_the_life_of_the_package(machine, packages):
    first, later = (f"/out/{package.name}" for package in packages)
    machine.apt("update")
    machine.apt("install", "--no-install-recommends", first)
    assert machine.run("stat", "--format", "%U:%G %a", DATA).stdout.strip() == "herdpy:herdpy 700"
    assert machine.run("id", "--user", "--name", "herdpy").stdout.strip() == "herdpy"
    assert "herdpy" in machine.run("herdpy", "version", user="herdpy").stdout
    tomllib.loads(machine.run("cat", CONFIGURATION).stdout)
    for path in ("/usr/share/man/man1/herdpy.1.gz", "/usr/share/bash-completion/completions/herdpy"):
        # minimal systems leave manuals out
        assert "/man/" in path or machine.exists(path)
    machine.start()
    with machine.connect() as conn:
        conn.execute("CREATE TABLE item (id INT PRIMARY KEY)")
        conn.execute("INSERT INTO item SELECT generate_series(1, 100)")
    machine.stop()

    machine.run("sh", "-c", f"echo '# of the operator' >> {CONFIGURATION}")
    machine.apt("install", "-o", "Dpkg::Options::=--force-confold", later)
    assert machine.run("dpkg-query", "-W", "-f", "${Version}", "herdpydb").stdout == NEXT
    assert "# of the operator" in machine.run("cat", CONFIGURATION).stdout
    machine.start()
    with machine.connect() as conn:
        assert conn.execute("SELECT count(*) FROM item").fetchone() == (100,)
    machine.stop()

    machine.apt("remove", "herdpydb")
    assert not machine.exists("/opt/herdpy")
    assert not machine.exists("/usr/bin/herdpy")
    assert machine.exists(CONFIGURATION)
    assert machine.exists(f"{DATA}/HERDPY")
    said = machine.apt("purge", "herdpydb")
    assert not machine.exists(CONFIGURATION)
    assert machine.exists(f"{DATA}/HERDPY")
    assert "stay" in said


def test_the_package_names_the_python_that_it_was_built_with(packages):
    fields = subprocess.run(
        ["dpkg-deb", "--field", packages[0], "Depends"], check=True, capture_output=True, text=True
    )
    assert fields.stdout.startswith("python3.")
    listed = subprocess.run(
        ["dpkg-deb", "--contents", packages[0]], check=True, capture_output=True, text=True
    )
    python = fields.stdout.partition(",")[0]
    assert f"./opt/herdpy/bin/python -> /usr/bin/{python}" in listed.stdout
    assert "__pycache__" not in listed.stdout
    assert Path(packages[0]).stat().st_size > 50 << 20
