"""One table of a restored database, made in a living one: its definition and rows, in one transaction.

Below ``restore``. The restored database is a directory that nobody else has; the living one is a directory
or servers. Rows go over as Arrow batches, a few thousand at a time.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from herdpy.cli import schema, target
from herdpy.cli.errors import USAGE, CliError, print_note
from herdpy.cli.extras import needed
from herdpy.cli.output import Bar, write_document
from herdpy.cli.restore_order import RestoreOrder

_FETCH_ROWS = 50_000
_MISSING = {"42P01": "table or sequence", "42704": "type", "3F000": "schema"}


@dataclass(frozen=True, slots=True)
class NewName:
    """Where a table is to come."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{schema.quoted(self.schema)}.{schema.quoted(self.name)}"


def parsed_name(text: str) -> tuple[str, str]:
    """Schema ("" if none is said) and name of ``table``, ``schema.table``, each perhaps in quotes."""
    parts: list[str] = []
    rest = text
    while rest:
        if rest[0] == '"':
            end = 1
            while (end := rest.find('"', end)) >= 0 and rest[end : end + 2] == '""':
                end += 2
            if end < 0:
                raise CliError(f"{text}: a quote is not closed", code=USAGE)
            part, rest = rest[: end + 1], rest[end + 1 :]
        else:
            part, _dot, _after = rest.partition(".")
            rest = rest[len(part) :]
        parts.append(schema.folded(part))
        if rest and (rest[0] != "." or len(rest) == 1):
            raise CliError(f"{text} is no name of a table", code=USAGE)
        rest = rest[1:]
    if not 1 <= len(parts) <= 2 or not all(parts):
        hint = 'Write table, or schema.table, or "a b"."c".'
        raise CliError(f"{text} is no name of a table", hint=hint, code=USAGE)
    return (parts[0], parts[1]) if len(parts) == 2 else ("", parts[0])


def new_name(source: str, name: str) -> NewName:
    """Where a table comes: ``name`` if there is one, in the schema of ``source`` unless it says another."""
    own_schema, own = parsed_name(source)
    if not name:
        return NewName(own_schema or "public", own)
    within, called = parsed_name(name)
    return NewName(within or own_schema or "public", called)


def check_free(living: target.TargetDatabase, sought: NewName) -> None:
    """The driver's error 42P07 or 3F000 when there is something of that name, or no such schema.

    Asked before hours of restoring.
    """
    refused: Any = needed("herdpy.dbapi").ProgrammingError
    with closing(target.connect(living, autocommit=True)) as connection:
        there = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = $1", (sought.schema,))
        if there.fetchone() is None:
            raise refused(f'schema "{sought.schema}" does not exist', sqlstate="3F000")
        taken = connection.execute(
            "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = $1 AND c.relname = $2",
            (sought.schema, sought.name),
        )
        if taken.fetchone() is not None:
            hint = "Give it another name: --as NAME."
            raise refused(f"relation {sought} already exists", sqlstate="42P07", hint=hint)


def copy_table(
    restored: Path,
    source: str,
    living: target.TargetDatabase,
    sought: NewName,
    *,
    foreign_keys: bool,
    bar: Bar,
) -> int:
    """Make the table in the living database; returns how many rows it has.

    Raises:
        CliError: the restored database has no such table, or the living one lacks what it needs.
        The driver's errors.
    """
    with closing(needed("herdpy.dbapi").connect(str(restored), autocommit=False)) as origin:
        table, text = _definition(origin, source, sought)
        expected = _count(origin, table)
        with closing(target.connect(living, autocommit=False)) as connection:
            connection.execute("SET LOCAL search_path = public")
            for statement in text.before:
                _run(connection, statement, "")
            rows = _move(origin, connection, table, text, sought, expected, bar)
            for statement in text.after:
                _run(connection, statement, "")
            for statement in text.foreign_keys if foreign_keys else ():
                _run(connection, statement, "Leave foreign keys out: --no-foreign-keys.")
            _continue_sequences(origin, connection, text, sought)
            connection.commit()
    return rows


def _definition(origin: Any, source: str, sought: NewName) -> tuple[Any, Any]:
    """The table in the restored database, and the statements that make it."""
    own_schema, own = parsed_name(source)
    origin.execute("SELECT 1").close()  # the catalog of a transaction
    catalog = origin.shared_link.link.session.catalog
    table = next(
        (one for one in catalog.tables.values() if (one.schema, one.name) == (own_schema or "public", own)),
        None,
    )
    if table is None:
        names = sorted(f"{one.schema}.{one.name}" for one in catalog.tables.values() if not one.is_temporary)
        raise CliError(
            f"the restored database has no table {source}",
            hint=f"It has: {', '.join(names[:12])}" if names else "It has no tables.",
        )
    module: Any = needed("herdpy_sql.system.table_text")
    return table, module.table_text(catalog, table, sought.schema, sought.name)


