"""The compiled wheel for this platform: built of the sdist, installed with the client's, and run.

tests/install has the pure ones; cibuildwheel makes the compiled ones for all platforms (pyproject.toml).
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig

import pytest

from herdpy.distribution import NAME
from tests.install import environments

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The client's wheel, and the compiled one, with the versions of uv.lock beside them."""
    place = tmp_path_factory.mktemp("compiled")
    environments.uv("build", "--quiet", "--all-packages", "--out-dir", place)
    (sdist,) = place.glob(f"{NAME}-[0-9]*.tar.gz")
    environments.run("tar", "xzf", sdist, "-C", place)
    (pure,) = place.glob(f"{NAME}-[0-9]*.whl")
    pure.unlink()
    subprocess.run(
        [
            environments.UV, "build", "--quiet", "--wheel", "--python", sys.executable, "--out-dir", place,
            place / sdist.name.removesuffix(".tar.gz"),
        ],
        check=True, env={**os.environ, "HERDPY_COMPILE": "1"}, timeout=3000,
    )  # fmt: skip
    environments.locked(place)
    return place


def test_the_wheel_is_of_this_platform_and_runs_compiled(wheels, tmp_path):
    (wheel,) = wheels.glob(f"{NAME}-[0-9]*.whl")
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name.endswith(f"-cp3{sys.version_info[1]}-cp3{sys.version_info[1]}-{platform}.whl")
    constraints = ("--constraint", wheels / "constraints.txt")
    made = environments.install(tmp_path / "e", wheels, *constraints, f"{NAME}[server] @ {wheel.as_uri()}")
    assert "modules compiled" in made.run("herdpy", "version", cwd=tmp_path).splitlines()
    script = (
        "import herdpy\n"
        "with herdpy.connect('./db', autocommit=True) as conn:\n"
        "    conn.execute('CREATE TABLE t (id INT PRIMARY KEY)')\n"
        "    conn.execute('INSERT INTO t VALUES (7)')\n"
        "    print(conn.execute('SELECT id FROM t').fetchall())\n"
    )
    assert made.run(made.python, "-P", "-c", script, cwd=tmp_path).strip() == "[(7,)]"
