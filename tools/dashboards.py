"""Writes Grafana's dashboards, ``conf/grafana/dashboards/*.json``: ``python tools/dashboards.py``.

A dashboard is rows of panels, a panel is queries with their legends: what is said here. Places, ids and what
all panels share are filled in, so that a change of one query is a change of one line. The files are what
users take; ``tests/monitoring`` compares them with this, with Grafana's schema, and with a real Prometheus.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "conf" / "grafana" / "dashboards"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _SMALL = 24, 8, 4
_ON = 'instance=~"$instance"'
_RATE = "$__rate_interval"


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        queries: expression and legend of each series.
        unit: as Grafana names it; "short" for a number.
        kind: "timeseries", "stat", "table" or "heatmap".
        description: what a reader sees and what is bad.
        width: of 24; 0: an equal share of its row.
        alarm: from this value on it is red.
        exemplars: whether points that name traces are shown.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    description: str = ""
    width: int = 0
    alarm: float | None = None
    exemplars: bool = False


def one(title: str, expression: str, legend: str = "{{instance}}", **more: Any) -> Panel:
    """A panel with one query."""
    return Panel(title, ((expression, legend),), **more)


def stat(title: str, expression: str, unit: str = "short", **more: Any) -> Panel:
    """A number."""
    return Panel(title, ((expression, ""),), unit, "stat", **more)


def rate(metric: str, by: str = "", where: str = "") -> str:
    """How fast a counter grows, of the instances that are chosen."""
    labels = f"{_ON}, {where}" if where else _ON
    return f"sum by ({by or 'instance'}) (rate({metric}{{{labels}}}[{_RATE}]))"


def quantile(share: float, metric: str, by: str = "") -> str:
    """A quantile of a histogram."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket{{{_ON}}}[{_RATE}])))"


def quantiles(title: str, metric: str, **more: Any) -> Panel:
    """The middle, and the slow ones."""
    found = tuple((quantile(share, metric), f"p{share * 100:g}") for share in (0.5, 0.95, 0.99))
    return Panel(title, found, "s", exemplars=True, **more)


def heatmap(title: str, metric: str, description: str) -> Panel:
    """A histogram over time."""
    query = f"sum by (le) (increase({metric}_bucket{{{_ON}}}[{_RATE}]))"
    return Panel(title, ((query, "{{le}}"),), "s", "heatmap", description, exemplars=True)


def of(metric: str, where: str = "") -> str:
    """A gauge, of the instances that are chosen."""
    return f"{metric}{{{_ON}, {where}}}" if where else f"{metric}{{{_ON}}}"


_COMMITS = f"{rate('herdpy_commits_total')} or {rate('herdpy_replica_log_commits_total')}"
_UP = of("up", 'job="herdpy"')
_LEADERS = of("herdpy_replica_role", 'role="leader"')
_SESSIONS = f"sum by (instance) ({of('herdpy_sessions')}) / max by (instance) ({of('herdpy_sessions_max')})"
_IN_TABLESPACE = "{{tablespace}} {{instance}}"

