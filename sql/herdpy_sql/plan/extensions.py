"""CREATE and DROP EXTENSION: what HerdPy has of PostgreSQL's extensions is there always, so nothing is made.

Of pgcrypto that are the functions ``digest`` and ``hmac``, and gen_random_uuid, which is PostgreSQL's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.alter_table import AlterNothing
from herdpy_sql.plan.names import notice, with_remarks

if TYPE_CHECKING:
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.parse.object_commands import ObjectCommand

BUILT_IN = {"pgcrypto": "1.3"}
"""The extensions whose functions there are, with the version of PostgreSQL 15's."""


def plan_extension(command: ObjectCommand) -> Plan:
    """The plan of one of them. SqlError 42710, 0A000, 42704."""
    plan = AlterNothing(command.name)
    names = [name for _, name in command.names]
    if command.name == "CREATE EXTENSION":
        (name,) = names
        if name not in BUILT_IN:
            raise SqlError("0A000", f'extension "{name}" is not available')
        if "IF NOT EXISTS" not in command.options:
            raise SqlError("42710", f'extension "{name}" already exists')
        return with_remarks(plan, [notice(f'extension "{name}" already exists, skipping', "42710")])
    missing = [name for name in names if name not in BUILT_IN]
    if len(missing) < len(names):
        raise SqlError("0A000", "the functions of an extension are HerdPy's own, and cannot be dropped")
    if "IF EXISTS" not in command.options:
        raise SqlError("42704", f'extension "{missing[0]}" does not exist')
    return with_remarks(plan, [notice(f'extension "{name}" does not exist, skipping') for name in missing])
