"""AS OF SYSTEM TIME: from the moment as a statement has it to the state that it reads.

Above ``block``, below ``execution``, over ``tablespace.past``. A statement that reads the past cannot be
planned before the definitions of its moment are there, and getting them may take a while. So binding it
raises :class:`NeedsPast` at first, and whoever can wait gets the state by :func:`past_state` and binds again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from herdpy.log import LogError
from herdpy.log.lsn import LSN
from herdpy.log.wait import Wait, Work, run_blocking
from herdpy_server.tablespace import now_us
from herdpy_server.tablespace.past import AtPosition, AtTime
from herdpy_sql.clock import Clock
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import zones
from herdpy_sql.expr.intervals import add_zoned
from herdpy_sql.values.intervals import parse_interval
from herdpy_sql.values.moments import parse_timestamp, parse_timestamptz, timestamptz_text

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.tablespace.past import PastMoment, PastState
    from herdpy_sql.parse.as_of import AsOf

T = TypeVar("T")

_POSITION = re.compile(r"\s*(\d+:\d+)\s*", re.ASCII)


class NeedsPast(SqlError):  # noqa: N818 - a signal, and an error where no state can be had
    """A statement reads a moment of the past, whose state is to be found before it is planned."""

    def __init__(self, moment: AsOf) -> None:
        super().__init__("0A000", "AS OF SYSTEM TIME is not supported here")
        self.moment = moment


def resolved(moment: AsOf, clock: Clock, applied: LSN) -> PastMoment:
    """Up to where the log is read.

    Args:
        clock: when the statement began, and the session's time zone.
        applied: the newest position there is.

    Raises:
        SqlError: 22023 it is in the future, 22007 and 22008 it is no moment.
    """
    text = moment.text
    position = _POSITION.fullmatch(text) if not moment.type else None
    if position is not None:
        lsn = LSN.parse(position.group(1))
        if lsn > applied:
            raise SqlError(
                "22023", f"there is nothing at {lsn} yet", detail=f"The newest position is {applied}."
            )
        return AtPosition(lsn)
    time_us = _time_us(moment, clock)
    if time_us > clock.statement_us:
        raise SqlError(
            "22023",
            "AS OF SYSTEM TIME must be in the past",
            detail=f"It is {timestamptz_text(time_us)}, and now is {timestamptz_text(clock.statement_us)}.",
            hint="An interval is added to now: '-5 min'.",
        )
    return AtTime(time_us)


def _time_us(moment: AsOf, clock: Clock) -> int:
    text, now = moment.text, clock.statement_us
    if moment.type == "interval":
        return add_zoned(clock, now, parse_interval(text, clock.style))
    if moment.type == "timestamp":
        return zones.to_utc(parse_timestamp(text, clock.style, now), clock.zone)
    if moment.type == "timestamptz":
        return parse_timestamptz(text, clock.style, now)
    try:
        return parse_timestamptz(text, clock.style, now)
    except SqlError as error:
        if error.sqlstate != "22007":
            raise
    try:
        return add_zoned(clock, now, parse_interval(text, clock.style))
    except SqlError as error:
        if error.sqlstate != "22007":
            raise
    raise SqlError(
        "22007",
        f'no moment of the past: "{text}"',
        hint="Write a time, an interval before now ('-5 min'), or a position of the log ('ledger:entry').",
    )


async def past_state(block: TransactionBlock, moment: AsOf) -> PastState:
    """The state that a statement reads. SqlError as :func:`resolved` and ``Past.at``; 0A000, 57014."""
    transaction = block.transaction
    if transaction is not None and transaction.workspace.has_snapshot:
        raise SqlError(
            "0A000", "a transaction that reads one snapshot cannot read AS OF SYSTEM TIME",
            hint="Use READ COMMITTED.",
        )  # fmt: skip
    if block.transaction is None and block.checks.waits_to_read:
        await block.checks.until_readable()
    tablespace = block.tablespace
    began = now_us()
    clock = Clock(began, began, block.settings.style)
    target = resolved(moment, clock, tablespace.store.applied)
    await until_applied(block)
    return await made(block, lambda: tablespace.past.at(target, block.waits.check))


async def until_applied(block: TransactionBlock) -> None:
    """What has its place in the log may be older than the moment: wait until it is certain."""
    tablespace = block.tablespace
    pending = tablespace.durable_of(tablespace.store.memory.newest_token)
    if pending is not None:
        tablespace.log.hurry()
        try:
            await pending
        except LogError:
            return  # then it is no part of the past


async def made(block: TransactionBlock, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What a coroutine gives that is long, and touches nothing of the living state: in steps on the session's
    loop, or in its thread beside the turn. SqlError 57014, and as it raises."""
    loop = block.waits.deadline.loop
    if loop is None:
        work: Work[T] = Work(lambda: run_blocking(make()))
        return await work
    wait: Wait[T] = Wait()
    task = loop.create_task(make(), name="a state of the past")
    task.add_done_callback(lambda done: _settle(wait, done))
    try:
        return await block.waits.until(wait)
    finally:
        task.cancel()


def _settle(wait: Wait[T], task: asyncio.Task[T]) -> None:
    """The task's end is the wait's, if that has not ended before."""
    error = None if task.cancelled() else task.exception()
    if wait.done():
        return
    if task.cancelled():
        wait.fail(SqlError("57014", "canceling statement due to user request"))
    elif error is not None:
        wait.fail(error)
    else:
        wait.resolve(task.result())
