"""``herdpy info``, ``log``, ``check`` and ``checkpoint`` on servers: by SQL, not from files."""

from __future__ import annotations

import json as jsonlib
import sys
from typing import Any

from herdpy.cli import target
from herdpy.cli.errors import tell
from herdpy.cli.output import as_json, write_table
from herdpy.cli.servers import Row, ServerSession, literal, quoted, session

_ANY = "SET herdpy.read_level = 'any'"
_TABLES = """
SELECT schemaname, tablename FROM pg_tables
WHERE schemaname NOT IN ('pg_catalog', 'information_schema', 'herdpy') ORDER BY schemaname, tablename
"""


def info(found: target.TargetDatabase) -> dict[str, Any]:
    """What a tablespace has: its state, its log, and its tables as the server that answers has them."""
    with session(found.url) as asked:
        asked.rows(_ANY)
        (facts,) = asked.rows(
            "SELECT name AS tablespace, state, leader, epoch, ledgers, log_bytes FROM herdpy.tablespaces "
            f"WHERE name = {literal(_tablespace(asked))}"
        )
        facts["tables"] = []
        for one in asked.rows(_TABLES):
            name = f"{quoted(one['schemaname'])}.{quoted(one['tablename'])}"
            shown = ".".join([one["schemaname"], one["tablename"]]).removeprefix("public.")
            (counted,) = asked.rows(f"SELECT count(*) AS rows FROM {name}")
            facts["tables"].append({"table": shown, "rows": counted["rows"]})
    return facts


def _tablespace(asked: ServerSession) -> str:
    """Under which name herdpy.tablespaces has it: a server that is alone serves any name."""
    names = [str(row["name"]) for row in asked.rows("SELECT name FROM herdpy.tablespaces")]
    (current,) = (str(row["name"]) for row in asked.rows("SELECT current_database() AS name"))
    return current if current in names else names[0]


def list_ledgers(found: target.TargetDatabase, *, json: bool) -> None:
    """The ledgers of the log, as ZooKeeper lists them."""
    with session(found.url) as asked:
        rows = asked.rows(
            "SELECT ledger_id, state, entries, length_bytes, epoch, node, created FROM herdpy.ledgers "
            f"WHERE tablespace = {literal(_tablespace(asked))} ORDER BY ledger_id"
        )
    if json:
        sys.stdout.write(jsonlib.dumps(rows, indent=2, default=as_json) + "\n")
        return
    names = ["ledger_id", "state", "entries", "length_bytes", "epoch", "node", "created"]
    shown = [["-" if row[name] is None else row[name] for name in names] for row in rows]
    write_table([name.replace("_", " ") for name in names], shown, sys.stdout)


def compare_replicas(found: target.TargetDatabase) -> list[Row]:
    """All replicas compared at one position of the log: a row for each."""
    with session(found.url, leader_of=found.name) as asked:
        rows = asked.rows(f"CHECK TABLESPACE {quoted(found.name)}")
        for remark in asked.remarks:
            tell(f"{str(remark['severity']).lower()}: {remark['text']}")
    return rows


def checkpoint(found: target.TargetDatabase) -> list[int]:
    """A checkpoint on the server that leads; the ledgers that went with it."""
    connection = target.connect(found, autocommit=True)
    ledgers = "SELECT ledger_id FROM herdpy.ledgers"
    try:
        before = {row[0] for row in connection.execute(ledgers)}
        connection.execute("CHECKPOINT").close()
        return sorted(before - {row[0] for row in connection.execute(ledgers)})
    finally:
        connection.close()
