"""How an embedded database is run: what a user may choose when opening one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """How an embedded database is run. Keywords of ``herdpy.connect`` and ``Database.open``.

    Attributes:
        checkpoint_interval_s: how often applied changes go to LMDB.
        checkpoint_rows: changed rows in memory that start a checkpoint sooner.
        memtable_limit_bytes: writers wait for a checkpoint when more than this is in memory.
        transaction_memory_bytes: what a transaction has changed beyond that goes to files in ``spill/``;
            0: nothing does, and a transaction that takes more memory than it may is refused.
        log_retention_bytes: closed ledgers kept after a checkpoint passed them, so that a damaged
            store can be rebuilt from the log.
        max_ledger_bytes, max_ledger_age_s: when a ledger is closed and another begun.
        column_cache_bytes: memory for Arrow columns kept between queries.
        query_memory_bytes: memory for DuckDB, which spills to disk beyond it.
        plan_cache: statement texts whose plans are kept.
    """

    checkpoint_interval_s: float = 1.0
    checkpoint_rows: int = 50_000
    memtable_limit_bytes: int = 1 << 30
    transaction_memory_bytes: int = 64 << 20
    log_retention_bytes: int = 256 << 20
    max_ledger_bytes: int = 64 << 20
    max_ledger_age_s: float = 3600.0
    column_cache_bytes: int = 512 << 20
    query_memory_bytes: int = 1 << 30
    plan_cache: int = 1000
