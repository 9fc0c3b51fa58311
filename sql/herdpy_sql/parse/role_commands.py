"""Roles and their rights: CREATE ROLE and its relatives, GRANT, REVOKE, owners and default privileges.

A parser beside ``commands``. Grammar: PostgreSQL 15 manual. A password is never shown by what comes out of
here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from herdpy_sql.errors import SqlError
from herdpy_sql.parse.commands import Command, set_name, set_value, setting_name
from herdpy_sql.parse.lexer import QualifiedName, Statement, TokenCursor

ROLE_COMMANDS = re.compile(r"(?:CREATE|ALTER|DROP)\s+(?:ROLE|USER|GROUP)\b(?!\s+MAPPING\b)", re.IGNORECASE)
"""What :func:`parse_role_command` knows begins so."""

FLAGS = ("SUPERUSER", "CREATEDB", "CREATEROLE", "INHERIT", "LOGIN", "REPLICATION", "BYPASSRLS")
"""Attributes of a role that it has or has not; the latter with NO before the word."""

_SELF = frozenset({"CURRENT_USER", "CURRENT_ROLE", "SESSION_USER"})
_OTHER_SETTINGS = frozenset({"TRANSACTION", "SESSION", "ROLE", "XML", "CATALOG", "SCHEMA"})
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
        setting: of ALTER ... SET and RESET: its name, folded, "all" of RESET ALL; "" of the others. ``value``
            is what the role's sessions begin with, None for RESET and DEFAULT.
        from_current: the value is that of the session.
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
    setting: str = ""
    from_current: bool = False


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
    if statement.keyword == "ALTER" and kind != "GROUP":
        if cursor.accept("IN", "DATABASE"):
            raise SqlError("0A000", "settings of roles in one database are not supported")
        if cursor.peek() in {"SET", "RESET"}:
            return _setting(cursor, name)
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


def _setting(cursor: TokenCursor, name: str | None) -> RoleCommand:
    """ALTER ROLE name SET setting TO value | FROM CURRENT, RESET setting | ALL."""
    value, from_current = None, False
    resets = cursor.accept("RESET")
    if not resets:
        cursor.accept("SET")
    if cursor.peek() in _OTHER_SETTINGS:
        raise SqlError("0A000", f"{cursor.peek()} cannot be a setting of a role")
    if resets:
        setting = setting_name(cursor)
    else:
        setting = set_name(cursor)
        from_current = cursor.accept("FROM", "CURRENT")
        value = None if from_current else set_value(cursor, setting)
    cursor.done()
    return RoleCommand("ALTER ROLE", value=value, roles=(name,), setting=setting, from_current=from_current)


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
            key, value = "password", None if cursor.accept("NULL") else cursor.string()
        elif cursor.accept("CONNECTION", "LIMIT"):
            key, value = "limit", _number(cursor)
        elif cursor.accept("VALID", "UNTIL"):
            key, value = "until", cursor.string()
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


_NAME = r'(?:[\w$]+|"(?:[^"]|"")*")'
RIGHT_COMMANDS = re.compile(
    rf"""GRANT\b | REVOKE\b | REASSIGN\s+OWNED\b | DROP\s+OWNED\b | ALTER\s+DEFAULT\s+PRIVILEGES\b
    | ALTER\s+(?:TABLE|VIEW|SEQUENCE|SCHEMA|TYPE|DATABASE)\s+(?:IF\s+EXISTS\s+)?(?:ONLY\s+)?
      {_NAME}(?:\s*\.\s*{_NAME})?\s+OWNER\s+TO\s+{_NAME}\s*\Z""",
    re.IGNORECASE | re.VERBOSE,
)
"""What :func:`parse_right_command` knows begins so."""

_KINDS = ("TABLE", "SEQUENCE", "SCHEMA", "DATABASE", "TABLESPACE")
_OTHERS = ("FUNCTION", "PROCEDURE", "ROUTINE", "LANGUAGE", "TYPE", "DOMAIN", "FOREIGN", "PARAMETER", "LARGE")
_ALL_OF = ("TABLES", "SEQUENCES")
_OPTION_PREFIX = ("ADMIN", "INHERIT", "SET")


@dataclass(frozen=True, slots=True)
class RightCommand(Command):
    """One of them; ``name`` is "GRANT", "REVOKE", "GRANT ROLE", "REVOKE ROLE", "ALTER DEFAULT PRIVILEGES",
    "ALTER TABLE" ... of OWNER TO, "REASSIGN OWNED" or "DROP OWNED"; ``names`` what it is about.

    Attributes:
        kind: what those are: "TABLE", "SEQUENCE", "SCHEMA", "DATABASE" ..., "ALL TABLES", "ALL SEQUENCES";
            of default privileges "TABLES", "SEQUENCES", "SCHEMAS".
        privileges: by name; none for ALL.
        members: to whom or from whom; "public" is everybody, None the current user. Of OWNER TO and REASSIGN
            the new owner.
        roles: that are granted, whose default privileges or things these are; None as above.
        schemas: of IN SCHEMA.
        option: WITH GRANT OPTION, GRANT OPTION FOR, WITH ADMIN OPTION, ADMIN OPTION FOR.
        revokes: of ALTER DEFAULT PRIVILEGES.
        granted_by: who is said to grant; "" for nobody said.
    """

    kind: str = ""
    privileges: tuple[str, ...] = ()
    members: tuple[str | None, ...] = ()
    roles: tuple[str | None, ...] = ()
    schemas: tuple[str, ...] = ()
    option: bool = False
    revokes: bool = False
    granted_by: str | None = ""


def parse_right_command(statement: Statement) -> RightCommand:
    """Parse a statement that RIGHT_COMMANDS matches. SqlError 42601, and 0A000 for what is not supported."""
    cursor = TokenCursor(statement)
    keyword = statement.keyword
    if keyword in {"GRANT", "REVOKE"}:
        command = _grant(cursor, revokes=keyword == "REVOKE", defaults=False)
    elif keyword == "REASSIGN":
        command = _reassign(cursor)
    elif keyword == "DROP":
        command = _drop_owned(cursor)
    elif cursor.accept("DEFAULT", "PRIVILEGES"):
        command = _defaults(cursor)
    else:
        command = _owner(cursor)
    cursor.done()
    return command


def _grant(cursor: TokenCursor, *, revokes: bool, defaults: bool) -> RightCommand:
    """From after GRANT or REVOKE to the end."""
    option = False
    if revokes:
        for prefix in ("GRANT", *_OPTION_PREFIX):
            if cursor.accept(prefix, "OPTION", "FOR"):
                if prefix in {"INHERIT", "SET"}:
                    raise SqlError("0A000", f"{prefix} OPTION of memberships is not supported")
                option = True
    mark = cursor.at
    words = _privileges(cursor)
    if not cursor.accept("ON"):
        if defaults:
            raise cursor.fail()
        cursor.at = mark
        return _membership(cursor, revokes=revokes, option=option)
    kind, names, schemas = _defaults_on(cursor) if defaults else _things(cursor)
    if not (cursor.accept("FROM") if revokes else cursor.accept("TO")):
        raise cursor.fail()
    members = _members(cursor)
    if not revokes and cursor.accept("WITH", "GRANT", "OPTION"):
        option = True
    by = _granted_by(cursor)
    options = _behaviour(cursor) if revokes else ()
    return RightCommand(
        "REVOKE" if revokes else "GRANT",
        options=options,
        names=names,
        kind=kind,
        privileges=words,
        members=members,
        schemas=schemas,
        option=option,
        revokes=revokes,
        granted_by=by,
    )


def _privileges(cursor: TokenCursor) -> tuple[str, ...]:
    """The names before ON or TO; none for ALL."""
    if cursor.accept("ALL"):
        cursor.accept("PRIVILEGES")
        if cursor.peek() == "(":
            raise _columns()
        if cursor.peek() == "ON":
            return ()
        cursor.at -= 1 + (cursor.tokens[cursor.at - 1].group().strip().upper() == "PRIVILEGES")
    words: list[str] = []
    while True:
        word = cursor.name().upper()
        if word == "ALTER" and cursor.accept("SYSTEM"):
            word = "ALTER SYSTEM"
        if cursor.peek() == "(":
            raise _columns()
        words.append(word)
        if not cursor.accept(","):
            return tuple(words)


def _columns() -> SqlError:
    return SqlError(
        "0A000",
        "privileges of columns are not supported",
        hint="Grant them on a view that has only these columns.",
    )


def _things(cursor: TokenCursor) -> tuple[str, tuple[QualifiedName, ...], tuple[str, ...]]:
    """(kind, names, schemas) of what is after ON."""
    if cursor.accept("ALL"):
        for kind in _ALL_OF:
            if cursor.accept(kind, "IN", "SCHEMA"):
                return f"ALL {kind}", (), tuple(name for name, _ in _list(cursor))
        raise SqlError("0A000", f"{cursor.statement.keyword} ON ALL {cursor.peek()} is not supported")
    kind = next((one for one in _KINDS if cursor.peek() == one and _is_word(cursor)), "")
    if kind:
        cursor.at += 1
    elif cursor.peek() in _OTHERS and _is_word(cursor):
        raise SqlError("0A000", f"{cursor.statement.keyword} ON {_kind_named(cursor)} is not supported")
    names = [cursor.qualified_name()]
    while cursor.accept(","):
        names.append(cursor.qualified_name())
    return {"TABLESPACE": "DATABASE"}.get(kind, kind or "TABLE"), tuple(names), ()


def _kind_named(cursor: TokenCursor) -> str:
    """The kind of object that comes next, of two words where PostgreSQL says it so."""
    two = {"FOREIGN": 2, "LARGE": 2}.get(cursor.peek(), 1)
    if two == 1:
        return cursor.peek()
    words = [token.group().strip().upper() for token in cursor.tokens[cursor.at : cursor.at + 3]]
    return " ".join(words if "WRAPPER" in words else words[:2])


def _is_word(cursor: TokenCursor) -> bool:
    """Whether a name comes after the next word, so that the word says what is named."""
    after = cursor.tokens[cursor.at + 1] if cursor.at + 1 < len(cursor.tokens) else None
    return (
        after is not None
        and (after["ident"] is not None or after["word"] is not None)
        and (after.group().strip().upper() not in {"TO", "FROM"})
    )


def _list(cursor: TokenCursor) -> list[tuple[str, None]]:
    found = [(cursor.name(), None)]
    while cursor.accept(","):
        found.append((cursor.name(), None))
    return found


def _member(cursor: TokenCursor) -> str | None:
    """A role's name; None for the current user."""
    cursor.accept("GROUP")
    if cursor.peek() in _SELF:
        cursor.at += 1
        return None
    return cursor.name()