def _run(connection: Any, statement: str, hint: str) -> None:
    """Run a statement; the driver's errors, with what to do where something is missing that it uses."""
    try:
        connection.execute(statement).close()
    except needed("herdpy.dbapi").Error as error:
        missing = _MISSING.get(error.sqlstate)
        if hint:
            error.hint = hint
        elif missing is not None:
            error.hint = f"Make the {missing} there first, as the restored database had it."
        raise


def _count(origin: Any, table: Any) -> int:
    name = f"{schema.quoted(table.schema)}.{schema.quoted(table.name)}"
    return int(origin.execute(f"SELECT count(*) FROM {name}").fetchone()[0])


def _batches(origin: Any, table: Any, text: Any) -> Iterator[Any]:
    name = f"{schema.quoted(table.schema)}.{schema.quoted(table.name)}"
    origin.execute(f"DECLARE restored_rows CURSOR FOR SELECT {', '.join(text.columns)} FROM {name}").close()
    while True:
        with origin.cursor() as cursor:
            cursor.execute(f"FETCH {_FETCH_ROWS} FROM restored_rows")
            found = cursor.fetch_arrow_table()
        if not found.num_rows:
            return
        yield found


def _move(
    origin: Any, connection: Any, table: Any, text: Any, sought: NewName, expected: int, bar: Bar
) -> int:
    rows = 0
    if not text.columns:
        return rows
    for batch in _batches(origin, table, text):
        with connection.cursor() as cursor:
            rows += cursor.adbc_ingest(sought.name, batch, mode="append", db_schema_name=sought.schema)
        bar.update(rows, expected, rows)
    with connection.execute(f"SELECT count(*) FROM {text.name}") as cursor:
        found = int(cursor.fetchone()[0])
    if not rows == found == expected:
        raise CliError(f"{found:,} rows arrived of {expected:,}; nothing was kept")
    return rows


def _continue_sequences(origin: Any, connection: Any, text: Any, sought: NewName) -> None:
    """The new table's sequences go on where the old ones had come to."""
    for old_schema, old, column in text.sequences:
        name = f"{schema.quoted(old_schema)}.{schema.quoted(old)}"
        value, called = origin.execute(f"SELECT last_value, is_called FROM {name}").fetchone()
        with connection.execute("SELECT pg_get_serial_sequence($1, $2)", (str(sought), column)) as cursor:
            (new,) = cursor.fetchone()
        connection.execute("SELECT setval($1::regclass, $2, $3)", (new, value, called)).close()


# The command.


def restore(
    order: RestoreOrder,
    plan: Any,
    to: str,
    table: str,
    as_name: str,
    scratch: Path | None,
    *,
    foreign_keys: bool,
) -> None:
    """Restore into a directory, which goes afterwards unless it is ``scratch``, and bring the table over."""
    living = target.existing(to, servers=True)
    sought = new_name(table, as_name)
    check_free(living, sought)
    own = scratch is None
    place = Path(tempfile.mkdtemp(prefix="herdpy-restore-")) if scratch is None else scratch
    place = place.expanduser().absolute()
    try:
        lsn = _restored_before(plan, place)
        if lsn is None:
            lsn = str(order.make(plan, place)[0].lsn)
        with Bar("Copying") as bar:
            rows = copy_table(place, table, living, sought, foreign_keys=foreign_keys, bar=bar)
            seconds = bar.seconds
    finally:
        if own:
            shutil.rmtree(place, ignore_errors=True)
    facts = {"table": str(sought), "rows": rows, "lsn": lsn, "seconds": round(seconds, 3)}
    if order.json:
        write_document(facts)
    else:
        sys.stdout.write(f"{sought} has the {rows:,} rows that {table} had at {lsn}.\n")


def _restored_before(plan: Any, place: Path) -> str | None:
    """The position of a directory where an earlier command has restored the same; None: it is not that."""
    found = needed("herdpy_server.backup.timeline").read_restored(place)
    if found is None or (found.parent, found.target) != (plan.log.log_id, str(plan.stop)):
        return None
    if plan.stop.open_end and found.branched != str(plan.stop.lsn):
        return None  # more was archived since
    print_note(f"{place} is as of {found.branched} already.")
    return str(found.branched)
