"""``herdpy check``: whether a database is whole, and what is not."""

from __future__ import annotations

import json as jsonlib
import re
import sys
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from herdpy.cli import target
from herdpy.cli.errors import FAILED, tell
from herdpy.cli.output import write_document, write_table
from herdpy.cli.progress import Bar
from herdpy.cli.servers import Row, quoted, session
from herdpy.cli.target import JsonOption, Place

_KEY = re.compile(r"\b(?:key|entry) ([0-9a-f]{2,})")


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """Something that is wrong, and where.

    Attributes:
        part: "log" or "store".
    """

    part: str
    message: str
    ledger: int | None = None
    entry: int | None = None
    file: str | None = None
    table: str | None = None
    index: str | None = None
    key: str | None = None


def check_command(
    url: Place,
    log_only: Annotated[bool, typer.Option("--log-only", help="Leave out the store.")] = False,
    json: JsonOption = False,
) -> None:
    """Verify every checksum, the chain of entries, every row, and that indexes match rows.

    It reads the files only. A database that is open in another process may be checked too: its store is then
    looked at as of its last checkpoint. The end of a write that a crash cut short is no damage: opening the
    database drops it. Ends with 1 when anything is wrong.

    Of servers, all replicas are compared at one position of the log; one that differs is made anew.

    \b
    Examples:
      herdpy check ./flights
      herdpy check ./flights --json
      herdpy check herdpy://db1,db2/flights
    """
    found = target.existing(url, servers=not log_only)
    if found.is_remote:
        _check_servers(found, json)
        return
    inspect = target.needed("herdpy.log.inspect")
    log = inspect.check(str(found.log))
    findings = [_log_finding(problem) for problem in log.problems]
    facts: dict[str, Any] = {
        "ledgers": log.ledgers,
        "entries": log.entries,
        "transactions": log.transactions,
        "records": log.records,
        "log_bytes": log.bytes,
        "torn": [str(torn) for torn in log.torn],
    }
    if not log_only:
        store_findings, store_facts = _check_store(found, log)
        findings += store_findings
        facts |= store_facts
    _tell(findings, facts, json)
    if findings:
        raise typer.Exit(FAILED)


def _check_servers(found: target.TargetDatabase, json: bool) -> None:
    rows = _compare_replicas(found)
    if json:
        sys.stdout.write(jsonlib.dumps(rows, indent=2, default=str) + "\n")
    elif rows:
        write_table(list(rows[0]), [tuple(row.values()) for row in rows], sys.stdout)
    if not all(row["same"] for row in rows):
        raise typer.Exit(FAILED)


def _check_store(found: target.TargetDatabase, log: Any) -> tuple[list[CheckFinding], dict[str, Any]]:
    module = target.needed("herdpy_server.store")
    try:
        store = module.Store.open(found.store, read_only=True)
    except module.StoreDamagedError as error:
        return [CheckFinding("store", str(error), file=str(found.store / "data.mdb"))], {}
    findings = []
    try:
        sums = store.table_checksums()
        with Bar("store", "findings") as bar:
            for problem in store.check():
                findings.append(_store_finding(problem))
                bar.update(0, None, len(findings))
        if store.durable > log.last and not log.problems:
            message = f"the store has everything up to {store.durable}, and the log ends at {log.last}"
            findings.append(CheckFinding("log", f"entries are missing: {message}", file=str(found.log)))
        facts = {
            "checkpoint_lsn": str(store.durable),
            "tables": len(store.catalog.tables),
            "rows": sum(rows for rows, _ in sums.values()),
            "indexes": sum(len(table.indexes) for table in store.catalog.tables.values()),
        }
    finally:
        store.close()
    return findings, facts


def _store_finding(problem: Any) -> CheckFinding:
    kind, _, name = problem.where.partition(" ")
    key = _KEY.search(problem.what)
    return CheckFinding(
        "store",
        problem.what,
        table=name if kind == "table" else None,
        index=name if kind == "index" else None,
        key=key[1] if key else None,
    )


def _log_finding(problem: Any) -> CheckFinding:
    return CheckFinding("log", problem.reason, problem.ledger_id, problem.entry_id, problem.file)


def _tell(findings: list[CheckFinding], facts: dict[str, Any], json: bool) -> None:
    if json:
        found = [{k: v for k, v in asdict(one).items() if v is not None} for one in findings]
        write_document({"ok": not findings, **facts, "findings": found})
        return
    tell(
        f"log: {facts['ledgers']} ledgers, {facts['entries']:,} entries,"
        f" {facts['transactions']:,} transactions, {facts['log_bytes']:,} bytes"
    )
    for torn in facts["torn"]:
        tell(f"note: {torn} (no damage: the next opening drops it)")
    if "rows" in facts:
        tell(f"store: {facts['tables']} tables, {facts['rows']:,} rows, {facts['indexes']} indexes")
    for one in findings:
        sys.stdout.write(f"{_place(one)}: {one.message}\n")
    tell(f"{len(findings)} findings" if findings else "All is well.")


def _place(one: CheckFinding) -> str:
    places = [
        f"{name} {value}"
        for name, value in (
            ("ledger", one.ledger),
            ("entry", one.entry),
            ("table", one.table),
            ("index", one.index),
            ("key", one.key),
            ("file", one.file),
        )
        if value is not None
    ]
    return f"{one.part}: {', '.join(places)}" if places else one.part


def _compare_replicas(found: target.TargetDatabase) -> list[Row]:
    """All replicas compared at one position of the log: a row for each."""
    with session(found.url, leader_of=found.name) as asked:
        rows = asked.rows(f"CHECK TABLESPACE {quoted(found.name)}")
        for remark in asked.remarks:
            tell(f"{str(remark['severity']).lower()}: {remark['text']}")
    return rows