def _members(cursor: TokenCursor) -> tuple[str | None, ...]:
    found = [_member(cursor)]
    while cursor.accept(","):
        found.append(_member(cursor))
    return tuple(found)


def _granted_by(cursor: TokenCursor) -> str | None:
    return _member(cursor) if cursor.accept("GRANTED", "BY") else ""


def _behaviour(cursor: TokenCursor) -> tuple[str, ...]:
    if cursor.accept("CASCADE"):
        return ("CASCADE",)
    cursor.accept("RESTRICT")
    return ()


def _membership(cursor: TokenCursor, *, revokes: bool, option: bool) -> RightCommand:
    roles = _members(cursor)
    if not (cursor.accept("FROM") if revokes else cursor.accept("TO")):
        raise cursor.fail()
    members = _members(cursor)
    if not revokes and cursor.accept("WITH"):
        if not cursor.accept("ADMIN", "OPTION"):
            raise cursor.fail()
        option = True
    by = _granted_by(cursor)
    options = _behaviour(cursor) if revokes else ()
    name = "REVOKE ROLE" if revokes else "GRANT ROLE"
    return RightCommand(
        name, options=options, members=members, roles=roles, option=option, revokes=revokes, granted_by=by
    )


def _defaults_on(cursor: TokenCursor) -> tuple[str, tuple[QualifiedName, ...], tuple[str, ...]]:
    for kind in (*_ALL_OF, "SCHEMAS"):
        if cursor.accept(kind):
            return kind, (), ()
    if cursor.peek() in {"FUNCTIONS", "ROUTINES", "TYPES"}:
        raise SqlError("0A000", f"default privileges of {cursor.peek().lower()} are not supported")
    raise cursor.fail()


