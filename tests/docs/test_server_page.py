"""docs/server.md lists every setting with its default, and every metric, as they are."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

from herdpy_server.config import RELOADABLE
from herdpy_server.config.fields import all_settings, toml
from herdpy_server.http import ServerMetrics, ServerStatus
from herdpy_server.http.families import ServerCollector
from herdpy_server.process.logs import Logs
from herdpy_server.process.loop_delay import LoopDelay
from herdpy_server.process.statements import StatementStatistics
from herdpy_server.serving import ServedDatabase
from herdpy_server.sessions.registry import SessionRegistry
from herdpy_server.workers.scheduler import WorkerSettings

PAGE = Path(__file__).parents[2] / "docs" / "server.md"
SETTING = re.compile(r"^\| `([a-z]+\.\w+)` \| (.+?) \| (.+) \|$", re.MULTILINE)
METRIC = re.compile(
    r"^\| `(herdpy_\w+)(?:\{([\w, ]+)\})?` \| (counter|gauge|histogram) \| (.+) \|$", re.MULTILINE
)


def settings() -> list[tuple[str, str, str]]:
    """Name, default and meaning of each setting, as the page has them."""
    rows = []
    for setting in all_settings().values():
        default = " ".join(toml(setting.default, setting).split())
        default = "see above" if setting.key == "authentication.rules" else f"`{default}`"
        text = f"{setting.description} Takes {setting.allowed()}."
        rows.append((setting.key, default, f"{text} *reload*" if setting.key in RELOADABLE else text))
    return rows


def metrics(directory: Path) -> list[tuple[str, str, str, str]]:
    """Name, labels, type and meaning of each metric, as the page has them."""

    async def collect() -> list[tuple[str, str, str, str]]:
        database = await ServedDatabase.open(directory / "db", None, WorkerSettings())
        made = ServerMetrics(ServerStatus(), StatementStatistics(), "0")
        made.logs, made.loop_delay = Logs("text"), LoopDelay()
        made.database, made.registry = database, SessionRegistry()
        made.replicas = {}
        made.supervisor = os.getpid
        try:
            found = (
                (
                    family.name + ("_total" if family.type == "counter" else ""),
                    ", ".join(family._labelnames),
                    family.type,
                    family.documentation,
                )
                for family in ServerCollector(made).collect()
            )
            return list(dict.fromkeys(found))  # some are of servers alone and of replicas
        finally:
            await database.close()

    return asyncio.run(collect())


def setting_table() -> str:
    """The table of settings."""
    rows = "".join(f"| `{key}` | {default} | {text} |\n" for key, default, text in settings())
    return f"| setting | default | meaning |\n|---|---|---|\n{rows}"


def metric_table(directory: Path) -> str:
    """The table of metrics."""
    rows = "".join(
        f"| `{name}{'{' + labels + '}' if labels else ''}` | {kind} | {text} |\n"
        for name, labels, kind, text in metrics(directory)
    )
    return f"| metric | type | meaning |\n|---|---|---|\n{rows}"


def test_every_setting_is_listed_with_its_default_and_meaning():
    assert SETTING.findall(PAGE.read_text()) == settings()
    assert setting_table() in PAGE.read_text()


def test_every_metric_is_listed_with_its_type_and_meaning(tmp_path):
    found = [(name, labels, kind, text) for name, labels, kind, text in METRIC.findall(PAGE.read_text())]
    assert found == metrics(tmp_path)
    assert metric_table(tmp_path) in PAGE.read_text()


def test_metrics_that_the_page_speaks_of_are_there(tmp_path):
    known = {name for name, _, _, _ in metrics(tmp_path)}
    spoken = set(re.findall(r"`(herdpy_\w+)", PAGE.read_text()))
    assert spoken <= known


def test_a_setting_that_is_missing_is_seen():
    assert SETTING.findall("| `http.port` | `8480` | Its port. |\n| http.port | 1 | x |") == [
        ("http.port", "`8480`", "Its port.")
    ]