DASHBOARDS: dict[str, tuple[str, str, tuple[tuple[str, tuple[Panel, ...]], ...]]] = {
    "overview": (
        "HerdPy: overview",
        "Whether servers are well: what clients get, and what it costs.",
        (
            (
                "Now",
                (
                    stat("Servers that are ready", f"sum({of('herdpy_ready')})"),
                    stat("Servers that are not", f"count({_UP} == 0) or vector(0)", alarm=1),
                    stat("Statements", f"sum({rate('herdpy_statements_total')})", "reqps"),
                    stat(
                        "Share that fails",
                        "avg(herdpy:statement_failures:ratio5m)",
                        "percentunit",
                        alarm=0.05,
                    ),
                    stat("Slowest of a hundred", "max(herdpy:statement_seconds:p99_5m)", "s", alarm=1),
                    stat("Sessions, of the limit", f"max({_SESSIONS})", "percentunit", alarm=0.8),
                ),
            ),
            (
                "Clients",
                (
                    one(
                        "Statements by kind",
                        rate("herdpy_statements_total", "kind"),
                        "{{kind}}",
                        unit="reqps",
                    ),
                    quantiles(
                        "Statements' time",
                        "herdpy_statement_seconds",
                        description="From a statement's beginning to its answer, waits included.",
                    ),
                    one(
                        "Errors by SQLSTATE",
                        rate("herdpy_errors_total", "sqlstate"),
                        "{{sqlstate}}",
                        unit="reqps",
                    ),
                    one(
                        "Sessions",
                        f"sum by (state) ({of('herdpy_sessions')})",
                        "{{state}}",
                        description="Those that are idle in a transaction hold locks, and keep old rows.",
                    ),
                ),
            ),
            (
                "Servers",
                (
                    one("Commits", _COMMITS, unit="reqps"),
                    one(
                        "Processor",
                        f"rate(process_cpu_seconds_total{{{_ON}}}[{_RATE}])",
                        unit="percentunit",
                        description="Of the server itself, without worker processes; 100 % is one processor.",
                    ),
                    one("Memory", of("process_resident_memory_bytes"), unit="bytes"),
                    one(
                        "Delay of the event loop",
                        of("herdpy_loop_delay_seconds"),
                        unit="s",
                        alarm=0.5,
                        description="The longest since the last scrape: as long no client was answered.",
                    ),
                    one("Open files", of("process_open_fds")),
                ),
            ),
        ),
    ),
    "statements": (
        "HerdPy: statements",
        "What clients do, how long it takes, and what it waits for.",
        (
            (
                "Time",
                (
                    heatmap(
                        "Statements' time",
                        "herdpy_statement_seconds",
                        "How many took how long. Points are traces, where the server traces.",
                    ),
                    one(
                        "Slowest of a hundred, by kind",
                        quantile(0.99, "herdpy_statement_seconds", "kind"),
                        "{{kind}}",
                        unit="s",
                        exemplars=True,
                    ),
                    one(
                        "Middle, by kind",
                        quantile(0.5, "herdpy_statement_seconds", "kind"),
                        "{{kind}}",
                        unit="s",
                    ),
                ),
            ),
            (
                "Number",
                (
                    one(
                        "By outcome", rate("herdpy_statements_total", "outcome"), "{{outcome}}", unit="reqps"
                    ),
                    one("Rows, returned or changed", rate("herdpy_statement_rows_total", "kind"), "{{kind}}"),
                    one(
                        "Errors by SQLSTATE",
                        rate("herdpy_errors_total", "sqlstate"),
                        "{{sqlstate}}",
                        unit="reqps",
                    ),
                    one("Logged as slow", rate("herdpy_slow_statements_total"), unit="reqps"),
                ),
            ),
            (
                "Waits",
                (
                    one(
                        "Waiting statements",
                        of("herdpy_statements_waiting"),
                        description="For locks, the log, a worker or their client.",
                    ),
                    Panel(
                        "Waiting for locks",
                        (
                            (of("herdpy_lock_waiters"), "{{instance}}"),
                            (of("herdpy_replica_lock_waiters"), _IN_TABLESPACE),
                        ),
                    ),
                    one("Waits for locks", rate("herdpy_lock_waits_total"), unit="reqps"),
                    one("Deadlocks", rate("herdpy_deadlocks_total"), unit="reqps"),
                ),
            ),
            (
                "Workers: queries on columns",
                (
                    Panel(
                        "Worker processes",
                        (
                            (of("herdpy_workers"), "there {{instance}}"),
                            (of("herdpy_workers_busy"), "busy {{instance}}"),
                            (of("herdpy_workers_max"), "limit {{instance}}"),
                        ),
                    ),
                    one("Queries that wait for one", of("herdpy_worker_queue")),
                    one(
                        "Slowest wait of a hundred",
                        quantile(0.99, "herdpy_worker_wait_seconds", "instance"),
                        unit="s",
                    ),
                    Panel(
                        "Deaths, and refusals",
                        (
                            (rate("herdpy_worker_deaths_total"), "died {{instance}}"),
                            (rate("herdpy_worker_repeats_total"), "repeated {{instance}}"),
                            (rate("herdpy_worker_refusals_total"), "refused {{instance}}"),
                        ),
                        "reqps",
                    ),
                ),
            ),
        ),
    ),
    "cluster": (
        "HerdPy: cluster",
        "Tablespaces and their replicas: which leads, which is behind, and the log in the bookies.",
        (
            (
                "Replicas",
                (
                    Panel(
                        "Roles",
                        ((f"{of('herdpy_replica_role')} == 1", ""),),
                        kind="table",
                        width=12,
                        description="One leader for each tablespace. What is quarantined: docs/runbooks.md.",
                    ),
                    one(
                        "Tablespaces without a leader",
                        f"count(sum by (tablespace) ({_LEADERS}) == 0) or vector(0)",
                        "without",
                        alarm=1,
                        width=12,
                    ),
                ),
            ),
            (
                "Behind",
                (
                    one(
                        "Entries to be applied",
                        of("herdpy_replica_lag_entries"),
                        _IN_TABLESPACE,
                        description="Confirmed entries that a follower has not applied.",
                    ),
                    one(
                        "Checkpoints behind",
                        of("herdpy_replica_checkpoint_lag_seconds"),
                        _IN_TABLESPACE,
                        unit="s",
                    ),
                    Panel(
                        "Seeding",
                        (
                            (of("herdpy_replica_seeding_received_bytes"), f"received {_IN_TABLESPACE}"),
                            (of("herdpy_replica_seeding_total_bytes"), f"of {_IN_TABLESPACE}"),
                        ),
                        "bytes",
                    ),
                ),
            ),
            (
                "Leading",
                (
                    one("Terms", of("herdpy_replica_epoch"), _IN_TABLESPACE),
                    one(
                        "Takeovers in an hour",
                        f"increase({of('herdpy_replica_takeovers_total')}[1h])",
                        _IN_TABLESPACE,
                    ),
                    one(
                        "Seedings in an hour",
                        f"increase({of('herdpy_replica_seedings_total')}[1h])",
                        _IN_TABLESPACE,
                    ),
                    one("Should not lead", of("herdpy_replica_unfit"), _IN_TABLESPACE, alarm=1),
                    one(
                        "Clients that do not reach the leader",
                        of("herdpy_replica_clients_without_leader"),
                        _IN_TABLESPACE,
                        alarm=1,
                    ),
                ),
            ),
            (
                "The log in the bookies",
                (
                    heatmap(
                        "From sending to acknowledgement",
                        "herdpy_replica_log_entry_seconds",
                        "Of the entries that these servers have written. Points are traces.",
                    ),
                    one(
                        "Commits",
                        rate("herdpy_replica_log_commits_total", "tablespace"),
                        "{{tablespace}}",
                        unit="reqps",
                    ),
                    one(
                        "Commits with one entry",
                        f"{rate('herdpy_replica_log_entry_transactions_sum', 'tablespace')}"
                        f" / {rate('herdpy_replica_log_entry_transactions_count', 'tablespace')}",
                        "{{tablespace}}",
                    ),
                    one(
                        "Written",
                        rate("herdpy_replica_log_bytes_total", "tablespace"),
                        "{{tablespace}}",
                        unit="Bps",
                    ),
                    one("Commits on their way", of("herdpy_replica_commits_pending"), _IN_TABLESPACE),
                ),
            ),
            (
                "Ledgers",
                (
                    one(
                        "Bookies that the ledger lacks",
                        of("herdpy_replica_bookies_missing"),
                        _IN_TABLESPACE,
                        alarm=1,
                    ),
                    one("Ledgers", of("herdpy_replica_log_ledgers"), _IN_TABLESPACE),
                    one(
                        "Bytes of closed ledgers",
                        of("herdpy_replica_log_retained_bytes"),
                        _IN_TABLESPACE,
                        unit="bytes",
                    ),
                    one(
                        "Ledger list, of what ZooKeeper takes",
                        of("herdpy_replica_ledger_list_share"),
                        _IN_TABLESPACE,
                        unit="percentunit",
                        alarm=0.5,
                    ),
                ),
            ),
        ),
    ),
    "storage": (
        "HerdPy: storage and log",
        "One server's log and store: syncs, memory, checkpoints, limits.",
        (
            (
                "The log on a disk",
                (
                    heatmap(
                        "Syncs", "herdpy_log_sync_seconds", "How long the disk takes. Points are traces."
                    ),
                    quantiles("Syncs' time", "herdpy_log_sync_seconds"),
                    one(
                        "Commits with one sync",
                        f"{rate('herdpy_log_group_transactions_sum')}"
                        f" / {rate('herdpy_log_group_transactions_count')}",
                    ),
                    one("Written", rate("herdpy_log_bytes_total"), unit="Bps"),
                    one("Commits on their way", of("herdpy_commits_pending")),
                ),
            ),
            (
                "Memory and checkpoints",
                (
                    Panel(
                        "Changes in memory",
                        (
                            (of("herdpy_memtable_bytes"), "{{instance}}"),
                            (of("herdpy_memtable_limit_bytes"), "limit {{instance}}"),
                            (of("herdpy_replica_memtable_bytes"), _IN_TABLESPACE),
                        ),
                        "bytes",
                        description="At the limit writers wait for a checkpoint.",
                    ),
                    one("Rows in memory", of("herdpy_memtable_rows")),
                    one("Checkpoints behind", of("herdpy_checkpoint_lag_seconds"), unit="s"),
                    one(
                        "Checkpoints",
                        rate("herdpy_checkpoints_total", "outcome"),
                        "{{outcome}}",
                        unit="reqps",
                    ),
                    one(
                        "Share of time in checkpoints",
                        rate("herdpy_checkpoint_seconds_total"),
                        unit="percentunit",
                    ),
                ),
            ),
            (
                "Space and limits",
                (
                    one(
                        "Limits",
                        f"{of('herdpy_limit_used')} / ({of('herdpy_limit_most')} > 0)",
                        "{{tablespace}} {{limit}} {{instance}}",
                        unit="percentunit",
                        alarm=0.8,
                    ),
                    Panel(
                        "Columns' files",
                        (
                            (of("herdpy_column_segment_bytes"), "{{instance}}"),
                            (of("herdpy_replica_column_segment_bytes"), _IN_TABLESPACE),
                        ),
                        "bytes",
                    ),
                    one("Ledgers", of("herdpy_log_ledgers")),
                    one("Bytes of closed ledgers", of("herdpy_log_retained_bytes"), unit="bytes"),
                    one("Locks", of("herdpy_locks")),
                ),
            ),
            (
                "The server's own reports",
                (
                    one("Lines of its log that were dropped", rate("herdpy_log_lines_dropped_total")),
                    one("Spans of traces", rate("herdpy_trace_spans_total", "outcome"), "{{outcome}}"),
                    one("Spans that wait", of("herdpy_trace_queue")),
                ),
            ),
        ),
    ),
    "backups": (
        "HerdPy: backups and archive",
        "What would be lost with all disks, and how old the newest backup is.",
        (
            (
                "The archive of the log",
                (
                    one(
                        "Oldest entry that is not archived",
                        of("herdpy_archive_lag_seconds"),
                        _IN_TABLESPACE,
                        unit="s",
                        description="So much would be lost with all disks.",
                        alarm=60,
                    ),
                    one(
                        "Bytes that are not archived",
                        of("herdpy_archive_lag_bytes"),
                        _IN_TABLESPACE,
                        unit="bytes",
                    ),
                    one("Failing", of("herdpy_archive_failing"), _IN_TABLESPACE, alarm=1),
                    one(
                        "Gaps in a day",
                        f"increase({of('herdpy_archive_gaps_total')}[1d])",
                        _IN_TABLESPACE,
                        alarm=1,
                    ),
                ),
            ),
            (
                "What it writes",
                (
                    one("Files", rate("herdpy_archive_segments_total", "tablespace"), "{{tablespace}}"),
                    one(
                        "Of the log",
                        rate("herdpy_archive_raw_bytes_total", "tablespace"),
                        "{{tablespace}}",
                        unit="Bps",
                    ),
                    one(
                        "Stored",
                        rate("herdpy_archive_stored_bytes_total", "tablespace"),
                        "{{tablespace}}",
                        unit="Bps",
                    ),
                ),
            ),
            (
                "Backups",
                (
                    one("Age of the newest", of("herdpy_backup_age_seconds"), _IN_TABLESPACE, unit="s"),
                    one(
                        "Age of the newest full one",
                        of("herdpy_backup_full_age_seconds"),
                        _IN_TABLESPACE,
                        unit="s",
                    ),
                    one("In the repository", of("herdpy_backups"), _IN_TABLESPACE),
                    Panel(
                        "Late, or failing",
                        (
                            (of("herdpy_backup_late"), f"late {_IN_TABLESPACE}"),
                            (of("herdpy_backup_failing"), f"failing {_IN_TABLESPACE}"),
                        ),
                        alarm=1,
                    ),
                    one(
                        "Failures in a day",
                        f"increase({of('herdpy_backup_failures_total')}[1d])",
                        _IN_TABLESPACE,
                    ),
                ),
            ),
        ),
    ),
}
"""By the names of their files: title, description, and rows."""


