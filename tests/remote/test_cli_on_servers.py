"""`herdpy sql` on a server, as a process of its own. The other commands: see ``test_cli_urls``."""

from __future__ import annotations

import subprocess
import sys


def cli(*arguments, stdin=""):
    return subprocess.run(
        [sys.executable, "-m", "herdpy.cli", *map(str, arguments)],
        input=stdin, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_sql(server):
    url = f"herdpy://ann@127.0.0.1:{server.port}/test"
    made = cli(
        "sql", url, "-c", "DROP TABLE IF EXISTS fruit; CREATE TABLE fruit (id INTEGER PRIMARY KEY, name TEXT)"
    )
    assert made.returncode == 0, made.stderr
    written = cli("sql", url, "-c", "INSERT INTO fruit VALUES (1, 'apple'), (2, 'pear')")
    assert written.returncode == 0, written.stderr
    asked = cli("sql", url, "--format", "csv", "-c", "SELECT * FROM fruit ORDER BY id")
    assert asked.stdout.splitlines() == ["id,name", "1,apple", "2,pear"]
