"""Runs a program: the statements of a block, one after another, on a :class:`ProgramHost`.

The host runs SQL in the statement's own transaction, marks points of it and takes back what came since, gives
other sessions their turn, and takes notices. The interpreter does no I/O. A loop asks the host at each round,
so that a program without an end can be cancelled, and does not keep others waiting.

Errors are SqlError. An EXCEPTION block is a mark before its body; an error that a handler takes takes back
all that the body has done, as a subtransaction does, before the handler runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from herdpy_sql.errors import SqlError
from herdpy_sql.plan.programs import declared_type, names_in, row_named
from herdpy_sql.programs import syntax as s
from herdpy_sql.programs.conditions import conditions, takes
from herdpy_sql.programs.fragments import Planned, dynamic, planned
from herdpy_sql.programs.routines import Program
from herdpy_sql.programs.type_texts import RowType
from herdpy_sql.programs.variables import Held, Names, RecordVariable, Variable, converter
from herdpy_sql.types import BIGINT, BOOLEAN, INTEGER, TEXT, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.clock import Clock


@dataclass(slots=True)
class ProgramAnswer:
    """What a statement gave.

    Attributes:
        columns: names and types; None of a statement without rows.
        count: the rows that it gave or changed.
        changes: it is INSERT, UPDATE or DELETE, of which INTO takes one row at most.
    """

    columns: RowType | None
    rows: list[Any]
    count: int
    changes: bool = False


def _more_than_one() -> SqlError:
    return SqlError(
        "P0003",
        "query returned more than one row",
        hint="Make sure the query returns a single row, or use LIMIT 1.",
    )


class ProgramHost(Protocol):
    """What a program runs on."""

    @property
    def catalog(self) -> Catalog:
        """The definitions that the next statement sees."""

    def clock(self) -> Clock:
        """The surroundings of an expression."""

    def will_plan(self, text: str) -> None:
        """A statement is about to be planned."""

    def run(self, one: Planned, values: Sequence[Any], *, may_write: bool) -> ProgramAnswer:
        """Run a statement. SqlError; 0A000 for one that writes where it may not."""

    def mark(self) -> object:
        """Where the transaction is."""

    def undo(self, mark: Any) -> None:
        """Take back all that came since."""

    def notice(
        self, severity: str, sqlstate: str, message: str, detail: str | None = None, hint: str | None = None
    ) -> None:
        """Say something to the client."""

    def turn(self) -> None:
        """Let others have their turn where one is due. SqlError 57014 when the statement shall end."""


@dataclass(frozen=True, slots=True)
class _Left:
    """How a list of statements was left before its end: by RETURN (None), EXIT or CONTINUE."""

    word: str
    label: str = ""


_RETURNED = _Left("RETURN")


@dataclass(slots=True)
class _Handled:
    """The error that a handler runs for."""

    error: SqlError
    before: _Handled | None


@dataclass
class ProgramRun:
    """One run of a program.

    Attributes:
        names: the innermost scope.
        value: what RETURN gave, with its type; of a row, the row and its columns.
        numbered: what $1, $2 ... mean.
        rows: those that RETURN NEXT and RETURN QUERY gave.
    """

    host: ProgramHost
    program: Program
    names: Names
    value: Any = None
    row: RowType | None = None
    rows: list[Any] = field(default_factory=list)
    row_count: int = 0
    handled: _Handled | None = None
    expected: RowType | None = None
    numbered: Sequence[tuple[tuple[str, ...], SqlType]] = ()

    # --- values -----------------------------------------------------------------------------------

    @property
    def may_write(self) -> bool:
        """Whether its statements may change the database."""
        return self.program.is_volatile

    def planned(self, fragment: s.Fragment) -> Planned:
        """A fragment's plan; of one that says $1, with the arguments first."""
        numbered = self.numbered if "$" in fragment.text else ()
        if not fragment.is_expression:
            self.host.will_plan(fragment.text)
        of_sql = self.program.definition.language == "sql"
        return planned(fragment, self.host.catalog, self.names, numbered, prefers_columns=of_sql)

    def evaluate(self, fragment: s.Fragment) -> tuple[Any, SqlType]:
        """The value of an expression, and its type. SqlError 42601 for several columns, 21000 for rows."""
        host, names = self.host, self.names
        one = self.planned(fragment)
        columns = one.plan.columns
        if columns is None or len(columns) != 1:
            count = 0 if columns is None else len(columns)
            raise SqlError("42601", f"query returned {count} columns")
        if one.project is not None and not one.plan.calls:
            return one.project((), one.values(names), host.clock())[0], columns[0].type
        answer = host.run(one, one.values(names), may_write=self.may_write)
        if len(answer.rows) > 1:
            raise SqlError("21000", "query returned more than one row")
        return (answer.rows[0][0] if answer.rows else None), columns[0].type

    def value_as(self, fragment: s.Fragment, target: SqlType) -> Any:
        """The value of an expression as one of a type."""
        value, source = self.evaluate(fragment)
        return value if value is None else converter(source, target)(value, self.host.clock())

    def test(self, fragment: s.Fragment) -> bool:
        """Whether a condition is true."""
        return self.value_as(fragment, BOOLEAN) is True

    def query(self, fragment: s.Fragment) -> ProgramAnswer:
        """What a statement of SQL gives."""
        one = self.planned(fragment)
        return self.host.run(one, one.values(self.names), may_write=self.may_write)

    def dynamic(self, text: s.Fragment, using: Sequence[s.Fragment]) -> ProgramAnswer:
        """What a statement gives that the program has made. SqlError 22004 for NULL."""
        sql = self.value_as(text, TEXT)
        if sql is None:
            raise SqlError("22004", "query string argument of EXECUTE is null")
        given = [self.evaluate(one) for one in using]
        self.host.will_plan(sql)
        one = dynamic(sql, self.host.catalog, [type_ for _, type_ in given])
        return self.host.run(one, tuple(value for value, _ in given), may_write=self.may_write)

    # --- targets ----------------------------------------------------------------------------------

    def held(self, target: s.Target) -> tuple[Held, str | None]:
        """What a target names. SqlError 42601."""
        found = self.names.find(target.path)
        if found is None:
            raise SqlError("42601", f'"{".".join(target.path)}" is not a known variable')
        return found

    def assign(self, target: s.Target, value: Any, source: SqlType) -> None:
        """Give a target a value. SqlError 22005 for a constant."""
        held, name = self.held(target)
        clock = self.host.clock()
        if target.subscripts:
            value, source = self._with_element(held, name, target, value, source)
        if isinstance(held, Variable):
            if held.constant:
                raise SqlError("22005", f'variable "{held.name}" is declared CONSTANT')
            held.assign(value, source, clock)
        elif name is not None:
            held.set(held.place(name), value, source, clock)
        elif value is None:
            held.take(held.row or (), None, clock)
        else:
            raise SqlError("42804", "cannot assign non-composite value to a record variable")

    def _with_element(
        self, held: Held, name: str | None, target: s.Target, value: Any, source: SqlType
    ) -> tuple[Any, SqlType]:
        """The array of a target with another element. SqlError 42804, 0A000."""
        if isinstance(held, Variable):
            array, type_ = held.value, held.type
        else:
            place = held.place(name or "")
            array, type_ = held.get(place), held.columns()[place][1]
        if type_.base is not Base.ARRAY:
            raise SqlError(
                "42804", f"cannot subscript type {type_.name} because it does not support subscripting"
            )
        at = self.value_as(target.subscripts[0], INTEGER)
        if len(target.subscripts) > 1 or at is None or at < 1 or type_.dimensions > 1:
            raise SqlError("0A000", "assignment to this element of an array is not supported")
        element = type_.element_type
        items: list[Any] = list(array or ())  # type: ignore[arg-type]
        items += [None] * (at - len(items))
        items[at - 1] = value if value is None else converter(source, element)(value, self.host.clock())
        return tuple(items), type_

    def take_row(self, targets: Sequence[s.Target], columns: RowType, row: Sequence[Any] | None) -> None:
        """Give a row of a query to what INTO or FOR names; None: there is none, and all is NULL."""
        if len(targets) == 1 and not targets[0].subscripts:
            held, name = self.held(targets[0])
            if isinstance(held, RecordVariable) and name is None:
                held.take(columns, row, self.host.clock())
                return
        for at, target in enumerate(targets):
            there = row is not None and at < len(columns)
            value = row[at] if row is not None and there else None
            self.assign(target, value, columns[at][1] if at < len(columns) else TEXT)

    # --- blocks and statements --------------------------------------------------------------------

    def run_block(self, block: s.ProgramBlock) -> _Left | None:
        """Run a block in a scope of its own."""
        outer = self.names
        self.names = Names(outer, block.label)
        try:
            for one in block.declarations:
                self.names.held[one.name] = self._declared(one)
            left = self.run_all(block.body) if block.handlers is None else self._guarded(block)
        finally:
            self.names = outer
        if left is not None and left.word == "EXIT" and block.label and left.label == block.label:
            return None
        return left

    def _declared(self, one: s.Declaration) -> Held:
        if one.alias:
            found = self.names.find((one.alias,))
            if found is None:
                raise SqlError("42704", f'variable "{one.alias}" does not exist')
            return found[0]
        catalog = self.host.catalog
        text = one.type.strip()
        if text.lower() == "record":
            made: Held = RecordVariable(one.name)
        else:
            made = self._of_type(one, text, catalog)
        if one.default is not None:
            target = s.Target((one.name,), (), one.line)
            if isinstance(made, RecordVariable):
                self.names.held[one.name] = made
                self.assign_expression(target, one.default)
            else:
                made.assign(*self.evaluate(one.default), self.host.clock())
        if isinstance(made, Variable):
            made.constant, made.not_null = one.constant, one.not_null
            if made.not_null and made.value is None:
                made.assign(None, made.type, self.host.clock())
        return made

    def _of_type(self, one: s.Declaration, text: str, catalog: Catalog) -> Held:
        words = text.lower().replace(" ", "")
        if words.endswith("%type"):
            path = tuple(names_in(text[: text.rindex("%")]))
            found = self.names.find(path)
            if found is not None:
                held, name = found
                if isinstance(held, Variable):
                    return Variable(one.name, held.type)
                return Variable(one.name, held.columns()[held.place(name or "")][1])
        if words.endswith("%rowtype"):
            return RecordVariable(
                one.name, row_named(names_in(text[: text.rindex("%")]), catalog), fixed=True
            )
        try:
            return Variable(one.name, declared_type(text, catalog))
        except SqlError as error:
            if error.sqlstate not in {"42704", "42601"}:
                raise
            try:
                return RecordVariable(one.name, row_named(names_in(text), catalog), fixed=True)
            except SqlError:
                raise error from None

    def _guarded(self, block: s.ProgramBlock) -> _Left | None:
        """Run a block that has handlers."""
        host = self.host
        mark, names = host.mark(), self.names
        try:
            return self.run_all(block.body)
        except SqlError as error:
            found = _handler(block.handlers or (), error)
            if found is None:
                raise
            failure = error
        host.undo(mark)
        self.names = names
        self.handled = _Handled(failure, self.handled)
        inner = self.names = Names(names)
        inner.held["sqlstate"] = Variable("sqlstate", TEXT, failure.sqlstate)
        inner.held["sqlerrm"] = Variable("sqlerrm", TEXT, failure.message)
        try:
            return self.run_all(found.body)
        finally:
            self.names = names
            self.handled = self.handled.before

    def run_all(self, statements: Sequence[s.ProgramStep]) -> _Left | None:
        """Run statements in order; how they were left, if before the end."""
        turn = self.host.turn
        for one in statements:
            turn()
            left = _RUNNERS[type(one)](self, one)
            if left is not None:
                return left
        return None

    def assign_expression(self, target: s.Target, value: s.Fragment) -> None:
        """target := expression."""
        held, name = self.held(target)
        if isinstance(held, RecordVariable) and name is None and not target.subscripts:
            self._assign_record(held, value)
            return
        self.assign(target, *self.evaluate(value))

    def _assign_record(self, held: RecordVariable, value: s.Fragment) -> None:
        """Give a whole record another one, or the columns of a query."""
        row, values = self.row_value(value)
        held.take(row, values, self.host.clock())

    def row_value(self, value: s.Fragment) -> tuple[RowType, Sequence[Any] | None]:
        """An expression that is a row: a record by its name, ROW(...), or NULL. SqlError 42804, 0A000."""
        if value.name:
            found = self.names.find(tuple(names_in(value.name)))
            if found is not None and isinstance(found[0], RecordVariable) and found[1] is None:
                return found[0].columns(), found[0].values
        text = value.text.removeprefix("SELECT ").strip()
        if text.lower() == "null":
            return self.row or (), None
        inner = _row_written(text)
        if inner is None:
            raise SqlError("0A000", "an expression that gives a row is not supported here")
        fragment = value.kept.setdefault("row", s.Fragment(f"SELECT {inner}", value.line))
        assert isinstance(fragment, s.Fragment)
        answer = self.query(fragment)
        columns = tuple((f"f{at}", type_) for at, (_, type_) in enumerate(answer.columns or (), 1))
        return columns, answer.rows[0] if answer.rows else None

    def found(self, value: bool) -> None:
        """Set FOUND."""
        held = self.names.find(("found",))
        assert held is not None
        assert isinstance(held[0], Variable)
        held[0].value = value

    def if_(self, one: s.If) -> _Left | None:
        for condition, body in one.branches:
            if self.test(condition):
                return self.run_all(body)
        return self.run_all(one.otherwise)

    def case(self, one: s.CaseStatement) -> _Left | None:
        """CASE. SqlError 20000 where nothing fits."""
        names = self.names
        if one.operand is not None:
            self.names = Names(names)
            value, type_ = self.evaluate(one.operand)
            self.names.held[_OPERAND] = Variable(_OPERAND, type_, value)
        try:
            for tests, body in one.branches:
                for test in tests:
                    if self._fits(one, test):
                        self.names = names
                        return self.run_all(body)
        finally:
            self.names = names
        if one.otherwise is None:
            raise SqlError("20000", "case not found", hint="CASE statement is missing ELSE part.")
        return self.run_all(one.otherwise)

    def _fits(self, one: s.CaseStatement, test: s.Fragment) -> bool:
        if one.operand is None:
            return self.test(test)
        text = test.text.removeprefix("SELECT ")
        compared = s.Fragment(f'SELECT "{_OPERAND}" = ({text})', test.line, is_expression=True)
        return self.test(test.kept.setdefault("compared", compared))  # type: ignore[arg-type]

    def loop(self, one: s.Loop) -> _Left | None:
        while one.condition is None or self.test(one.condition):
            self.host.turn()
            left = self.run_all(one.body)
            if left is not None and not _goes_on(left, one.label):
                return None if _ends(left, one.label) else left
        return None

    def for_range(self, one: s.ForRange) -> _Left | None:
        """FOR over integers. SqlError 22004 for NULL, 22023 for a step that is not above zero."""
        low, high = self._bound(one.low, "lower bound"), self._bound(one.high, "upper bound")
        step = 1 if one.step is None else self._bound(one.step, "BY value")
        if step <= 0:
            raise SqlError("22023", "BY value of FOR loop must be greater than zero")
        variable = Variable(one.name, INTEGER)
        scope = self._scope_of(one.label)
        self.names.held[one.name] = variable
        ran = False
        try:
            places = range(low, high - 1, -step) if one.reverse else range(low, high + 1, step)
            for at in places:
                variable.value = at
                ran = True
                self.host.turn()
                left = self.run_all(one.body)
                if left is not None and not _goes_on(left, one.label):
                    return None if _ends(left, one.label) else left
        finally:
            self.names = scope
            self.found(ran)
        return None

    def _bound(self, fragment: s.Fragment, what: str) -> int:
        value = self.value_as(fragment, INTEGER)
        if value is None:
            raise SqlError("22004", f"{what} of FOR loop cannot be null")
        return int(value)

    def _scope_of(self, label: str) -> Names:
        """Begin the scope of a loop; what was there before."""
        before = self.names
        self.names = Names(before, label)
        return before

    def for_query(self, one: s.ForQuery) -> _Left | None:
        answer = self.dynamic(one.query, one.using) if one.dynamic else self.query(one.query)
        if answer.columns is None:
            raise SqlError("42601", "cannot open a query that gives no rows as cursor")
        ran = False
        try:
            for row in answer.rows:
                self.take_row(one.targets, answer.columns, row)
                ran = True
                self.host.turn()
                left = self.run_all(one.body)
                if left is not None and not _goes_on(left, one.label):
                    return None if _ends(left, one.label) else left
            if not ran:
                self.take_row(one.targets, answer.columns, None)
        finally:
            self.found(ran)
        return None

    def for_each(self, one: s.ForEach) -> _Left | None:
        """FOREACH. SqlError 22004 for NULL, 42804 for what is no array."""
        array, type_ = self.evaluate(one.array)
        if type_.base is not Base.ARRAY:
            raise SqlError("42804", f"FOREACH expression must yield an array, not type {type_.name}")
        if array is None:
            raise SqlError("22004", "FOREACH expression must not be null")
        if type_.dimensions > 1:
            raise SqlError("0A000", "FOREACH over arrays of several dimensions is not supported")
        ran = False
        try:
            for value in array:
                self.assign(one.target, value, type_.element_type)
                ran = True
                self.host.turn()
                left = self.run_all(one.body)
                if left is not None and not _goes_on(left, one.label):
                    return None if _ends(left, one.label) else left
        finally:
            self.found(ran)
        return None

    def leave(self, one: s.Leave) -> _Left | None:
        if one.condition is not None and not self.test(one.condition):
            return None
        return _Left("CONTINUE" if one.goes_on else "EXIT", one.label)

    # --- RETURN -----------------------------------------------------------------------------------

    def return_(self, one: s.Return) -> _Left | None:
        """RETURN, which fits what is declared: ``plan.programs`` has seen to that."""
        program = self.program
        if one.value is None:
            self.value = self.of_outputs()
        elif program.result is not None:
            self.value = self.value_as(one.value, program.result)
        else:
            row, values = self.row_value(one.value)
            self.row = row
            self.value = None if values is None else self.fitted(row, values)
        return _RETURNED

    def of_outputs(self) -> Any:
        """The values of the OUT arguments, when the program ends."""
        outputs = self.program.outputs
        if not outputs or self.program.gives_rows:
            return None
        values = tuple(self._output(at) for at in range(len(outputs)))
        return values if self.program.row is not None else values[0]

    def _output(self, at: int) -> Any:
        """The value of an OUT argument."""
        names = self.names
        while names.parent is not None:
            names = names.parent
        held = names.held[f"\0{at}"]
        assert isinstance(held, Variable)
        return held.value

    def fitted(self, row: RowType, values: Sequence[Any]) -> tuple[Any, ...]:
        """A row as one of the columns that are declared. SqlError 42804."""
        declared = self.declared_row()
        if declared is None:
            return tuple(values)
        if len(row) != len(declared):
            raise SqlError(
                "42804",
                "returned record type does not match expected record type",
                detail=f"Number of returned columns ({len(row)}) does not match expected column count "
                f"({len(declared)}).",
            )
        clock = self.host.clock()
        return tuple(
            value if value is None else converter(given, target)(value, clock)
            for value, (_, given), (_, target) in zip(values, row, declared, strict=True)
        )

    def declared_row(self) -> RowType | None:
        """The columns that the program gives; None where they are not known."""
        program = self.program
        if program.row is not None:
            return program.row
        if program.is_record:
            return self.expected
        return None if program.result is None else ((program.name, program.result),)

    def return_next(self, one: s.ReturnNext) -> _Left | None:
        """RETURN NEXT. SqlError 42804."""
        program = self.program
        if one.value is None:
            values = tuple(self._output(at) for at in range(len(program.outputs)))
            self.rows.append(values)
        elif program.result is not None:
            self.rows.append((self.value_as(one.value, program.result),))
        else:
            row, given = self.row_value(one.value)
            self.rows.append(self.fitted(row, given if given is not None else [None] * len(row)))
        return None

    def return_query(self, one: s.ReturnQuery) -> _Left | None:
        """RETURN QUERY. SqlError 42804 for columns that are not those declared."""
        answer = self.dynamic(one.query, one.using) if one.dynamic else self.query(one.query)
        columns = answer.columns
        if columns is None:
            raise SqlError("42601", "cannot open a query that gives no rows as cursor")
        self.check_columns(columns)
        self.rows += [self.fitted(columns, row) for row in answer.rows]
        self.row_count = len(answer.rows)
        self.found(bool(answer.rows))
        return None

    def check_columns(self, columns: RowType) -> None:
        """That a query's columns are those that are declared. SqlError 42804."""
        declared = self.declared_row()
        if declared is None:
            return
        message = "structure of query does not match function result type"
        if len(columns) != len(declared):
            detail = (
                f"Number of returned columns ({len(columns)}) does not match expected column count "
                f"({len(declared)})."
            )
            raise SqlError("42804", message, detail=detail)
        for at, ((_, given), (_, target)) in enumerate(zip(columns, declared, strict=True), 1):
            if given.plain != target.plain and given.base is not Base.UNKNOWN:
                detail = (
                    f"Returned type {given.name} does not match expected type {target.name} in column {at}."
                )
                raise SqlError("42804", message, detail=detail)

    # --- SQL --------------------------------------------------------------------------------------

    def run_sql(self, one: s.RunSql) -> _Left | None:
        """A statement of SQL. SqlError 42601 where its rows have no destination."""
        answer = self.query(one.sql)
        if one.targets is not None:
            if answer.changes and len(answer.rows) > 1:
                raise _more_than_one()
            self._into(one.targets, answer, strict=one.strict)
        elif answer.columns is not None and not one.performs:
            raise SqlError(
                "42601",
                "query has no destination for result data",
                hint="If you want to discard the results of a SELECT, use PERFORM instead.",
            )
        self.row_count = answer.count
        self.found(answer.count > 0)
        return None

    def _into(self, targets: Sequence[s.Target], answer: ProgramAnswer, *, strict: bool) -> None:
        """Give the first row to what INTO names. SqlError P0002, P0003."""
        if answer.columns is None:
            raise SqlError("42601", "INTO used with a command that cannot return data")
        if strict and not answer.rows:
            raise SqlError("P0002", "query returned no rows")
        if strict and len(answer.rows) > 1:
            raise _more_than_one()
        self.take_row(targets, answer.columns, answer.rows[0] if answer.rows else None)
        answer.count = min(answer.count, 1) if answer.rows else answer.count

    def execute(self, one: s.ExecuteText) -> _Left | None:
        answer = self.dynamic(one.text, one.using)
        if one.targets is not None:
            self._into(one.targets, answer, strict=one.strict)
        self.row_count = answer.count
        return None

    def assign_(self, one: s.Assign) -> _Left | None:
        self.assign_expression(one.target, one.value)
        return None

    def block(self, one: s.ProgramBlock) -> _Left | None:
        return self.run_block(one)

    def nothing(self, one: s.Nothing) -> _Left | None:
        return None

    # --- errors and notices -----------------------------------------------------------------------

    def raise_(self, one: s.Raise) -> _Left | None:
        """RAISE. SqlError, where its level is EXCEPTION."""
        if not one.level:
            if self.handled is None:
                raise SqlError(
                    "0Z002", "RAISE without parameters cannot be used outside an exception handler"
                )
            raise self.handled.error
        options = {name: self.value_as(value, TEXT) for name, value in self._once(one)}
        message = None if one.format is None else self._formatted(one)
        if "message" in options:
            if message is not None:
                raise SqlError("42601", "RAISE option already specified: MESSAGE")
            message = options["message"]
        sqlstate = one.sqlstate or "P0001"
        if options.get("errcode"):
            if one.sqlstate:
                raise SqlError("42601", "RAISE option already specified: ERRCODE")
            sqlstate = _sqlstate(options["errcode"])
        if message is None:
            message = one.condition or sqlstate
        detail, hint = options.get("detail"), options.get("hint")
        if one.level != "EXCEPTION":
            code = sqlstate if one.sqlstate or options.get("errcode") else _QUIET.get(one.level, "00000")
            self.host.notice(one.level, code, message, detail, hint)
            return None
        named = {key: options[key] for key in _NAMED if options.get(key)}
        raise SqlError(sqlstate, message, detail=detail, hint=hint, **named)

    def _once(self, one: s.Raise) -> Sequence[tuple[str, s.Fragment]]:
        names = [name for name, _ in one.options]
        for name in names:
            if names.count(name) > 1:
                raise SqlError("42601", f"RAISE option already specified: {name.upper()}")
        for _name, value in one.options:
            if self.evaluate(value)[0] is None:
                raise SqlError("22004", "RAISE statement option cannot be null")
        return one.options

    def _formatted(self, one: s.Raise) -> str:
        """The message with its values, <NULL> for NULL."""
        values = iter([self._written(value) for value in one.values])
        made: list[str] = []
        text = one.format or ""
        at = 0
        while at < len(text):
            if text[at] == "%":
                if text[at + 1 : at + 2] == "%":
                    made.append("%")
                    at += 2
                    continue
                value = next(values)
                made.append("<NULL>" if value is None else str(value))
            else:
                made.append(text[at])
            at += 1
        return "".join(made)

    def _written(self, fragment: s.Fragment) -> str | None:
        """A value as its type writes it: of BOOLEAN "t", where a cast gives "true"."""
        value, type_ = self.evaluate(fragment)
        if type_.base is Base.BOOLEAN and value is not None:
            return "t" if value else "f"
        text: Any = None if value is None else converter(type_, TEXT)(value, self.host.clock())
        return None if text is None else str(text)

    def assert_(self, one: s.Assert) -> _Left | None:
        """ASSERT. SqlError P0004."""
        if self.test(one.condition):
            return None
        message = None if one.message is None else self.value_as(one.message, TEXT)
        raise SqlError("P0004", message or "assertion failed")

    def get(self, one: s.GetDiagnostics) -> _Left | None:
        """GET DIAGNOSTICS. SqlError 0Z002 for STACKED outside of a handler."""
        if one.stacked and self.handled is None:
            raise SqlError("0Z002", "GET STACKED DIAGNOSTICS cannot be used outside an exception handler")
        for target, item in one.items:
            if item == "row_count":
                self.assign(target, self.row_count, BIGINT)
            else:
                assert self.handled is not None
                self.assign(target, _stacked(self.handled.error, item), TEXT)
        return None


