"""CREATE, ALTER and DROP of ROLE and USER: a small parser beside ``commands``.

Grammar: PostgreSQL 15 manual, CREATE ROLE. A password is never shown by what comes out of here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from herdpy_sql.errors import SqlError
from herdpy_sql.parse.commands import Command
from herdpy_sql.parse.cursor import TokenCursor
from herdpy_sql.parse.lexer import Statement

ROLE_COMMANDS = re.compile(r"(?:CREATE|ALTER|DROP)\s+(?:ROLE|USER|GROUP)\b(?!\s+MAPPING\b)", re.IGNORECASE)
"""What :func:`parse_role_command` knows begins so."""

FLAGS = ("SUPERUSER", "CREATEDB", "CREATEROLE", "INHERIT", "LOGIN", "REPLICATION", "BYPASSRLS")
"""Attributes of a role that it has or has not; the latter with NO before the word."""

_SELF = frozenset({"CURRENT_USER", "CURRENT_ROLE", "SESSION_USER"})
_MEMBERSHIP = {"IN ROLE": "IN", "IN GROUP": "IN", "ROLE": "ROLE", "USER": "ROLE", "ADMIN": "ADMIN"}


@dataclass(frozen=True, slots=True)
class RoleCommand(Command):
    """One of them.

    Attributes:
        flags: attributes said, in the order of FLAGS' words.
        password: the new one; None takes it away. ``sets_password``: whether anything was said of it.
        connection_limit, valid_until: None where nothing was said.
        roles: the names that DROP drops; the name of the others. None stands for the current user.
        new_name: of ALTER ... RENAME TO.
        into: the roles whose member it becomes (IN ROLE).
        members, admins: roles that become its members (ROLE), and may take in others (ADMIN).
        drops_members: of ALTER GROUP, that ``members`` leave it.
    """

    flags: tuple[tuple[str, bool], ...] = ()
    password: str | None = field(default=None, repr=False)
    sets_password: bool = False
    connection_limit: int | None = None
    valid_until: str | None = None
    roles: tuple[str | None, ...] = ()
    new_name: str | None = None
    into: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()
    drops_members: bool = False


def parse_role_command(statement: Statement) -> RoleCommand:
    """Parse a statement that ROLE_COMMANDS matches. SqlError 42601, 42939, 0A000."""
    cursor = TokenCursor(statement)
    kind = cursor.peek()
    cursor.at += 1
    if statement.keyword == "DROP":
        return _drop(cursor)
    if statement.keyword == "ALTER" and cursor.accept("ALL"):
        raise SqlError("0A000", "ALTER ROLE ALL is not supported")
    name = _role(cursor)
    if statement.keyword == "ALTER" and cursor.accept("RENAME", "TO"):
        renamed = RoleCommand("ALTER ROLE", roles=(name,), new_name=_new(cursor.name()))
        cursor.done()
        return renamed
    if statement.keyword == "ALTER" and (
        cursor.peek() in {"SET", "RESET"} or cursor.accept("IN", "DATABASE")
    ):
        raise SqlError("0A000", "settings of roles are not supported")
    if statement.keyword == "ALTER" and kind == "GROUP":
        return _group(cursor, name)
    if statement.keyword == "CREATE":
        if name is None:
            special = cursor.tokens[cursor.at - 1].group().strip().upper()
            raise SqlError("42939", f"{special} cannot be used as a role name here")
        _new(name)
    command = _options(cursor, f"{statement.keyword} ROLE", name)
    if statement.keyword == "CREATE" and kind == "USER" and "LOGIN" not in dict(command.flags):
        return _with(command, flags=(*command.flags, ("LOGIN", True)))
    return command


def _group(cursor: TokenCursor, name: str | None) -> RoleCommand:
    """ALTER GROUP name ADD USER | DROP USER names."""
    drops = cursor.accept("DROP", "USER")
    if not drops and not cursor.accept("ADD", "USER"):
        raise cursor.fail()
    names = [cursor.name()]
    while cursor.accept(","):
        names.append(cursor.name())
    cursor.done()
    return RoleCommand("ALTER ROLE", roles=(name,), members=tuple(names), drops_members=drops)


def _with(command: RoleCommand, *, flags: tuple[tuple[str, bool], ...]) -> RoleCommand:
    return RoleCommand(
        command.name,
        flags=flags,
        password=command.password,
        sets_password=command.sets_password,
        connection_limit=command.connection_limit,
        valid_until=command.valid_until,
        roles=command.roles,
        into=command.into,
        members=command.members,
        admins=command.admins,
    )


def _role(cursor: TokenCursor) -> str | None:
    """A role's name; None for the current user."""
    if cursor.peek() in _SELF or cursor.peek() == "USER":
        cursor.at += 1
        return None
    return cursor.name()


