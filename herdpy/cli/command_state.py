"""``herdpy info``, ``check``, ``checkpoint`` and ``version``: how a database is, and whether it is whole."""

from __future__ import annotations

import json as jsonlib
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from herdpy.cli import target
from herdpy.cli.errors import FAILED, CliError, print_note
from herdpy.cli.extras import needed
from herdpy.cli.output import Bar, write_document, write_table
from herdpy.cli.status import Row, literal, quoted, session, tablespace_of
from herdpy.cli.target import JsonOption, Place

_ANY_REPLICA = "SET herdpy.read_level = 'any'"
_USER_TABLES = """
SELECT schemaname, tablename FROM pg_tables
WHERE schemaname NOT IN ('pg_catalog', 'information_schema', 'herdpy') ORDER BY schemaname, tablename
"""


def info_command(url: Place, json: JsonOption = False) -> None:
    """Show a database's size, tables, rows and positions, as of its last checkpoint.

    It reads the files only, so the database may be open in another process. Of servers, any one is asked: for
    the tablespace's leader and log, and the tables with their rows as that server has them now.

    \b
    Examples:
      herdpy info ./flights
      herdpy info ./flights --json
      herdpy info herdpy://db1,db2/flights
    """
    found = target.existing(url, servers=True)
    if found.is_remote:
        _show_info(found.name, _facts_of_servers(found), ["Table", "Rows"], json=json)
        return
    needed("herdpy_server.store")
    from herdpy.log import LogError
    from herdpy_server.store import StoreDamagedError

    try:
        facts = _facts(found)
    except (LogError, StoreDamagedError) as error:
        raise CliError(str(error), hint=f"herdpy check {url} looks at all of it.") from error
    _show_info(str(found.path), facts, ["Table", "Rows", "Columns", "Indexes"], json=json)


def _show_info(name: str, facts: dict[str, Any], columns: list[str], *, json: bool) -> None:
    if json:
        write_document(facts)
        return
    rows = [
        (key.replace("_", " "), "-" if value is None else value)
        for key, value in facts.items()
        if key != "tables"
    ]
    write_table(["Database", name], rows, sys.stdout, numeric=[False, False])
    tables = [tuple(table[column.lower()] for column in columns) for table in facts["tables"]]
    if tables:
        write_table(columns, tables, sys.stdout)


def _facts(found: target.TargetDatabase) -> dict[str, Any]:
    inspect = needed("herdpy.log.inspect")
    ledgers = inspect.ledgers(str(found.log))
    facts: dict[str, Any] = {
        "ledgers": len(ledgers),
        "log_bytes": sum(ledger.file_bytes for ledger in ledgers),
        "store_bytes": _size(found.store),
        "checkpoint_lsn": None,
        "store_uuid": None,
        "tables": [],
    }
    store = needed("herdpy_server.store").Store.open(found.store, read_only=True)
    try:
        sums = store.table_checksums()
        facts["checkpoint_lsn"] = str(store.durable)
        facts["store_uuid"] = store.uuid
        facts["tables"] = [
            {
                "table": table.name,
                "rows": sums[table.id][0],
                "columns": len(table.visible),
                "indexes": len(table.indexes),
            }
            for table in sorted(store.catalog.tables.values(), key=lambda table: table.name)
        ]
    finally:
        store.close()
    return facts


def _facts_of_servers(found: target.TargetDatabase) -> dict[str, Any]:
    """What a tablespace has: its state, its log, and its tables as the server that answers has them."""
    with session(found.url) as asked:
        asked.rows(_ANY_REPLICA)
        (facts,) = asked.rows(
            "SELECT name AS tablespace, state, leader, epoch, ledgers, log_bytes FROM herdpy.tablespaces "
            f"WHERE name = {literal(tablespace_of(asked))}"
        )
        facts["tables"] = []
        for one in asked.rows(_USER_TABLES):
            name = f"{quoted(one['schemaname'])}.{quoted(one['tablename'])}"
            shown = ".".join([one["schemaname"], one["tablename"]]).removeprefix("public.")
            (counted,) = asked.rows(f"SELECT count(*) AS rows FROM {name}")
            facts["tables"].append({"table": shown, "rows": counted["rows"]})
    return facts