_OPERAND = "__case__"
_QUIET = {"WARNING": "01000"}
_NAMED = ("column", "constraint", "datatype", "table", "schema")


def _stacked(error: SqlError, item: str) -> str:
    """What GET STACKED DIAGNOSTICS says of an error."""
    found = {
        "returned_sqlstate": error.sqlstate,
        "message_text": error.message,
        "pg_exception_detail": error.detail,
        "pg_exception_hint": error.hint,
        "column_name": error.fields.get("column"),
        "constraint_name": error.fields.get("constraint"),
        "pg_datatype_name": error.fields.get("datatype"),
        "table_name": error.fields.get("table"),
        "schema_name": error.fields.get("schema"),
    }
    return found[item] or ""


def _sqlstate(text: str) -> str:
    """What ERRCODE says: a SQLSTATE or a condition's name. SqlError 42704."""
    if len(text) == 5 and text.isalnum() and text.upper() == text:
        return text
    found = conditions().get(text.lower())
    if found is None:
        raise SqlError("42704", f'unrecognized exception condition "{text}"')
    return found[0]


def _handler(handlers: Sequence[s.ExceptionHandler], error: SqlError) -> s.ExceptionHandler | None:
    """The first handler that takes an error."""
    return next((one for one in handlers if any(takes(code, error.sqlstate) for code in one.sqlstates)), None)


