"""Roles: who there is. One ``RoleStore`` over the place that keeps them: a file, or the log of a cluster.

``DIR/users.json`` (``RoleFile``), which only its owner may read: every role with its attributes and its
password's verifier. It is replaced as a whole, by rename, so a crash leaves the old one or the new one. In a
cluster roles are in the log of its default tablespace (``herdpy_server.replica.roles``).
"""

from __future__ import annotations

import datetime
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from herdpy.log.files import replace_file
from herdpy.log.wait import Work
from herdpy_server.roles.passwords import Verifier
from herdpy_sql.errors import SqlError

FILE_NAME = "users.json"
FORMAT = 1
MAX_ROLES = 100_000


class RoleMembership(msgspec.Struct, frozen=True, omit_defaults=True):
    """That a role is a member of another.

    Attributes:
        role: the key of that other.
        admin: it may take others into it.
        grantor: the key of who did this.
    """

    role: str
    admin: bool = False
    grantor: str = ""


class Role(msgspec.Struct, frozen=True, omit_defaults=True):
    """One role.

    Attributes:
        key: stands for it wherever rights are kept, whatever its name becomes; no other role ever has it.
            "" of a role of an older version, whose name is its key.
        memberships: the roles whose member it is.
        verifier: of its password (see ``passwords``); None: it cannot prove itself by one.
        can_login: whether it may begin sessions.
        connection_limit: sessions at once; -1 for any number.
        valid_until: ISO 8601 with a zone; the password is of no use afterwards. None: for ever.
        settings: what its sessions begin with, by ALTER ROLE ... SET: names, folded, and values. An older
            server passes over them, and forgets them when it changes the role.
    """

    name: str
    verifier: str | None = None
    can_login: bool = True
    is_superuser: bool = False
    creates_databases: bool = False
    creates_roles: bool = False
    inherits: bool = True
    replicates: bool = False
    bypasses_row_security: bool = False
    connection_limit: int = -1
    valid_until: str | None = None
    key: str = ""
    memberships: tuple[RoleMembership, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def ident(self) -> str:
        """Its key."""
        return self.key or self.name

    def __repr__(self) -> str:
        return f"Role({self.name!r})"

    def is_expired(self, now: datetime.datetime) -> bool:
        """Whether its password is of no use any more."""
        return self.valid_until is not None and datetime.datetime.fromisoformat(self.valid_until) <= now

    def proof(self) -> Verifier | None:
        """What its password is checked with now; None when nothing lets it in."""
        if self.verifier is None or not self.can_login:
            return None
        return None if self.is_expired(datetime.datetime.now(datetime.UTC)) else Verifier.parse(self.verifier)


Change = Callable[[Mapping[str, Role]], dict[str, Role]]
"""Makes other roles of those that there are, by name; raises SqlError when it does not fit them."""


class RolePlace(Protocol):
    """Where roles are kept."""

    def __iter__(self) -> Iterator[Role]:
        """All of them, by name."""

    def get(self, name: str) -> Role | None:
        """A role by name."""

    def check_known(self) -> None:
        """SqlError 57P03 when it is not known yet which roles there are."""

    def check_writable(self, command: str) -> None:
        """SqlError 25006 where roles are not changed: what is known of them here may be older."""

    async def change(self, command: str, change: Change) -> None:
        """Replace the roles by what ``change`` makes of those that there are then, with no other change in
        between; done when that holds for good.

        Args:
            command: its tag, for errors.

        Raises:
            SqlError: what ``change`` raises, and that it could not be kept.
        """


class RoleStore:
    """The roles of a server.

    Attributes:
        on_change: called when a change has been carried out here.
    """

    def __init__(self, place: RolePlace) -> None:
        self._place = place
        self.on_change: Callable[[], object] = lambda: None

    def __iter__(self) -> Iterator[Role]:
        """All of them, by name."""
        return iter(self._place)

    def get(self, name: str) -> Role | None:
        """A role by name."""
        return self._place.get(name)

    def verifier(self, name: str) -> Verifier | None:
        """What a client who says to be ``name`` must satisfy; None when nothing can.

        SqlError 57P03 when that is not known yet.
        """
        self._place.check_known()
        role = self._place.get(name)
        return None if role is None else role.proof()

    def check_writable(self, command: str) -> None:
        """See ``RolePlace``."""
        self._place.check_writable(command)

    async def change(self, command: str, change: Change) -> None:
        """See ``RolePlace``."""
        await self._place.change(command, change)
        self.on_change()


class _File(msgspec.Struct):
    format: int
    roles: list[Role]


class RoleFile:
    """See ``RolePlace``: the roles of one data directory. Changes write the file, in a thread.

    Args:
        directory: the data directory; None keeps roles in memory only.
    """

    def __init__(self, directory: Path | None) -> None:
        """Read the file, if there is one. SqlError XX001 when it is damaged."""
        self._path = None if directory is None else directory / FILE_NAME
        self._changing = threading.Lock()
        self._roles = {role.name: role for role in self._read()}

    def _read(self) -> list[Role]:
        if self._path is None:
            return []
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return []
        try:
            found = msgspec.json.decode(text, type=_File)
        except msgspec.MsgspecError as error:
            raise SqlError("XX001", f"the file of roles {self._path} is damaged: {error}") from error
        if found.format != FORMAT:
            raise SqlError("0A000", f"the file of roles {self._path} was written by a newer HerdPy")
        return found.roles

    def __iter__(self) -> Iterator[Role]:
        return iter(sorted(self._roles.values(), key=lambda role: role.name))

    def get(self, name: str) -> Role | None:
        """See ``RolePlace``."""
        return self._roles.get(name)

    def check_known(self) -> None:
        """See ``RolePlace``: they were read when this was made."""

    def check_writable(self, command: str) -> None:
        """See ``RolePlace``: they are changed here."""

    async def change(self, command: str, change: Change) -> None:
        """See ``RolePlace``."""
        await Work(lambda: self.change_now(change))

    def change_now(self, change: Change) -> None:
        """Carry a change out, in this thread. SqlError 53100, 58030 when the file cannot be written."""
        with self._changing:
            self._keep(change(self._roles))

    def _keep(self, roles: dict[str, Role]) -> None:
        if self._path is not None:
            try:
                replace_file(self._path, _contents(list(roles.values())), 0o600)
            except OSError as error:
                state = "53100" if error.errno == 28 else "58030"
                raise SqlError(state, f"the file of roles could not be written: {error}") from error
        self._roles = roles


def file_of(definitions: Iterable[bytes]) -> bytes:
    """What ``RoleFile`` reads, of roles as a cluster's log has them. msgspec.MsgspecError."""
    return _contents([msgspec.json.decode(one, type=Role) for one in definitions])


def _contents(roles: list[Role]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(_File(FORMAT, roles)), indent=1) + b"\n"


def created(role: Role) -> Change:
    """A role more. SqlError 42710 it is there, 53400 there are too many."""

    def change(roles: Mapping[str, Role]) -> dict[str, Role]:
        if role.name in roles:
            raise _exists(role.name)
        if len(roles) >= MAX_ROLES:
            raise SqlError("53400", f"there can be at most {MAX_ROLES} roles")
        return {**roles, role.name: role}

    return change


def replaced(name: str, role: Role) -> Change:
    """``role`` in the place of the one called ``name``. SqlError 42704, 42710."""

    def change(roles: Mapping[str, Role]) -> dict[str, Role]:
        if name not in roles:
            raise no_role(name)
        others = {key: one for key, one in roles.items() if key != name}
        if role.name in others:
            raise _exists(role.name)
        return {**others, role.name: role}

    return change


def dropped(names: frozenset[str]) -> Change:
    """Roles fewer, and nobody a member of them; those that are not there are none already."""

    def change(roles: Mapping[str, Role]) -> dict[str, Role]:
        gone = {one.ident for name, one in roles.items() if name in names}
        return {name: _left(one, gone) for name, one in roles.items() if name not in names}

    return change


def _left(role: Role, gone: set[str]) -> Role:
    rest = tuple(one for one in role.memberships if one.role not in gone)
    return role if len(rest) == len(role.memberships) else msgspec.structs.replace(role, memberships=rest)


def new_key() -> str:
    """A key for a new role, unlike all others there ever were."""
    return secrets.token_hex(8)


def _exists(name: str) -> SqlError:
    return SqlError("42710", f'role "{name}" already exists')


def no_role(name: str) -> SqlError:
    """The error for a role that is not there."""
    return SqlError("42704", f'role "{name}" does not exist')
