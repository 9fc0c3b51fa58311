"""The picture of docs/broker.md: a server, a load and a worker, which this starts and ends, and their page.

    python -m tools.broker_pictures [DIRECTORY]

Needs Chromium. The picture is taken when the load has run for some minutes.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from herdpy_broker import groups, schema, types, workers
from herdpy_broker import schedule as schedules
from herdpy_broker.handlers import plain
from herdpy_broker.submission import Submission, submit, submit_all
from herdpy_broker.web.app import BrokerApp
from herdpy_broker.web.serving import PageServer
from herdpy_broker.worker import Worker

import herdpy
from herdpy.testing.process import await_until
from tests.support.chromium import Chromium
from tests.support.server_process import RunningServer

OUT = Path(__file__).parents[1] / "docs" / "pictures"
LOAD_S = 150.0
SHARES = {"newsletter": 6, "orders": 3, "reports": 1}


def handle(payload: Any) -> None:
    """Fail now and then."""
    if random.random() < 0.04:
        raise ConnectionError("the mail server does not answer")


def prepare(connection: herdpy.Connection[Any]) -> None:
    """Types, groups and schedules."""
    schema.migrate(connection)
    types.define(connection, "mail", max_attempts=2, backoff_s=20)
    types.define(connection, "report")
    groups.set_group(connection, "newsletter", weight=1, max_running=8)
    groups.set_group(connection, "orders", weight=3)
    groups.set_group(connection, "archive", paused=True)
    nightly = schedules.Schedule(name="nightly", type="report", cron="0 3 * * *", timezone="Europe/Vienna")
    schedules.add(connection, nightly)
    for _ in range(40):
        submit(connection, Submission("report", group="archive"))
    for number in range(6):
        submit(connection, Submission("report", group="reports", slot="month-end", waits_for_slot=number > 0))
    workers.register(connection, "mailer-2", 20, 3600.0)


def load(url: str, until: float) -> None:
    """Submit tasks, in waves."""
    with herdpy.connect(url, autocommit=True) as connection:
        while time.monotonic() < until:
            count = random.randint(1, 6) * (4 if time.monotonic() % 60 < 20 else 1)
            chosen = random.choices(list(SHARES), list(SHARES.values()), k=count)
            submit_all(connection, [Submission("mail", {"n": 1}, group=group) for group in chosen])
            time.sleep(0.25)


@contextmanager
def broker(url: str) -> Iterator[str]:
    """The address of a page; behind it a load and a worker run."""
    server = PageServer(BrokerApp(url), "127.0.0.1", 0, 10)
    worker = Worker(url, {"mail": plain(handle)}, name="mailer-1", capacity=20, groups=list(SHARES))
    submitter = threading.Thread(target=load, args=(url, time.monotonic() + LOAD_S + 60))
    threads = [threading.Thread(target=server.serve_page), threading.Thread(target=worker.run)]
    for thread in (*threads, submitter):
        thread.start()
    try:
        assert await_until(lambda: server.started, 30)
        yield server.address
    finally:
        worker.stop()
        server.should_exit = True
        for thread in (*threads, submitter):
            thread.join()


def main() -> None:
    """Make it."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    with tempfile.TemporaryDirectory() as directory:
        server = RunningServer(Path(directory) / "data").ready()
        browser = Chromium()
        try:
            url = f"herdpy://ann@127.0.0.1:{server.port}/test"
            with herdpy.connect(url, autocommit=True) as connection:
                prepare(connection)
            with broker(url) as address:
                tab = browser.tab(1200, 900)
                tab.open(f"{address}/")
                time.sleep(LOAD_S)
                tab.picture(out / "broker.png", whole=True)
        finally:
            browser.close()
            server.close()


if __name__ == "__main__":
    main()
