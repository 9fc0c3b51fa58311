"""For each alert: series with which it fires, and series with which it does not.

Series are as promtool's tests write them: a value, how much is added at each minute, and for how many.
"""

from __future__ import annotations

from dataclasses import dataclass

_ONE = '{instance="a:1", job="herdpy"}'
_TABLESPACE = '{instance="a:1", job="herdpy", tablespace="shop"}'


def _role(role: str, instance: str = "a:1") -> str:
    return f'herdpy_replica_role{{instance="{instance}", job="herdpy", role="{role}", tablespace="shop"}}'


def _outcome(outcome: str) -> str:
    return f'herdpy_statements_total{{instance="a:1", job="herdpy", kind="SELECT", outcome="{outcome}"}}'


def _bucket(metric: str, bound: str, labels: str = "") -> str:
    return f'{metric}_bucket{{instance="a:1", job="herdpy", le="{bound}"{labels}}}'


@dataclass(frozen=True)
class Case:
    """Series by name, and after how many minutes is looked."""

    fires: dict[str, str]
    quiet: dict[str, str]
    minutes: int = 25


def gauge(name: str, bad: float, good: float, labels: str = _ONE, minutes: int = 25) -> Case:
    """A gauge that is bad all the time, and one that is good."""
    return Case({name + labels: f"{bad}x30"}, {name + labels: f"{good}x30"}, minutes)


def counter(name: str, bad: float, good: float, labels: str = _ONE) -> Case:
    """A counter that grows by so much a minute."""
    return Case({name + labels: f"0+{bad}x30"}, {name + labels: f"0+{good}x30"})


