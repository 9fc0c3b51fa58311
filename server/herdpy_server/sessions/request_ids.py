"""The names of commits: a statement's that comes with one, and what a session answers about them.

A statement ends in a parameter that names its commit (see :func:`without_name`); the functions of the
schema herdpy ask
what became of a named commit: ``done LEDGER:ENTRY``, ``not done``, or ``unknown``: so long ago that it is
not kept, or asked of a server that only follows another and may not know it yet. Below ``session`` and in
the table of ``commands``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from herdpy.log import Append, LogError
from herdpy.log.entry import MAX_REQUEST_ID_BYTES
from herdpy_server.sessions.result import Result
from herdpy_server.store.outcomes import CommitOutcome
from herdpy_server.tablespace import sql_error
from herdpy_server.tablespace.cluster import ReadLevel
from herdpy_sql.errors import SqlError
from herdpy_sql.plan.commands import RequestFunction

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.binding import BoundStatement
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.execution import Execution


WORDS = "AS REQUEST $"
_NAMED = re.compile(r"AS REQUEST \$(\d{1,5}) ")


def without_name(sql: str) -> tuple[str, int]:
    """A text without the words before its statement, and the number of the parameter that they name.

    0 when there are none, or none as drivers write them: then whoever parses it finds the mistake.
    """
    found = _NAMED.match(sql) if sql.startswith(WORDS) else None
    return (sql, 0) if found is None else (sql[found.end() :], int(found[1]))


def name_of(value: Datum) -> bytes:
    """A parameter as the name of a commit; b"" for what cannot be one."""
    name = value.encode() if isinstance(value, str) else b""
    return name if len(name) <= MAX_REQUEST_ID_BYTES else b""


def name_in(value: Datum) -> bytes:
    """As ``name_of``. SqlError 22023 for what cannot be one."""
    name = name_of(value)
    if not name:
        raise SqlError("22023", f"a request id is a text of 1 to {MAX_REQUEST_ID_BYTES} bytes")
    return name


UNKNOWN, NOT_DONE = "unknown", "not done"


async def request_function(execution: Execution, plan: RequestFunction, bound: BoundStatement) -> Result:
    """Answer one of them.

    Raises:
        SqlError: 22023 for what is no request id, 25006 to give one up where nothing may be written,
            and what became of the log when it failed meanwhile.
    """
    answer = await _answer(execution.block, plan, bound.values)
    return Result("SELECT", 1, plan.columns, [(answer,)])


async def _answer(session: TransactionBlock, plan: RequestFunction, values: Sequence[Datum]) -> str:
    tablespace = session.tablespace
    if plan.function == "commit_position":
        return str(tablespace.store.applied)
    if plan.function == "leader_unreached":
        guard, client = tablespace.guard, session.identity.address
        return "" if guard is None else guard.leader_unreached(client or "this machine")
    text = plan.argument(values)
    if plan.function == "use_request_id":
        session.settings.set("herdpy.request_id", text)
        return text
    request_id = text.encode()
    if len(request_id) > MAX_REQUEST_ID_BYTES:
        raise SqlError("22023", f"a request id has at most {MAX_REQUEST_ID_BYTES} bytes")
    found: CommitOutcome | Append | None
    guard = tablespace.guard
    if plan.function == "forbid_commit":
        settings = session.settings
        # Who asks by itself asks for the sake of a transaction that is over: its defaults do not count.
        if settings.standby or (settings.read_only and session.transaction is not None):
            raise SqlError("25006", "cannot execute herdpy.forbid_commit in a read-only transaction")
        await session.waits.log_room()
        try:
            found = tablespace.forbid(request_id)
        except LogError as error:
            raise sql_error(error) from error
        absent = UNKNOWN
    else:
        found = tablespace.requests.find(request_id)
        follows = session.settings.standby
        absent = NOT_DONE if tablespace.requests.would_know(request_id) and not follows else UNKNOWN
        if found is None and guard is not None and not follows:
            # Another may lead meanwhile, and have done it: only who leads certainly can say "not done".
            await guard.confirm(ReadLevel(), guard.basis)
    if isinstance(found, Append):
        try:
            await found
        except LogError as error:
            raise sql_error(error) from error
        return f"done {found.lsn}" if found.transaction.records else NOT_DONE
    if found is None:
        return absent
    return f"done {found.lsn}" if found.done else NOT_DONE
