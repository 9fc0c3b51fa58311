"""examples/orders as a process of its own, and customers who order until they are answered."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

from herdpy.testing.process import spawn

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"
PATIENCE_S = 90.0
STOCK = 1_000_000
ITEMS = {"apple": "0.35", "pear": "0.50", "plum": "0.20"}


def environment(url: str) -> dict[str, str]:
    """What tells the example its database."""
    return {"ORDERS_DATABASE": url, "PYTHONPATH": str(EXAMPLE)}


def alembic(url: str, *arguments: str) -> str:
    """Run Alembic on the example; what it printed."""
    process = spawn(
        [sys.executable, "-m", "alembic", "-c", str(EXAMPLE / "alembic.ini"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        environment=environment(url),
    )
    printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, printed.decode()
    return printed.decode()


class OrdersService:
    """The service on a free port."""

    def __init__(self, url: str, interface: str = "api") -> None:
        """Start it with one of its HTTP interfaces, and return when it listens."""
        app = f"orders.{interface}:app"
        command = [sys.executable, "-m", "uvicorn", app, "--port", "0", "--no-access-log"]
        self.process = spawn(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, environment=environment(url)
        )
        self.lines: list[str] = []
        self._port = 0
        self._told = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._told.wait(PATIENCE_S), self.lines
        assert self._port, "\n".join(self.lines)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.decode().rstrip())
            if found := re.search(r"running on http://127\.0\.0\.1:(\d+)", self.lines[-1]):
                self._port = int(found[1])
                self._told.set()
        self._told.set()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._port}"

    def close(self) -> None:
        """Kill it, and leave nothing of it."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Customers:
    """Threads in pairs: both of a pair place the same orders, at the same time, until they are answered.

    Attributes:
        placed: the answers, by the orders' keys.
        created: how often each key was reported as new.
    """

    def __init__(self, service: Callable[[], str], name: str, pairs: int = 2) -> None:
        """``service`` says where the service is, which may change; ``name`` begins the orders' keys."""
        self.placed: dict[str, dict[str, object]] = {}
        self.created: dict[str, int] = {}
        self.failed: list[BaseException] = []
        self._service = service
        self._changed = threading.Condition()
        self._over = False
        self._count = [0] * (2 * pairs)
        self._threads = [
            threading.Thread(target=self._order, args=(i, f"{name}-{i // 2}")) for i in range(2 * pairs)
        ]
        for thread in self._threads:
            thread.start()

    def _order(self, i: int, name: str) -> None:
        try:
            with httpx.Client(timeout=PATIENCE_S) as client:
                while not self._over:
                    n = self._count[i]
                    key = f"{name}-{n}"
                    wanted = {sku: 1 + (n + at) % 3 for at, sku in enumerate(ITEMS) if (n + at) % 2}
                    self._until_answered(client, key, wanted or {"plum": 1})
                    with self._changed:
                        self._count[i] += 1
                        self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - reported by judge()
            with self._changed:
                self.failed.append(error)
                self._changed.notify_all()

    def _until_answered(self, client: httpx.Client, key: str, wanted: Mapping[str, int]) -> None:
        while not self._over:
            try:
                answer = client.post(
                    f"{self._service()}/orders",
                    headers={"Idempotency-Key": key},
                    json={"customer": "ann", "lines": dict(wanted)},
                )
            except httpx.TransportError:
                continue  # the service is gone for the moment; ask again
            assert answer.status_code in (200, 201), (answer.status_code, answer.text)
            with self._changed:
                self.created[key] = self.created.get(key, 0) + (answer.status_code == 201)
                before = self.placed.setdefault(key, answer.json())
                assert before == answer.json(), (before, answer.json())
            return

    def await_progress(self, orders: int = 3) -> None:
        """Return when everybody has placed so many more."""
        with self._changed:
            wanted = [count + orders for count in self._count]
            assert self._changed.wait_for(
                lambda: self.failed or all(map(int.__ge__, self._count, wanted)), PATIENCE_S
            ), self._count
        assert not self.failed, self.failed

    def stop(self) -> None:
        """Let nobody order any more."""
        self._over = True
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        assert not self.failed, self.failed
