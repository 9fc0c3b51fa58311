"""What a table's name meant at a position of the log, from whoever still knows it. Above ``followed``.

Rows of the log are bytes; only a definition says what they are, and the record with it may be trimmed. Known
are the definitions of the tables in a published snapshot, those that a server has now, and, at the beginning
of a log that is whole, that there were none. From any of these the records lead to the position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from herdpy.log import LSN, START, LogError
from herdpy.log.published import load
from herdpy.log.records import CreateTable, decode_record
from herdpy_spark.feed.followed import DEFINING, FollowedTable, published_table
from herdpy_spark.feed.stretches import frames
from herdpy_spark.log.address import LogAddress
from herdpy_spark.log.entries import read
from herdpy_spark.log.ledgers import LogLedgers
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import decode_table


class DefinitionUnknownError(LogError):
    """Nobody knows any more what the table was at a position of the log."""


class Described(NamedTuple):
    """What a server says: the table, and the position up to which it has applied."""

    table: Table
    at: LSN


def table_at(
    address: LogAddress, ledgers: LogLedgers, name: str, at: LSN, describe: Callable[[], Described | None]
) -> Table | None:
    """The table of this name at a position; None: there was none.

    Args:
        at: a transaction's end, or the log's base.
        describe: asks a server; None: it knows no such table, or there is none to ask.

    Raises:
        DefinitionUnknownError: nobody knows.
        LogError: the log cannot be read.
    """
    if at == START:
        return None
    told = describe()
    if told is not None:
        if told.at <= at:
            return _along(ledgers, FollowedTable(name, told.table), told.at, at)
        if not _made(ledgers, told.table, at, told.at):
            return told.table
    base = ledgers.state().base
    if base == START:
        return _along(ledgers, FollowedTable(name, None), START, at)
    ref = address.newest_snapshot(at)
    if ref is not None and ref.lsn >= base:
        table = published_table(load(ref), name)
        return _along(ledgers, FollowedTable(name, table), ref.lsn, at)
    newest_known = "no server reports it" if told is None else "what is there now is younger"
    raise DefinitionUnknownError(
        f'it is not known what table "{name}" was at {at}: the log begins after {base}, no published snapshot'
        f" between the two is left, and {newest_known}. Begin later (startingOffsets=latest), or publish"
        " snapshots"
    )


def _along(ledgers: LogLedgers, followed: FollowedTable, after: LSN, upto: LSN) -> Table | None:
    """The table at ``upto``, given the one at ``after``."""
    for entry in read(ledgers, after, upto):
        for body in entry.bodies:
            for kind, start, stop in frames(body):
                if kind in DEFINING:
                    followed.see(decode_record(body[start:stop]))
    return followed.table


def _made(ledgers: LogLedgers, table: Table, after: LSN, upto: LSN) -> bool:
    """Whether this table came to be between the two."""
    for entry in read(ledgers, after, upto):
        for body in entry.bodies:
            for kind, start, stop in frames(body):
                if kind == CreateTable.type:
                    record = decode_record(body[start:stop])
                    assert isinstance(record, CreateTable)
                    if decode_table(record.definition).id == table.id:
                        return True
    return False