def dashboard(name: str) -> dict[str, Any]:
    """A dashboard as Grafana takes it."""
    title, description, rows = DASHBOARDS[name]
    panels: list[dict[str, Any]] = []
    at = number = 0
    for row, contents in rows:
        number += 1
        panels.append(_row(number, row, at))
        at += 1
        height = _SMALL if all(one.kind == "stat" for one in contents) else _HEIGHT
        x = 0
        for one in contents:
            number += 1
            columns = min(3, len(contents)) if height == _HEIGHT else len(contents)
            width = one.width or _WIDTH // columns
            if x + width > _WIDTH:
                x, at = 0, at + height
            panels.append(_panel(number, one, {"x": x, "y": at, "w": width, "h": height}))
            x += width
        at += height
    return {
        "uid": f"herdpy-{name}",
        "title": title,
        "description": description,
        "tags": ["herdpy"],
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": 38,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source_variable(), _instance_variable()]},
        "links": [_link()],
        "panels": panels,
    }


def _row(number: int, title: str, y: int) -> dict[str, Any]:
    place = {"x": 0, "y": y, "w": _WIDTH, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"value": None, "color": "green"}]
    if panel.alarm is not None:
        steps.append({"value": panel.alarm, "color": "red"})
    made: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "targets": [
            _target(panel, letter, *query) for letter, query in zip("ABCDEFG", panel.queries, strict=False)
        ],
    }
    if panel.description:
        made["description"] = panel.description
    if panel.kind == "timeseries":
        custom = {"thresholdsStyle": {"mode": "line"}} if panel.alarm is not None else {}
        made["fieldConfig"]["defaults"] |= {
            "min": 0,
            "custom": {"fillOpacity": 10, "showPoints": "never", **custom},
        }
        made["options"] = {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    return made


def _target(panel: Panel, letter: str, expression: str, legend: str) -> dict[str, Any]:
    made: dict[str, Any] = {"refId": letter, "datasource": _SOURCE, "expr": expression}
    if legend:
        made["legendFormat"] = legend
    if panel.exemplars:
        made["exemplar"] = True
    if panel.kind == "heatmap":
        made["format"] = "heatmap"
    elif panel.kind == "table":
        made |= {"format": "table", "instant": True}
    elif panel.kind == "stat":
        made["instant"] = True
    return made


def _source_variable() -> dict[str, Any]:
    return {
        "type": "datasource",
        "name": "datasource",
        "label": "Source",
        "query": "prometheus",
        "multi": False,
    }


def _instance_variable() -> dict[str, Any]:
    return {
        "type": "query",
        "name": "instance",
        "label": "Server",
        "datasource": _SOURCE,
        "query": "label_values(herdpy_info, instance)",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": "All", "value": "$__all"},
    }


def _link() -> dict[str, Any]:
    return {
        "type": "dashboards",
        "title": "HerdPy",
        "icon": "external link",
        "tooltip": "",
        "tags": ["herdpy"],
        "asDropdown": True,
        "targetBlank": False,
        "includeVars": True,
        "keepTime": True,
    }


def text(name: str) -> str:
    """The file of a dashboard."""
    return json.dumps(dashboard(name), indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write them all."""
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in DASHBOARDS:
        (TARGET / f"{name}.json").write_text(text(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
