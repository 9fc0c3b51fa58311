"""COPY as a plan: the table or query, its columns, and the options.

``parse.copy_statement`` says what was written; here it meets the catalog. The session carries the plan
out, since its data comes and goes while it runs.

Rules of the options, the order of checks and messages: PostgreSQL 15, ProcessCopyOptions in
src/backend/commands/copy.c. The format "arrow", an Arrow IPC stream, is HerdPy's own and takes no
options, as "binary" takes none.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan
from herdpy_sql.execute.stages import StagedPlan
from herdpy_sql.objects import CatalogObject
from herdpy_sql.parse import split
from herdpy_sql.quoting import quote_ident

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import OutputColumn
    from herdpy_sql.parse import Statement
    from herdpy_sql.parse.copy_statement import CopyStatement, Option


FORMATS = ("text", "csv", "binary", "arrow")
_NOT_DELIMITERS = "\\.abcdefghijklmnopqrstuvwxyz0123456789"
_FORCES = ("force_quote", "force_not_null", "force_null")
_TRUE, _FALSE = ("true", "on", "1"), ("false", "off", "0")
# PostgreSQL's names of encodings that Python has by another.
_ENCODINGS = {"unicode": "utf-8", "utf8": "utf-8", "sql_ascii": "utf-8", "sqlascii": "utf-8"}


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """How COPY's data is written.

    Attributes:
        format: "text", "csv", "binary" or "arrow".
        delimiter, quote, escape: one character each, of ASCII.
        null: the text that stands for NULL.
        header: "" for none, "on", or "match": it must name the columns.
        force_quote, force_not_null, force_null: places of columns among those copied.
        encoding: the Python codec that the data is in.
        encoding_name: the same as it was given.
    """

    format: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: str = ""
    quote: str = '"'
    escape: str = '"'
    force_quote: frozenset[int] = frozenset()
    force_not_null: frozenset[int] = frozenset()
    force_null: frozenset[int] = frozenset()
    encoding: str = "utf-8"
    encoding_name: str = "UTF8"

    @property
    def is_binary(self) -> bool:
        """Whether the data is bytes and not text."""
        return self.format in {"binary", "arrow"}


def copy_options(statement: CopyStatement, places: Callable[[str, str], int], width: int) -> CopyOptions:
    """The options of a COPY of ``width`` columns; ``places`` finds a column by option and name.

    SqlError 42601, 22023, 0A000 for options that PostgreSQL refuses, 42703 and 42P10 for columns.
    """
    given = _by_name(statement.options)
    form = "text"
    if "format" in given:
        value, position = given["format"]
        form = _text("format", value)
        if form not in FORMATS:
            raise SqlError("22023", f'COPY format "{form}" not recognized', position=position)
    header = _header(*given["header"], is_from=statement.is_from) if "header" in given else ""
    for name in ("freeze",):
        if name in given:
            _boolean(name, given[name][0])
    encoding, encoding_name = "utf-8", "UTF8"
    if "encoding" in given:
        encoding_name = _text("encoding", given["encoding"][0])
        encoding = _codec(encoding_name, given["encoding"][1])
    texts: dict[str, str] = {
        name: _text(name, given[name][0])
        for name in ("delimiter", "null", "quote", "escape")
        if name in given
    }
    forces = {name: _list(name, *given[name]) for name in _FORCES if name in given}
    is_csv = form == "csv"
    if form in {"binary", "arrow"}:
        for name in ("delimiter", "null"):
            if name in given:
                raise SqlError("42601", f"cannot specify {name.upper()} in {form.upper()} mode")
        if "header" in given:
            raise SqlError("0A000", f"cannot specify HEADER in {form.upper()} mode")
    options = CopyOptions(
        format=form,
        delimiter=texts.get("delimiter", "," if is_csv else "\t"),
        null=texts.get("null", "" if is_csv else "\\N"),
        header=header,
        quote=texts.get("quote", '"'),
        escape=texts.get("escape", texts.get("quote", '"')),
        encoding=encoding,
        encoding_name=encoding_name,
    )
    _check_characters(options, texts)
    _check_forces(forces, is_csv=is_csv, is_from=statement.is_from)
    if options.delimiter in options.null:
        raise SqlError("0A000", "COPY delimiter must not appear in the NULL specification")
    if is_csv and options.quote in options.null:
        raise SqlError("0A000", "CSV quote character must not appear in the NULL specification")
    found = {}
    for name, columns in forces.items():
        everything = name == "force_quote" and columns == ("*",)
        found[name] = frozenset(range(width) if everything else (places(name, column) for column in columns))
    return CopyOptions(
        **{name: getattr(options, name) for name in CopyOptions.__slots__ if name not in _FORCES},
        force_quote=found.get("force_quote", frozenset()),
        force_not_null=found.get("force_not_null", frozenset()),
        force_null=found.get("force_null", frozenset()),
    )


def _by_name(options: Iterable[tuple[str, Option, int]]) -> dict[str, tuple[Option, int]]:
    known = {"format", "freeze", "delimiter", "null", "header", "quote", "escape", "encoding", *_FORCES}
    given: dict[str, tuple[Option, int]] = {}
    for name, value, position in options:
        if name not in known:
            raise SqlError("42601", f'option "{name}" not recognized', position=position)
        if name in given:
            raise SqlError("42601", "conflicting or redundant options", position=position)
        given[name] = value, position
    return given


def _text(name: str, value: Option) -> str:
    if value is None:
        raise SqlError("42601", f"{name} requires a parameter")
    return value if isinstance(value, str) else ", ".join(value)


def _list(name: str, value: Option, position: int) -> tuple[str, ...]:
    if value is None or isinstance(value, str) or (value == ("*",) and name != "force_quote"):
        raise SqlError(
            "22023", f'argument to option "{name}" must be a list of column names', position=position
        )
    return value


def _boolean(name: str, value: Option) -> bool:
    if value is None:
        return True
    word = value.lower() if isinstance(value, str) else ""
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise SqlError("42601", f"{name} requires a Boolean value")


def _header(value: Option, position: int, *, is_from: bool) -> str:
    del position
    if isinstance(value, str) and value.lower() == "match":
        if not is_from:
            raise SqlError("0A000", 'cannot use "match" with HEADER in COPY TO')
        return "match"
    try:
        return "on" if _boolean("header", value) else ""
    except SqlError:
        raise SqlError("42601", 'header requires a Boolean value or "match"') from None


def _codec(name: str, position: int) -> str:
    try:
        return codecs.lookup(_ENCODINGS.get(name.lower().replace("-", ""), name.replace("win", "cp"))).name
    except LookupError:
        raise SqlError(
            "22023", 'argument to option "encoding" must be a valid encoding name', position=position
        ) from None


def _check_characters(options: CopyOptions, texts: dict[str, str]) -> None:
    is_csv = options.format == "csv"
    if len(options.delimiter.encode()) != 1:
        raise SqlError("0A000", "COPY delimiter must be a single one-byte character")
    if options.delimiter in "\r\n":
        raise SqlError("22023", "COPY delimiter cannot be newline or carriage return")
    if "\r" in options.null or "\n" in options.null:
        raise SqlError("22023", "COPY null representation cannot use newline or carriage return")
    if not is_csv and options.delimiter in _NOT_DELIMITERS:
        raise SqlError("22023", f'COPY delimiter cannot be "{options.delimiter}"')
    if not is_csv and "quote" in texts:
        raise SqlError("0A000", "COPY quote available only in CSV mode")
    if is_csv and len(options.quote.encode()) != 1:
        raise SqlError("0A000", "COPY quote must be a single one-byte character")
    if is_csv and options.delimiter == options.quote:
        raise SqlError("22023", "COPY delimiter and quote must be different")
    if not is_csv and "escape" in texts:
        raise SqlError("0A000", "COPY escape available only in CSV mode")
    if is_csv and len(options.escape.encode()) != 1:
        raise SqlError("0A000", "COPY escape must be a single one-byte character")


def _check_forces(forces: dict[str, tuple[str, ...]], *, is_csv: bool, is_from: bool) -> None:
    for name in _FORCES:
        if name not in forces:
            continue
        words = name.replace("_", " ")
        if not is_csv:
            raise SqlError("0A000", f"COPY {words} available only in CSV mode")
        if is_from == (name == "force_quote"):
            direction = "FROM" if name != "force_quote" else "TO"
            raise SqlError("0A000", f"COPY {words} only available using COPY {direction}")


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
    if table.partition_key is not None and not statement.is_from:
        hint = "Try the COPY (SELECT ...) TO variant."
        raise SqlError("42809", f'cannot copy from partitioned table "{name}"', hint=hint)
    if statement.is_from:
        return CopyFrom(table, positions, options)
    listed = ", ".join(map(quote_ident, names))
    query = plan_query(
        split(f"SELECT {listed} FROM {quote_ident(table.schema)}.{quote_ident(table.name)}")[0]
    )
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
