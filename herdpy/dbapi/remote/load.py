"""Arrow data into a server's table: where it is, what makes it, and COPY ... FROM STDIN (FORMAT arrow).

Below ``link``, which sends a load again on the next leader. It loads pyarrow.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from herdpy.dbapi.errors import ProgrammingError
from herdpy.dbapi.remote.arrow import sql_type
from herdpy.dbapi.remote.connection import checked
from herdpy.dbapi.remote.sent import step
from herdpy.dbapi.remote.values import rows_of
from herdpy.dbapi.remote.wire import Wire

TEMPORARY = "pg_temp"
_PLACES = (
    "SELECT current_schemas(true), "
    "(SELECT array_agg(table_schema) FROM information_schema.tables WHERE table_name = $1)"
)


def load(
    wire: Wire,
    table: str,
    batches: Sequence[pa.RecordBatch],
    schema: pa.Schema,
    mode: str,
    within: str | None,
) -> int:
    """Load batches, within the transaction that is open; how many rows.

    Raises:
        ProgrammingError: 42P07 the table is there and must not be, 42P01 the reverse, 3F000 it has no place.
        Error: whatever the server refuses.
    """
    ((path, holding),) = rows_of(checked(wire.run([step(_PLACES, table)]))[-1])
    place, is_there = place_of(table, mode, within, list(path), set(holding or ()))  # type: ignore[call-overload]
    name = f"{quoted(place)}.{quoted(table)}"
    before = []
    if is_there and mode == "replace":
        before.append(f"DROP TABLE {name}")
    if mode == "replace" or not is_there:
        columns = ", ".join(f"{quoted(field.name)} {sql_type(field.type)}" for field in schema)
        before.append(f"CREATE TABLE {name} ({columns})")
    if before:
        checked(wire.run([step(sql) for sql in before]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    listed = ", ".join(quoted(column) for column in schema.names)
    done = wire.copy_in(f"COPY {name} ({listed}) FROM STDIN (FORMAT arrow)", [sink.getvalue()])
    checked([done])
    return int(done.command_tuples or 0)


def place_of(
    table: str, mode: str, within: str | None, path: Sequence[str], holding: set[str]
) -> tuple[str, bool]:
    """The schema of the table to load into, and whether the table is there: as a directory has it.

    Args:
        path: the schemas where names without one are looked for; the session's own among them.
        holding: those that have a table of that name.
    """
    place = within
    if within == TEMPORARY:
        own = next((one for one in path if _is_own(one)), None)
        is_there = own in holding
    elif within is not None:
        is_there = within in holding
    else:
        found = None
        if mode in ("append", "create_append"):
            found = next((one for one in path if one in holding), None)
        place = found or next((one for one in path if not _is_own(one) and one != "pg_catalog"), None)
        is_there = place in holding
    if is_there and mode == "create":
        raise ProgrammingError(f'relation "{table}" already exists', sqlstate="42P07")
    if not is_there and mode == "append":
        raise ProgrammingError(f'relation "{table}" does not exist', sqlstate="42P01")
    if place is None:
        raise ProgrammingError("no schema has been selected to create in", sqlstate="3F000")
    return place, is_there


def _is_own(schema: str) -> bool:
    return schema.startswith(f"{TEMPORARY}_")


def quoted(name: str) -> str:
    """A name as SQL has it, whatever it consists of."""
    return '"' + name.replace('"', '""') + '"'