def _goes_on(left: _Left, label: str) -> bool:
    """Whether it is CONTINUE of the loop of that label."""
    return left.word == "CONTINUE" and (not left.label or left.label == label)


def _ends(left: _Left, label: str) -> bool:
    """Whether it is EXIT of the loop of that label."""
    return left.word == "EXIT" and (not left.label or left.label == label)


def _row_written(text: str) -> str | None:
    """The fields of ROW(...) or (a, b) as a SELECT list; None of what is neither."""
    lowered = text.lower()
    inner = text[3:].lstrip() if lowered.startswith("row") else text
    if not inner.startswith("(") or not inner.endswith(")"):
        return None
    depth = 0
    for at, char in enumerate(inner):
        depth += (char == "(") - (char == ")")
        if depth == 0 and at < len(inner) - 1:
            return None
    return inner[1:-1]


_RUNNERS: dict[type[s.ProgramStep], Callable[[ProgramRun, Any], _Left | None]] = {
    s.ProgramBlock: ProgramRun.block,
    s.Assign: ProgramRun.assign_,
    s.If: ProgramRun.if_,
    s.CaseStatement: ProgramRun.case,
    s.Loop: ProgramRun.loop,
    s.ForRange: ProgramRun.for_range,
    s.ForQuery: ProgramRun.for_query,
    s.ForEach: ProgramRun.for_each,
    s.Leave: ProgramRun.leave,
    s.Return: ProgramRun.return_,
    s.ReturnNext: ProgramRun.return_next,
    s.ReturnQuery: ProgramRun.return_query,
    s.Raise: ProgramRun.raise_,
    s.Assert: ProgramRun.assert_,
    s.RunSql: ProgramRun.run_sql,
    s.ExecuteText: ProgramRun.execute,
    s.GetDiagnostics: ProgramRun.get,
    s.Nothing: ProgramRun.nothing,
}


