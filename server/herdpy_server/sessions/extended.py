"""Statements that are parsed, bound and run in steps of their own: the extended query's side of a session.

Above ``statements``, below ``session``. parse -> a prepared statement; bind -> a portal with datums; execute
-> its answer, whole or in parts. All is synchronous but for execute, so that a door can answer many small
messages at once. An error of any step is one of the transaction too: an implicit one is undone, one that
BEGIN began has failed.
"""

from __future__ import annotations

import re
from time import perf_counter
from typing import TYPE_CHECKING

from herdpy_server.sessions.admission import aborted
from herdpy_server.sessions.control import CONTROL_PLANS, ENDING
from herdpy_server.sessions.named import name_in, without_name
from herdpy_server.sessions.portals import Portal, no_portal
from herdpy_server.sessions.prepared import PreparedStatement, StatementDescription, no_statement
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.statements import Statements
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import Begin, Commit, Execute, Fetch, Rollback

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.plans import Declared
    from herdpy_sql.plan import OutputColumn
    from herdpy_sql.types import SqlType

_PARAMETER = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\d+)""")


class ExtendedQueries(Statements):
    """Prepared statements and portals of one session."""

    def parse(self, name: str, sql: str, declared: Declared = ()) -> None:
        """Prepare ``sql`` under ``name``; "" is the unnamed statement, which the next one replaces.

        Args:
            declared: the types of $1, $2 ... that the client gives; None or UNKNOWN: to be inferred.

        Raises:
            SqlError: 42601 it is not one statement, 42P05 the name is taken, 42P18 nothing says what
                type a parameter has, 25P02 the transaction has failed, 54000 and 53400 for limits,
                and all that planning raises.
        """
        try:
            if not name:
                self.prepared.pop("", None)
            self.allowed.check_text(sql)
            sql, named = without_name(sql)
            if named:
                declared = declared[: named - 1]
            prepared = self.plans.typed(sql, declared)
            if self.failed and prepared is not None and prepared.keyword not in ENDING:
                prepared.check_syntax()
                raise aborted()
            statement = PreparedStatement(self.plans, sql, prepared, self.catalog, self.settings.engine)
            if len(statement.param_types) > len(declared):
                _no_gaps(statement, len(declared))
            if named:
                statement.take_name(named)
            if name:
                if name in self.prepared:
                    raise SqlError("42P05", f'prepared statement "{name}" already exists')
                self.allowed.check_statements(len(self.prepared))
            self.prepared[name] = statement
        except SqlError as error:
            if self.observer is not None:
                self.observer(sql, 0.0, -1, error)
            self.abort()
            raise

    def bind(self, portal: str, statement: str, datums: tuple[Datum, ...] = ()) -> None:
        """Make a portal of a prepared statement and its parameters; "" is replaced, others may not be there.

        Raises:
            SqlError: 26000 no such statement, 08P01 another number of parameters, 42P03 there is such
                a portal, 25P02, 53400, and what planning raises when the catalog has changed.
        """
        try:
            found = self.prepared.get(statement)
            if found is None:
                raise no_statement(statement)
            if len(datums) != len(found.param_types):
                raise SqlError(
                    "08P01",
                    f"bind message supplies {len(datums)} parameters, but prepared statement "
                    f'"{statement}" requires {len(found.param_types)}',
                )
            request_id = b""
            if found.named and not self.failed:
                request_id, datums = name_in(datums[-1]), datums[:-1]
            if self.failed:
                if (found.statement is not None and found.keyword not in ENDING) or datums:
                    raise aborted()
            else:
                found.plan(self.catalog, self.settings.engine, datums)
            if portal:
                if portal in self.portals:
                    raise SqlError("42P03", f'cursor "{portal}" already exists')
                self.allowed.check_portals(len(self.portals))
            found.binds += 1
            self.drop_portal(portal)
            self.portals[portal] = made = Portal(portal, found, datums)
            made.depth = len(self._savepoints)
            made.request_id = request_id
        except SqlError:
            self.abort()
            raise

    def param_types(self, statement: str) -> tuple[SqlType, ...]:
        """The types of a prepared statement's parameters. SqlError 26000."""
        found = self.prepared.get(statement)
        if found is None:
            self.abort()
            raise no_statement(statement)
        return found.param_types

    def describe_statement(self, name: str) -> StatementDescription:
        """What a prepared statement takes and returns. SqlError 26000, 25P02."""
        found = self.prepared.get(name)
        if found is None:
            self.abort()
            raise no_statement(name)
        return self._described(found)

    def describe_portal(self, name: str) -> StatementDescription:
        """What a portal returns. SqlError 34000, 25P02."""
        found = self.portals.get(name)
        if found is None:
            self.abort()
            raise no_portal(name)
        if found.statement is not None:
            return self._described(found.statement)
        if self.failed:
            raise aborted()
        return StatementDescription((), found.columns, "SELECT")

    def _described(self, statement: PreparedStatement) -> StatementDescription:
        columns = statement.columns
        if columns is None:
            columns = self._columns_elsewhere(statement)
        if self.failed and columns is not None:
            raise aborted()
        return StatementDescription(statement.param_types, columns, statement.keyword)

    def _columns_elsewhere(self, statement: PreparedStatement) -> tuple[OutputColumn, ...] | None:
        """The columns of a statement whose rows are those of another one that the session keeps."""
        if statement.statement is None:
            return None
        plan = statement.plan_now
        if isinstance(plan, Execute):
            other = self.prepared.get(plan.name)
            return None if other is None else other.columns
        if isinstance(plan, Fetch) and not plan.move:
            portal = self.portals.get(plan.name)
            return None if portal is None else portal.columns
        return None

    async def execute_portal(self, name: str, max_rows: int = 0, *, ends: bool = False) -> Result:
        """Run a portal, or go on with it.

        Args:
            max_rows: return no more rows than that; 0: all.
            ends: nothing else comes before :meth:`sync`, so outside BEGIN the statement is a
                transaction of its own. Otherwise it begins one that ends with ``sync``.

        Returns:
            The rows; ``is_complete`` False when there may be more. Of an empty statement one whose tag is "".

        Raises:
            SqlError: 34000 no such portal, 55000 it ran and returns no rows, 25P02, and whatever the
                statement raises.
        """
        portal = self.portals.get(name)
        if portal is None:
            self.abort()
            raise no_portal(name)
        statement = portal.statement
        if statement is None or portal.has_run or portal.spent:
            return self._go_on(portal, max_rows)
        if statement.statement is None:
            return Result("", -1)
        self.begins(statement.text)
        if portal.request_id:
            self.settings.name_commit(portal.request_id)
        observer, began = self.observer, perf_counter()
        try:
            if self.transaction is None and self.autocommit:
                maybe = await self._at_once(statement, portal.datums) if ends else None
                if maybe is not None:
                    answer = maybe
                elif ends:
                    answer = await self._statement(statement, portal.datums)
                else:
                    answer = await self._in_pipeline(statement, portal.datums)
            else:
                answer = await self._statement(statement, portal.datums)
        except BaseException as error:
            if observer is not None:
                observer(statement.text, perf_counter() - began, -1, error)
            self.abort()
            raise
        finally:
            self.is_running = False
            if portal.request_id and self.transaction is None:
                self.settings.take_request_id()  # of what changed nothing: no other commit is to have it
        if observer is not None and not answer.is_under_way:
            observer(statement.text, perf_counter() - began, answer.rowcount, None)
        portal.spent = True
        if max_rows > 0 and answer.columns is not None:
            self.hold(portal, answer)
            return portal.more(self, max_rows)
        return answer

    async def _in_pipeline(self, statement: PreparedStatement, datums: tuple[Datum, ...]) -> Result:
        """Run a statement where no transaction is open, but others may follow before a Sync."""
        plan, _ = statement.plan(self.catalog, self.settings.engine, datums)
        if type(plan) not in CONTROL_PLANS:
            self.begin()
            self.implicit = self.pipelined = True
            return await self._statement(statement, datums)
        answer = await self._statement(statement, datums)
        if self.transaction is None and not isinstance(plan, Begin | Commit | Rollback):
            # What comes next in the pipeline is in one transaction, as if this had been too.
            self.begin()
            self.implicit = self.pipelined = True
        return answer

    def _go_on(self, portal: Portal, max_rows: int) -> Result:
        """An Execute of a portal that ran already."""
        try:
            if self.failed:
                raise aborted()
            if portal.columns is None:
                raise SqlError("55000", f'portal "{portal.name}" cannot be run')
            if not portal.has_run and portal.statement is not None:
                return Result(portal.statement.plan_now, 0, portal.columns, [])
            if portal.window is not None and portal.statement is not None:
                self.begins(portal.statement.text)
            return portal.more(self, max_rows)
        except SqlError:
            self.abort()
            raise

    def close_statement(self, name: str) -> None:
        """Forget a prepared statement; one that is not there is no error."""
        self.prepared.pop(name, None)

    def close_portal(self, name: str) -> None:
        """Forget a portal; one that is not there is no error."""
        self.drop_portal(name)

    def sync_now(self) -> bool:
        """As :meth:`sync` where nothing need be waited for; False when it must be awaited instead."""
        if self.transaction is None:
            if self.portals:
                self._end_portals(committed=True)
            return True
        return not self.implicit

    async def settled(self, error: SqlError) -> None:
        """Before an error of ``parse``, ``bind`` or a description is told: what it says of tables is durable,
        and as new as the session's read level wants it.

        Raises:
            SqlError: to be told instead: 40001, a definition that it rests on was lost; HP003, 57P03, this
                replica cannot say what there is.
        """
        await self._durable_definitions(error)

    async def sync(self) -> None:
        """End the transaction that statements began since the last one, unless one of them said BEGIN.

        Raises:
            SqlError: what became of its commit.
        """
        if not self.sync_now():
            await self.commit()


def _no_gaps(statement: PreparedStatement, declared: int) -> None:
    """SqlError 42P18 for a parameter that the statement leaves out, and so nothing says its type."""
    assert statement.statement is not None
    used = {int(number) for number in _PARAMETER.findall(statement.statement.clean) if number}
    for number in range(declared + 1, len(statement.param_types) + 1):
        if number not in used:
            raise SqlError("42P18", f"could not determine data type of parameter ${number}")