def _defaults(cursor: TokenCursor) -> RightCommand:
    roles: tuple[str | None, ...] = ()
    schemas: tuple[str, ...] = ()
    while True:
        if cursor.accept("FOR", "ROLE") or cursor.accept("FOR", "USER"):
            roles = _members(cursor)
        elif cursor.accept("IN", "SCHEMA"):
            schemas = tuple(name for name, _ in _list(cursor))
        else:
            break
    revokes = cursor.accept("REVOKE")
    if not revokes and not cursor.accept("GRANT"):
        raise cursor.fail()
    found = _grant(cursor, revokes=revokes, defaults=True)
    return RightCommand(
        "ALTER DEFAULT PRIVILEGES",
        options=found.options,
        kind=found.kind,
        privileges=found.privileges,
        members=found.members,
        roles=roles,
        schemas=schemas,
        option=found.option,
        revokes=revokes,
    )


def _owner(cursor: TokenCursor) -> RightCommand:
    kind = cursor.name().upper()
    options = ("IF EXISTS",) if cursor.accept("IF", "EXISTS") else ()
    cursor.accept("ONLY")
    name = cursor.qualified_name()
    cursor.accept("OWNER", "TO")
    return RightCommand(
        f"ALTER {kind}", options=options, names=(name,), kind=kind, members=(_member(cursor),)
    )


def _reassign(cursor: TokenCursor) -> RightCommand:
    if not cursor.accept("OWNED", "BY"):
        raise cursor.fail()
    roles = _members(cursor)
    if not cursor.accept("TO"):
        raise cursor.fail()
    return RightCommand("REASSIGN OWNED", roles=roles, members=(_member(cursor),))


def _drop_owned(cursor: TokenCursor) -> RightCommand:
    if not cursor.accept("OWNED", "BY"):
        raise cursor.fail()
    roles = _members(cursor)
    return RightCommand("DROP OWNED", options=_behaviour(cursor), roles=roles)
