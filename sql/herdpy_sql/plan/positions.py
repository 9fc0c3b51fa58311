"""Where in its text a statement is wrong: the place of the name that an error is about.

Binding knows names, not places; so the place is looked for once an error is there. It is the first place
where the name stands as what the error says that it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.parse import parse

if TYPE_CHECKING:
    from herdpy_sql.parse import Statement

_COLUMN = re.compile(
    r'column (?:reference )?"?(?:(?P<table>[^"]+)\.)?(?P<name>[^"]+?)"? '
    r"(?:does not exist|is ambiguous|of relation|must appear)"
)
_RELATION = re.compile(r'relation "(?:(?P<table>[^"]+)\.)?(?P<name>[^"]+)" does not exist')
_QUALIFIER = re.compile(r'FROM-clause entry for table "(?P<name>[^"]+)"')
_FUNCTION = re.compile(
    r"function (?P<name>[^(]+)\(.*\) does not exist"
    r"|(?:[\w /-]+ \()?function (?P<absent>\w+)\)? is not supported"
)
_STATES = frozenset({"42703", "42702", "42803", "42P01", "42883", "0A000"})


def place(error: SqlError, statement: Statement) -> None:
    """Give an error that is about a name its position, where it is found."""
    if error.position is None and error.sqlstate == "42601":
        _place_syntax_error(error, statement)
    if error.position is not None or error.sqlstate not in _STATES:
        return
    try:
        tree = parse(statement)
    except SqlError:
        return
    if not isinstance(tree, exp.Expression):
        return
    starts = [start for start in _starts(error.message, tree) if start is not None]
    if starts:
        error.position = statement.position(min(starts))


_NEAR = re.compile(r'syntax error at or near "(?P<near>.+)"\Z', re.DOTALL)


def _place_syntax_error(error: SqlError, statement: Statement) -> None:
    """Give a syntax error its position: at the end, or where the text stands that it names, if only there."""
    if error.message == "syntax error at end of input":
        error.position = statement.position(len(statement.clean))
    elif found := _NEAR.match(error.message):
        near = re.escape(found["near"])
        places = [one.start() for one in re.finditer(rf"(?<!\w){near}(?!\w)", statement.clean)]
        if len(places) == 1:
            error.position = statement.position(places[0])


def _starts(message: str, tree: exp.Expression) -> Iterator[int | None]:
    """The places of what the message names."""
    if found := _FUNCTION.match(message):
        for call in tree.find_all(exp.Func):
            if _name(call) in {found["name"], found["absent"]}:
                yield call.meta.get("start")
    elif found := _QUALIFIER.search(message):
        for column in tree.find_all(exp.Column):
            if _is(column.args.get("table"), found["name"]):
                yield column.args["table"].meta.get("start")
    elif found := _RELATION.match(message):
        for table in tree.find_all(exp.Table):
            if _is(table.this, found["name"]):
                yield (table.args.get("db") or table.this).meta.get("start")
    elif found := _COLUMN.match(message):
        yield from _columns(tree, found["table"], found["name"])


def _columns(tree: exp.Expression, table: str | None, name: str) -> Iterator[int | None]:
    for column in tree.find_all(exp.Column):
        qualifier = column.args.get("table")
        if _is(column.this, name) and (qualifier is None or _is(qualifier, table)):
            yield (qualifier or column.this).meta.get("start")
    for schema in tree.find_all(exp.Schema):
        for one in schema.expressions:
            if _is(one, name):
                yield one.meta.get("start")


def _is(node: object, name: str | None) -> bool:
    """Whether an identifier is that name."""
    if not isinstance(node, exp.Identifier):
        return False
    return (str(node.this) if node.args.get("quoted") else str(node.this).lower()) == name


def _name(call: exp.Func) -> str:
    if isinstance(call, exp.Anonymous):
        return str(call.this).lower()
    return str(call.meta.get("name", call.sql_name())).lower()
