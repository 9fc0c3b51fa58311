"""What names of functions mean: regproc, regprocedure. There is no pg_proc, so their names stand for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.expr.functions import FUNCTIONS
from herdpy_sql.library import ROUTINES
from herdpy_sql.system.calls import NATIVE, SPECIAL
from herdpy_sql.system.meant_names import AbsentError, check_schema, qualified, type_oid
from herdpy_sql.system.types import format_type, known_procedures
from herdpy_sql.system.written_names import arguments_of, parts_of
from herdpy_sql.system_relations import CATALOG
from herdpy_sql.types import SqlType

if TYPE_CHECKING:
    from herdpy_sql.system.contents import Context


def procedure(context: Context, text: str, *, strict: bool, arguments: bool = False) -> str | None:
    """A function as regproc and regprocedure show it.

    Args:
        strict: as a cast does it: numbers are ids, and what is not there is an error. Otherwise NULL.
        arguments: the text has their types.

    Raises:
        SqlError: 42602, 42601, 22P02, 42704 for what is no name; strictly 42883, 42725, 3F000 as well.
    """
    if strict and text.isascii() and text.isdigit():
        return "-" if text == "0" else text
    if strict and text == "-":
        return text
    name, types = arguments_of(text) if arguments else (text, [])
    try:
        oids = [type_oid(context, one) for one in types]
    except AbsentError as error:  # which to_regprocedure tells, too
        raise SqlError(error.sqlstate, error.message) from None
    try:
        found = _name(context, text, name, oids if arguments else None)
    except AbsentError as error:
        if strict:
            raise SqlError(error.sqlstate, error.message) from None
        return None
    return f"{found}({','.join(str(format_type(oid, -1)) for oid in oids)})" if arguments else found


def _name(context: Context, text: str, name: str, oids: list[int] | None) -> str:
    parts = parts_of(name)
    schema, found = qualified(context, parts, "qualified", cross=".".join(parts))
    if schema is not None:
        check_schema(context.catalog, schema)
    count = _count(found, oids) if schema in (None, CATALOG) else 0
    if not count:
        raise AbsentError("42883", f'function "{text}" does not exist')
    if count > 1 and oids is None:
        raise AbsentError("42725", f'more than one function named "{text}"')
    return found


def _count(name: str, oids: list[int] | None) -> int:
    """How many functions there are of a name, for arguments of these types; of some the name is enough."""
    signatures = FUNCTIONS.get(name)
    if signatures is not None and name not in ROUTINES:
        return sum(oids is None or [SqlType(base).oid for base in one.args] == oids for one in signatures)
    if name in ROUTINES:
        return len(ROUTINES[name]) if oids is None else 1
    return int(name in known_procedures() or name in SPECIAL or name in NATIVE or name in _OF_MOMENTS)


_OF_MOMENTS = frozenset({"now", "transaction_timestamp", "statement_timestamp", "clock_timestamp"})
