"""The pictures of docs/console.md: pages of operating, of a real cluster that this makes and removes.

    python -m tools.console_pictures [DIRECTORY]

Needs what `herdpy dev` and the tests of the console need: Java 17, BookKeeper, Chromium.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import httpx
import psycopg

from herdpy.dev import LocalCluster
from herdpy.testing.process import await_until
from tests.support.chromium import Chromium, Tab

OUT = Path(__file__).parents[1] / "docs" / "pictures" / "console"
SETTINGS = {
    "storage.max_ledger_bytes": 1 << 20,
    "backup.archive_interval_s": 1.0,
    "audit.classes": ["login", "role", "ddl", "call"],
}
TABLES = (
    "CREATE TABLE IF NOT EXISTS orders (id INT PRIMARY KEY, customer TEXT NOT NULL, total NUMERIC(10,2))",
    "INSERT INTO orders SELECT g, 'customer ' || g % 97, g % 1000 + 0.99 FROM generate_series(1, 30000) g(g)",
)
PATIENCE_S = 60.0


def fill(cluster: LocalCluster) -> None:
    """Tablespaces with something in them, led by different nodes, and logs of several ledgers."""
    with psycopg.connect(cluster.url.replace("herdpy://", "postgresql://"), autocommit=True) as connection:
        connection.execute("CREATE TABLESPACE shop WITH (leader = 'server-2')")
        connection.execute("CREATE TABLESPACE reports WITH (leader = 'server-3', expected_replicas = 2)")
    for name in ("herdpy", "shop", "reports"):
        base = cluster.url.replace("herdpy://", "postgresql://").rpartition("/")[0]
        url = f"{base}/{name}?user=herdpy&target_session_attrs=read-write"
        found: list[bool] = []

        def filled(url: str = url, found: list[bool] = found) -> bool:
            try:
                with psycopg.connect(url, autocommit=True) as connection:
                    for statement in TABLES:
                        connection.execute(statement.encode())
                    for _ in range(3):
                        connection.execute("UPDATE orders SET total = total + 1")
                found.append(True)
            except psycopg.OperationalError:
                pass
            return bool(found)

        assert await_until(filled, PATIENCE_S), f"{name} has no leader"


def back_up(console: str) -> None:
    """A full backup and an increment, as by the page."""
    origin = console.removesuffix("/console/")
    with httpx.Client(base_url=console, follow_redirects=True, timeout=60) as client:
        for scope in ("full", "increment"):
            token = client.get("cluster").text.partition('name="csrf_token" value="')[2].partition('"')[0]
            form = {"csrf_token": token, "tablespace": "herdpy", "scope": scope}
            client.post("backups/make", data=form, headers={"origin": origin})
            assert await_until(lambda: "running" not in client.get("jobs/live").text, PATIENCE_S)


def take(tab: Tab, console: str, path: str, name: str, *, height: int = 0) -> None:
    """One page; ``height``: of the picture, 0 for all of the page."""
    tab.open(console + path)
    if height:
        tab.resize(1200, height)
    tab.picture(OUT / f"{name}.png", whole=not height)
    if height:
        tab.resize(1200, 900)


def main() -> None:
    """Make all of them."""
    global OUT
    OUT = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory(prefix="shop-") as backups:
        place = Path(directory)
        settings = {**SETTINGS, "backup.url": backups, "audit.file": f"{place}/audit.log"}
        chromium = Chromium()
        try:
            with LocalCluster(place / "c", servers=3, bookies=3, server_settings=settings) as cluster:
                fill(cluster)
                ports = {server.id: server.http_port for server in cluster.status().servers}
                console = f"http://127.0.0.1:{ports['server-1']}/console/"
                back_up(console)
                tab = chromium.tab(1200, 900)
                take(tab, console, "login", "login", height=560)
                take(tab, console, "cluster", "cluster", height=860)
                take(tab, console, "tablespaces", "tablespaces", height=860)
                take(
                    tab,
                    console,
                    "tablespaces/confirm?action=lead&tablespace=shop&node=server-1",
                    "confirm",
                    height=330,
                )
                take(tab, console, "backups", "backups", height=640)
                take(tab, console, "audit", "audit", height=560)
                cluster.kill("server-2")
                gone = "document.body.innerText.includes('on server-2 is away')"
                tab.open(console + "cluster")
                tab.wait_for(gone)
                tab.prefer(dark=True)
                take(tab, console, "cluster", "cluster-dark", height=900)
                phone = chromium.tab(390, 800, scale=1)
                take_phone(phone, console)
        finally:
            chromium.close()


def take_phone(phone: Tab, console: str) -> None:
    """The cluster on a phone."""
    phone.open(console + "cluster")
    phone.picture(OUT / "phone.png")


if __name__ == "__main__":
    main()