CASES: dict[str, Case] = {
    "HerdPyServerDown": gauge("up", 0, 1),
    "HerdPyNotReady": gauge("herdpy_ready", 0, 1),
    "HerdPyStatementsFail": Case(
        {_outcome("ok"): "0+600x30", _outcome("failed"): "0+60x30"},
        {_outcome("ok"): "0+600x30", _outcome("failed"): "0+6x30"},
    ),
    "HerdPyStatementsSlow": Case(
        {
            _outcome("ok"): "0+600x30",
            _bucket("herdpy_statement_seconds", "1"): "0+500x30",
            _bucket("herdpy_statement_seconds", "2.5"): "0+600x30",
            _bucket("herdpy_statement_seconds", "+Inf"): "0+600x30",
        },
        {
            _outcome("ok"): "0+600x30",
            _bucket("herdpy_statement_seconds", "1"): "0+599x30",
            _bucket("herdpy_statement_seconds", "2.5"): "0+600x30",
            _bucket("herdpy_statement_seconds", "+Inf"): "0+600x30",
        },
    ),
    "HerdPySessionsNearLimit": Case(
        {
            'herdpy_sessions{instance="a:1", job="herdpy", state="idle"}': "50x30",
            'herdpy_sessions{instance="a:1", job="herdpy", state="active"}': "40x30",
            f"herdpy_sessions_max{_ONE}": "100x30",
        },
        {
            'herdpy_sessions{instance="a:1", job="herdpy", state="idle"}': "50x30",
            f"herdpy_sessions_max{_ONE}": "100x30",
        },
    ),
    "HerdPyDeadlocks": counter("herdpy_deadlocks_total", 2, 0),
    "HerdPyLoopDelayed": gauge("herdpy_loop_delay_seconds", 0.8, 0.05),
    "HerdPyFilesNearLimit": Case(
        {f"process_open_fds{_ONE}": "950x30", f"process_max_fds{_ONE}": "1000x30"},
        {f"process_open_fds{_ONE}": "100x30", f"process_max_fds{_ONE}": "1000x30"},
    ),
    "HerdPyLimitNear": Case(
        {
            'herdpy_limit_used{instance="a:1", job="herdpy", limit="map", tablespace="shop"}': "90x30",
            'herdpy_limit_most{instance="a:1", job="herdpy", limit="map", tablespace="shop"}': "100x30",
        },
        {
            'herdpy_limit_used{instance="a:1", job="herdpy", limit="map", tablespace="shop"}': "90x30",
            'herdpy_limit_most{instance="a:1", job="herdpy", limit="map", tablespace="shop"}': "0x30",
        },
    ),
    "HerdPyLogLinesDropped": counter("herdpy_log_lines_dropped_total", 1, 0),
    "HerdPySpansLost": Case(
        {'herdpy_trace_spans_total{instance="a:1", job="herdpy", outcome="failed"}': "0+9x30"},
        {'herdpy_trace_spans_total{instance="a:1", job="herdpy", outcome="exported"}': "0+9x30"},
    ),
    "HerdPyLogSlow": Case(
        {
            _bucket("herdpy_log_sync_seconds", "0.25"): "0+90x30",
            _bucket("herdpy_log_sync_seconds", "0.5"): "0+100x30",
            _bucket("herdpy_log_sync_seconds", "+Inf"): "0+100x30",
        },
        {
            _bucket("herdpy_replica_log_entry_seconds", "0.25", ', tablespace="shop"'): "0+100x30",
            _bucket("herdpy_replica_log_entry_seconds", "0.5", ', tablespace="shop"'): "0+100x30",
            _bucket("herdpy_replica_log_entry_seconds", "+Inf", ', tablespace="shop"'): "0+100x30",
        },
    ),
    "HerdPyCheckpointsFail": Case(
        {'herdpy_checkpoints_total{instance="a:1", job="herdpy", outcome="failed"}': "0+1x30"},
        {'herdpy_checkpoints_total{instance="a:1", job="herdpy", outcome="ok"}': "0+1x30"},
    ),
    "HerdPyCheckpointLate": gauge("herdpy_replica_checkpoint_lag_seconds", 1000, 60, _TABLESPACE),
    "HerdPyMemtableFull": Case(
        {f"herdpy_memtable_bytes{_ONE}": "95x30", f"herdpy_memtable_limit_bytes{_ONE}": "100x30"},
        {f"herdpy_memtable_bytes{_ONE}": "95x30", f"herdpy_memtable_limit_bytes{_ONE}": "0x30"},
    ),
    "HerdPyWorkersDie": counter("herdpy_worker_deaths_total", 1, 0),
    "HerdPyWorkersRefuse": counter("herdpy_worker_refusals_total", 1, 0),
    "HerdPyNoLeader": Case(
        {_role("leader"): "0x30", _role("leader", "b:1"): "0x30", _role("follower"): "1x30"},
        {_role("leader"): "0x30", _role("leader", "b:1"): "1x30", _role("follower"): "1x30"},
    ),
    "HerdPyLeadershipMoves": counter("herdpy_replica_takeovers_total", 1, 0.05, _TABLESPACE),
    "HerdPyReplicaBehind": gauge("herdpy_replica_lag_entries", 5000, 10, _TABLESPACE),
    "HerdPyReplicaQuarantined": Case({_role("quarantined"): "1x30"}, {_role("quarantined"): "0x30"}),
    "HerdPyReplicaAhead": Case({_role("ahead of the log"): "1x30"}, {_role("ahead of the log"): "0x30"}),
    "HerdPyReplicaUnfit": gauge("herdpy_replica_unfit", 1, 0, _TABLESPACE),
    "HerdPyBookiesMissing": gauge("herdpy_replica_bookies_missing", 1, 0, _TABLESPACE),
    "HerdPyLedgerListFull": gauge("herdpy_replica_ledger_list_share", 0.6, 0.1, _TABLESPACE),
    "HerdPyClientsWithoutLeader": gauge("herdpy_replica_clients_without_leader", 3, 0, _TABLESPACE),
    "HerdPyZooKeeperSilent": Case(
        {f"herdpy_replica_log_confirmed_reads_total{_TABLESPACE}": "0+30x30"},
        {f"herdpy_replica_log_confirmed_reads_total{_TABLESPACE}": "0x23 5x6"},  # a lease that was late once
    ),
    "HerdPySupervisorMissing": gauge("herdpy_supervisor_alive", 0, 1),
    "HerdPyArchiveBehind": gauge("herdpy_archive_lag_seconds", 120, 15, _TABLESPACE),
    "HerdPyArchiveFails": gauge("herdpy_archive_failing", 1, 0, _TABLESPACE),
    "HerdPyArchiveGap": Case(
        {f"herdpy_archive_gaps_total{_TABLESPACE}": "0x15 1x15"},
        {f"herdpy_archive_gaps_total{_TABLESPACE}": "4x30"},
    ),
    "HerdPyBackupLate": gauge("herdpy_backup_late", 1, 0, _TABLESPACE),
    "HerdPyBackupFails": gauge("herdpy_backup_failing", 1, 0, _TABLESPACE),
}