def _size(directory: Path) -> int:
    """Bytes that the files take on the disk (LMDB's may have holes)."""
    return sum(path.stat().st_blocks * 512 for path in directory.iterdir() if path.is_file())


def checkpoint_command(url: Place, json: JsonOption = False) -> None:
    """Bring everything that is in the log into the store, and delete ledgers no longer needed.

    A database does this by itself as it runs; this is for before a copy, or to get disk space back. Of
    servers, the one that leads does it.

    \b
    Examples:
      herdpy checkpoint ./flights
      herdpy checkpoint herdpy://db1,db2/flights
    """
    found = target.existing(url, servers=True)
    deleted = _checkpoint_of_servers(found) if found.is_remote else _checkpoint(found)
    if json:
        sys.stdout.write(jsonlib.dumps({"deleted_ledgers": deleted}) + "\n")
    else:
        print_note(f"Checkpoint done; ledgers deleted: {', '.join(map(str, deleted)) or 'none'}.")


def _checkpoint(found: target.TargetDatabase) -> list[int]:
    """Make one; the ledgers that went with it."""
    inspect = needed("herdpy.log.inspect")
    connection = target.connect(found, autocommit=True)
    try:
        before = {ledger.info.ledger_id for ledger in inspect.ledgers(str(found.log))}
        connection.execute("CHECKPOINT").close()
        after = {ledger.info.ledger_id for ledger in inspect.ledgers(str(found.log))}
    finally:
        connection.close()
    return sorted(before - after)


def _checkpoint_of_servers(found: target.TargetDatabase) -> list[int]:
    """A checkpoint on the server that leads; the ledgers that went with it."""
    connection = target.connect(found, autocommit=True)
    ledgers = "SELECT ledger_id FROM herdpy.ledgers"
    try:
        before = {row[0] for row in connection.execute(ledgers)}
        connection.execute("CHECKPOINT").close()
        return sorted(before - {row[0] for row in connection.execute(ledgers)})
    finally:
        connection.close()


def version_command(json: JsonOption = False) -> None:
    """Show the versions of HerdPy, Python and the libraries that it stands on, and whether hot modules run
    compiled or from their sources ("pure"). --json has the versions of all formats, too.

    \b
    Examples:
      herdpy version
      herdpy version --json
    """
    from importlib import metadata

    from herdpy import __version__, compiled
    from herdpy.formats import FORMATS, LEVELS, NEWEST_LEVEL

    versions: dict[str, str | None] = {"herdpy": __version__, "python": sys.version.split()[0]}
    versions["modules"] = compiled.IMPLEMENTATION
    for name in ("duckdb", "lmdb", "pyarrow", "sqlglot", "msgspec"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    if json:
        formats = {one.key: {"reads": one.reads, "writes": one.writes} for one in FORMATS}
        level = {"newest": NEWEST_LEVEL, "versions": dict(LEVELS)}
        document = {**versions, "level": level, "formats": formats}
        sys.stdout.write(jsonlib.dumps(document) + "\n")
        return
    for name, version in versions.items():
        why = f" ({compiled.REASON})" if name == "modules" and compiled.REASON else ""
        sys.stdout.write(f"{name} {version or 'not installed'}{why}\n")


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
    inspect = needed("herdpy.log.inspect")
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
    _print_findings(findings, facts, json)
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
    module = needed("herdpy_server.store")
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


def _print_findings(findings: list[CheckFinding], facts: dict[str, Any], json: bool) -> None:
    if json:
        found = [{k: v for k, v in asdict(one).items() if v is not None} for one in findings]
        write_document({"ok": not findings, **facts, "findings": found})
        return
    print_note(
        f"log: {facts['ledgers']} ledgers, {facts['entries']:,} entries,"
        f" {facts['transactions']:,} transactions, {facts['log_bytes']:,} bytes"
    )
    for torn in facts["torn"]:
        print_note(f"note: {torn} (no damage: the next opening drops it)")
    if "rows" in facts:
        print_note(f"store: {facts['tables']} tables, {facts['rows']:,} rows, {facts['indexes']} indexes")
    for one in findings:
        sys.stdout.write(f"{_place(one)}: {one.message}\n")
    print_note(f"{len(findings)} findings" if findings else "All is well.")


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
            print_note(f"{str(remark['severity']).lower()}: {remark['text']}")
    return rows