def run_program(
    host: ProgramHost, program: Program, values: Sequence[Any], expected: RowType | None = None
) -> Any:
    """What a program gives for these arguments: a datum, a tuple of a row (None: NULL), or a list of rows.

    SqlError: whatever goes wrong; 2F005 where it ends without RETURN.
    """
    names = Names(None, program.name)
    given, outputs = iter(values), 0
    of_sql = program.definition.language == "sql"
    numbered: list[tuple[tuple[str, ...], SqlType]] = []
    for one in program.arguments:
        variable = Variable(one.name, one.type)
        is_input = one.mode in {"i", "b"}
        if is_input:
            variable.value = next(given)
        if is_input or not of_sql:
            path = f"${len(numbered) + 1}"
            names.held[path] = variable
            numbered.append(((path,), one.type))
        if one.name:
            names.held[one.name] = variable
        if one.mode != "i":
            names.held[f"\0{outputs}"] = variable
            outputs += 1
    run = ProgramRun(host, program, names, expected=expected, numbered=numbered)
    if of_sql:
        return _run_statements(run)
    names.held["found"] = Variable("found", BOOLEAN, False)
    return _result(run, run.run_block(program.block))


def _result(run: ProgramRun, left: _Left | None) -> Any:
    program = run.program
    if program.gives_rows:
        return run.rows
    if left is None:
        if program.outputs:
            return run.of_outputs()
        if program.definition.returns != "void":
            raise SqlError("2F005", "control reached end of function without RETURN")
    if program.definition.returns == "void" and not program.outputs:
        return ""
    return run.value


def _run_statements(run: ProgramRun) -> Any:
    """Run a program in SQL: what its last statement gives."""
    program = run.program
    answer = None
    for fragment in program.statements:
        run.host.turn()
        one = run.planned(fragment)
        answer = run.host.run(one, one.values(run.names), may_write=run.may_write)
    if program.definition.returns == "void" and not program.outputs:
        return None
    if answer is None or answer.columns is None:
        raise SqlError("42P13", "the last statement of the function gives no rows")
    declared = run.declared_row()
    if declared is not None and len(declared) != len(answer.columns):
        raise SqlError("42P13", f"return type mismatch in function {program.name}")
    rows = [run.fitted(answer.columns, row) for row in answer.rows[: None if program.gives_rows else 1]]
    if program.gives_rows:
        return rows
    if not rows:
        return None
    return rows[0][0] if program.result is not None else rows[0]
