"""COPY as a plan: the table or query, its columns, and the options.

``parse.copy_statement`` says what was written; here it meets the catalog. The session carries the plan
out, since its data comes and goes while it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan
from herdpy_sql.execute.stages import StagedPlan
from herdpy_sql.objects import CatalogObject
from herdpy_sql.parse import split
from herdpy_sql.plan.copy_options import CopyOptions, copy_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.execute.base import OutputColumn
    from herdpy_sql.parse import Statement
    from herdpy_sql.parse.copy_statement import CopyStatement


@dataclass(frozen=True)
class CopyFrom(Plan):
    """COPY ... FROM STDIN. ``positions`` are the columns of ``table`` that the data has, in its order."""

    table: Table
    positions: tuple[int, ...]
    options: CopyOptions
    tag = "COPY"

    def command_tag(self, count: int) -> str:
        return f"COPY {count}"


@dataclass(frozen=True)
class CopyTo(Plan):
    """COPY ... TO STDOUT. ``query`` gives the rows, ``outputs`` are its columns."""

    query: Plan
    outputs: tuple[OutputColumn, ...]
    options: CopyOptions
    tag = "COPY"

    @property
    def inner(self) -> Plan:
        """The query."""
        return self.query

    @property
    def read_only(self) -> bool:  # type: ignore[override]
        """As its query is."""
        return self.query.read_only

    def command_tag(self, count: int) -> str:
        return f"COPY {count}"


@dataclass(frozen=True)
class CopyParameters(Plan):
    """COPY PARAMETERS OF: a statement that is run for each row of the data, which are its parameters.

    Attributes:
        text: the statement's; positions of errors are in it.
        keyword: its first word, which begins the command tag.
    """

    text: str
    keyword: str
    options: CopyOptions
    tag = "COPY"

    def command_tag(self, count: int) -> str:
        return f"INSERT 0 {count}" if self.keyword == "INSERT" else f"{self.keyword} {count}"


def copy_plan(
    statement: CopyStatement, catalog: Catalog, plan_query: Callable[[Statement], Plan]
) -> CopyFrom | CopyTo | CopyParameters:
    """The plan of COPY; ``plan_query`` plans the query in it. SqlError as PostgreSQL's."""
    if statement.parameters_of is not None:
        return _of_parameters(statement, statement.parameters_of)
    if statement.query is not None:
        return _of_query(statement, statement.query, plan_query)
    assert statement.table is not None
    schema, name = statement.table
    table = catalog.find(schema, name)
    if isinstance(table, CatalogObject) and table.kind == "view":
        verb = "to" if statement.is_from else "from"
        hint = None if statement.is_from else "Try the COPY (SELECT ...) TO variant."
        raise SqlError("42809", f'cannot copy {verb} view "{name}"', hint=hint)
    if not isinstance(table, Table):
        shown = f"{schema}.{name}" if schema else name
        raise SqlError("42P01", f'relation "{shown}" does not exist', table=name)
    positions = _positions(table, statement.columns)
    names = [table.columns[position].name for position in positions]

    def place(option: str, column: str) -> int:
        if column not in table.positions or table.columns[table.positions[column]].hidden:
            raise _no_column(table, column)
        return _place(option, column, names)

    options = copy_options(statement, place, len(names))
    if statement.is_from:
        return CopyFrom(table, positions, options)
    listed = ", ".join(map(_quoted, names))
    query = plan_query(split(f"SELECT {listed} FROM {_quoted(table.schema)}.{_quoted(table.name)}")[0])
    assert query.columns is not None
    return CopyTo(query, query.columns, options)


def _of_query(statement: CopyStatement, query: Statement, plan_query: Callable[[Statement], Plan]) -> CopyTo:
    plan = plan_query(query)
    if plan.columns is None:
        raise SqlError("0A000", "COPY query must have a RETURNING clause")
    if isinstance(plan, StagedPlan):
        raise SqlError("0A000", "COPY of a query with data-modifying statements in WITH is not supported")
    if plan.tag not in {"SELECT", "INSERT", "UPDATE", "DELETE"}:
        raise SqlError("42601", f'syntax error at or near "{query.keyword}"', position=query.offset + 1)
    if plan.param_types:
        raise SqlError("42P02", "there is no parameter $1")
    names = [column.name for column in plan.columns]

    def place(option: str, column: str) -> int:
        if column not in names:
            raise SqlError("42703", f'column "{column}" does not exist', column=column)
        return _place(option, column, names)

    return CopyTo(plan, plan.columns, copy_options(statement, place, len(names)))


def _of_parameters(statement: CopyStatement, text: str) -> CopyParameters:
    inner = split(text)
    if len(inner) > 1:
        raise SqlError("42601", "cannot insert multiple commands into a prepared statement")
    if not inner:
        raise SqlError("42601", "COPY PARAMETERS takes a statement")
    if inner[0].keyword not in {"INSERT", "UPDATE", "DELETE"}:
        raise SqlError("0A000", f"COPY PARAMETERS takes INSERT, UPDATE or DELETE, not {inner[0].keyword}")

    def place(option: str, column: str) -> int:
        raise SqlError("42P10", f'{option.upper()} column "{column}" not referenced by COPY')

    options = copy_options(statement, place, 0)
    if options.format != "arrow":
        raise SqlError("0A000", "COPY PARAMETERS takes the format arrow only")
    return CopyParameters(text, inner[0].keyword, options)


def _place(option: str, column: str, names: Sequence[str]) -> int:
    if column not in names:
        raise SqlError("42P10", f'{option.upper()} column "{column}" not referenced by COPY')
    return names.index(column)


def _positions(table: Table, names: Sequence[str] | None) -> tuple[int, ...]:
    if names is None:
        return tuple(at for at in table.visible if table.columns[at].generated is None)
    found: list[int] = []
    for name in names:
        position = table.positions.get(name)
        if position is None or table.columns[position].hidden:
            raise _no_column(table, name)
        if table.columns[position].generated is not None:
            raise SqlError(
                "42P10",
                f'column "{name}" is a generated column',
                detail="Generated columns cannot be used in COPY.",
                column=name,
            )
        if position in found:
            raise SqlError("42701", f'column "{name}" specified more than once', column=name)
        found.append(position)
    return tuple(found)


def _no_column(table: Table, name: str) -> SqlError:
    return SqlError(
        "42703",
        f'column "{name}" of relation "{table.name}" does not exist',
        column=name,
        table=table.name,
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
