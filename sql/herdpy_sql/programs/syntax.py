"""The syntax tree of a PL/pgSQL program: blocks, declarations and statements. Below ``parser``.

SQL inside a program is a :class:`Fragment`: text that is planned when it is first run, with the program's
names as its parameters (``fragments``).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Fragment:
    """A piece of SQL. It is itself the key of what is kept of it.

    Attributes:
        text: one statement, without its semicolon; of an expression, "SELECT " and the expression.
        line: of the program, from 1.
        is_expression: it gives one value.
        name: the expression is one name, such as "r" or "r.a"; else "".
    """

    text: str
    line: int
    is_expression: bool = False
    name: str = ""
    kept: dict[object, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """What is assigned to: a variable, a field of a record, an element of an array.

    Attributes:
        path: the names, from the left.
        subscripts: expressions.
    """

    path: tuple[str, ...]
    subscripts: tuple[Fragment, ...] = ()
    line: int = 1


@dataclass(frozen=True, slots=True)
class Declaration:
    """A variable, or another name of one.

    Attributes:
        type: as it was written; "" of an alias.
        alias: what ALIAS FOR names, "$1" or a variable.
    """

    name: str
    type: str = ""
    constant: bool = False
    not_null: bool = False
    default: Fragment | None = None
    alias: str = ""
    line: int = 1


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """Any statement; ``line`` is of the program, from 1."""

    line: int


@dataclass(frozen=True, slots=True)
class ExceptionHandler:
    """WHEN of EXCEPTION: the SQLSTATEs that it takes; "" is OTHERS."""

    sqlstates: tuple[str, ...]
    body: tuple[ProgramStep, ...]


@dataclass(frozen=True, slots=True)
class ProgramBlock(ProgramStep):
    """[DECLARE ...] BEGIN ... [EXCEPTION ...] END."""

    label: str
    declarations: tuple[Declaration, ...]
    body: tuple[ProgramStep, ...]
    handlers: tuple[ExceptionHandler, ...] | None = None


@dataclass(frozen=True, slots=True)
class Assign(ProgramStep):
    target: Target
    value: Fragment


@dataclass(frozen=True, slots=True)
class If(ProgramStep):
    """Conditions with what they guard, in order, and ELSE."""

    branches: tuple[tuple[Fragment, tuple[ProgramStep, ...]], ...]
    otherwise: tuple[ProgramStep, ...]


@dataclass(frozen=True, slots=True)
class CaseStatement(ProgramStep):
    """CASE. With an ``operand`` each WHEN has expressions that are compared with it.

    Attributes:
        otherwise: None where there is no ELSE, and 20000 is raised.
    """

    operand: Fragment | None
    branches: tuple[tuple[tuple[Fragment, ...], tuple[ProgramStep, ...]], ...]
    otherwise: tuple[ProgramStep, ...] | None


@dataclass(frozen=True, slots=True)
class Loop(ProgramStep):
    """LOOP, or WHILE with its ``condition``."""

    label: str
    condition: Fragment | None
    body: tuple[ProgramStep, ...]


@dataclass(frozen=True, slots=True)
class ForRange(ProgramStep):
    """FOR i IN [REVERSE] low .. high [BY step]."""

    label: str
    name: str
    reverse: bool
    low: Fragment
    high: Fragment
    step: Fragment | None
    body: tuple[ProgramStep, ...]


@dataclass(frozen=True, slots=True)
class ForQuery(ProgramStep):
    """FOR targets IN query, or IN EXECUTE text USING values."""

    label: str
    targets: tuple[Target, ...]
    query: Fragment
    dynamic: bool
    using: tuple[Fragment, ...]
    body: tuple[ProgramStep, ...]


@dataclass(frozen=True, slots=True)
class ForEach(ProgramStep):
    """FOREACH target IN ARRAY expression."""

    label: str
    target: Target
    array: Fragment
    body: tuple[ProgramStep, ...]


@dataclass(frozen=True, slots=True)
class Leave(ProgramStep):
    """EXIT, or CONTINUE where it ``goes_on``."""

    goes_on: bool
    label: str
    condition: Fragment | None


@dataclass(frozen=True, slots=True)
class Return(ProgramStep):
    value: Fragment | None


@dataclass(frozen=True, slots=True)
class ReturnNext(ProgramStep):
    value: Fragment | None


@dataclass(frozen=True, slots=True)
class ReturnQuery(ProgramStep):
    query: Fragment
    dynamic: bool
    using: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class Raise(ProgramStep):
    """RAISE.

    Attributes:
        level: "EXCEPTION", "NOTICE" ...; "" of RAISE alone, which raises again what is handled.
        format: with a % for each of ``values``; None where a condition is named, or only options are.
        sqlstate: of the condition that is named; "".
        condition: its name; "".
        options: ERRCODE and the like.
    """

    level: str
    format: str | None
    values: tuple[Fragment, ...]
    sqlstate: str
    condition: str
    options: tuple[tuple[str, Fragment], ...]


@dataclass(frozen=True, slots=True)
class Assert(ProgramStep):
    condition: Fragment
    message: Fragment | None


@dataclass(frozen=True, slots=True)
class RunSql(ProgramStep):
    """A statement of SQL, PERFORM's query, or SELECT INTO.

    Attributes:
        targets: of INTO; None without it.
        performs: it is PERFORM, whose rows are thrown away.
    """

    sql: Fragment
    targets: tuple[Target, ...] | None
    strict: bool
    performs: bool


@dataclass(frozen=True, slots=True)
class ExecuteText(ProgramStep):
    """EXECUTE text [INTO [STRICT] targets] [USING values]."""

    text: Fragment
    targets: tuple[Target, ...] | None
    strict: bool
    using: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class GetDiagnostics(ProgramStep):
    """GET [STACKED] DIAGNOSTICS: targets with the names of what they get."""

    stacked: bool
    items: tuple[tuple[Target, str], ...]


@dataclass(frozen=True, slots=True)
class Nothing(ProgramStep):
    """NULL."""
