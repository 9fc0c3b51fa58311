"""``herdpy info``, ``herdpy checkpoint`` and ``herdpy version``: small looks at a database."""

from __future__ import annotations

import json as jsonlib
import sys
from pathlib import Path
from typing import Any

from herdpy.cli import target
from herdpy.cli.errors import CliError, tell
from herdpy.cli.output import write_document, write_table
from herdpy.cli.servers import literal, quoted, session, tablespace_of
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
    target.needed("herdpy_server.store")
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
    inspect = target.needed("herdpy.log.inspect")
    ledgers = inspect.ledgers(str(found.log))
    facts: dict[str, Any] = {
        "ledgers": len(ledgers),
        "log_bytes": sum(ledger.file_bytes for ledger in ledgers),
        "store_bytes": _size(found.store),
        "checkpoint_lsn": None,
        "store_uuid": None,
        "tables": [],
    }
    store = target.needed("herdpy_server.store").Store.open(found.store, read_only=True)
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
        tell(f"Checkpoint done; ledgers deleted: {', '.join(map(str, deleted)) or 'none'}.")


def _checkpoint(found: target.TargetDatabase) -> list[int]:
    """Make one; the ledgers that went with it."""
    inspect = target.needed("herdpy.log.inspect")
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
    """Show the versions of HerdPy, Python and the libraries that it stands on.

    \b
    Examples:
      herdpy version
    """
    from importlib import metadata

    from herdpy import __version__

    versions: dict[str, str | None] = {"herdpy": __version__, "python": sys.version.split()[0]}
    for name in ("duckdb", "lmdb", "pyarrow", "sqlglot", "msgspec"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    if json:
        sys.stdout.write(jsonlib.dumps(versions) + "\n")
        return
    for name, version in versions.items():
        sys.stdout.write(f"{name} {version or 'not installed'}\n")