def _new(name: str) -> str:
    """A name that a role may be given."""
    if name in {"public", "none"}:
        raise SqlError("42939", f'role name "{name}" is reserved')
    if name.startswith("pg_"):
        raise SqlError(
            "42939",
            f'role name "{name}" is reserved',
            detail='Role names starting with "pg_" are reserved.',
        )
    return name


def _options(cursor: TokenCursor, name: str, role: str | None) -> RoleCommand:
    cursor.accept("WITH")
    flags: dict[str, bool] = {}
    values: dict[str, str | None] = {}
    others: dict[str, tuple[str, ...]] = {}
    while word := cursor.peek():
        start = cursor.at
        if name == "CREATE ROLE" and _memberships(cursor, others):
            continue
        cursor.accept("ENCRYPTED")
        if cursor.accept("PASSWORD"):
            key, value = "password", None if cursor.accept("NULL") else _string(cursor)
        elif cursor.accept("CONNECTION", "LIMIT"):
            key, value = "limit", _number(cursor)
        elif cursor.accept("VALID", "UNTIL"):
            key, value = "until", _string(cursor)
        elif cursor.accept("SYSID"):
            cursor.value()  # of no meaning, to PostgreSQL neither
            continue
        else:
            key, on = (word[2:], False) if word.startswith("NO") and word[2:] in FLAGS else (word, True)
            if key not in FLAGS:
                position, name_of_it = cursor.position(), cursor.name()
                raise SqlError("42601", f'unrecognized role option "{name_of_it}"', position=position)
            cursor.at += 1
            _once(key, flags, cursor, start)
            flags[key] = on
            continue
        _once(key, values, cursor, start)
        values[key] = value
    limit = values.get("limit")
    return RoleCommand(
        name,
        flags=tuple(flags.items()),
        password=values.get("password"),
        sets_password="password" in values,
        connection_limit=None if limit is None else int(limit),
        valid_until=values.get("until"),
        roles=(role,),
        into=others.get("IN", ()),
        members=others.get("ROLE", ()),
        admins=others.get("ADMIN", ()),
    )


def _memberships(cursor: TokenCursor, others: dict[str, tuple[str, ...]]) -> bool:
    """IN ROLE, ROLE and ADMIN, each with names after it; whether one of them came."""
    for membership, key in _MEMBERSHIP.items():
        if cursor.accept(*membership.split()):
            names = [cursor.name()]
            while cursor.accept(","):
                names.append(cursor.name())
            others[key] = (*others.get(key, ()), *names)
            return True
    return False


def _once(key: str, said: dict[str, bool] | dict[str, str | None], cursor: TokenCursor, start: int) -> None:
    if key in said:
        cursor.at = start
        raise SqlError("42601", "conflicting or redundant options", position=cursor.position())


def _string(cursor: TokenCursor) -> str:
    if not cursor.peek().startswith("'"):
        raise cursor.fail()
    return cursor.value()


def _number(cursor: TokenCursor) -> str:
    sign = "-" if cursor.accept("-") else ""
    text = cursor.peek()
    if not text.lstrip("+-").isdecimal():
        raise cursor.fail()
    number = sign + cursor.value()
    if not -1 <= int(number) < 2**31:
        raise SqlError("22023", f"invalid connection limit: {int(number)}")
    return number


def _drop(cursor: TokenCursor) -> RoleCommand:
    options = ("IF EXISTS",) if cursor.accept("IF", "EXISTS") else ()
    names = [_role(cursor)]
    while cursor.accept(","):
        names.append(_role(cursor))
    if None in names:
        raise SqlError("22023", "cannot use special role specifier in DROP ROLE")
    cursor.done()
    return RoleCommand("DROP ROLE", options=options, roles=tuple(names))
