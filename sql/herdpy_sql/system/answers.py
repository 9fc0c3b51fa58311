"""What functions of the catalog look up while a query runs: :class:`CatalogContext` of the library.

Above ``lookups`` (names and definitions by id) and ``names`` (ids by name). One object answers one query.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from herdpy._version import __version__
from herdpy_sql.catalog import is_temporary
from herdpy_sql.quoting import quote_ident
from herdpy_sql.system import lookups, names
from herdpy_sql.system.contents import Context
from herdpy_sql.system.rights_asked import RightsAsked
from herdpy_sql.system.state import setting_values, unknown_setting
from herdpy_sql.system.types import format_type
from herdpy_sql.types import VECTOR, Base, SqlType
from herdpy_sql.values import from_text
from herdpy_sql.values.reg_types import reg_value, without_name

_KINDS = {
    Base.REGCLASS: "class",
    Base.REGTYPE: "type",
    Base.REGNAMESPACE: "namespace",
    Base.REGROLE: "role",
}
_CATALOGS = {"pg_class": 1259, "pg_namespace": 2615, "pg_constraint": 2606, "pg_type": 1247}
_ITEM = re.compile(r"(.*)=([a-zA-Z*]*)/(.*)", re.DOTALL)
_PRIVILEGES = {
    "a": "INSERT", "r": "SELECT", "w": "UPDATE", "d": "DELETE", "D": "TRUNCATE", "x": "REFERENCES",
    "t": "TRIGGER", "X": "EXECUTE", "U": "USAGE", "C": "CREATE", "T": "TEMPORARY", "c": "CONNECT",
}  # fmt: skip

_OF_FUNCTIONS = {
    "function": 0, "function arguments": 1, "function identity_arguments": 2, "function result": 3,
}  # fmt: skip
_DEFAULTS = {
    "r": "~=arwdDxt/~",
    "s": "~=rwU/~",
    "d": "=Tc/~,~=CTc/~",
    "n": "~=UC/~",
    "f": "=X/~,~=X/~",
    "l": "=U/~,~=U/~",
    "T": "=U/~,~=U/~",
    "t": "~=C/~",
    "F": "~=U/~",
    "S": "~=U/~",
    "L": "~=rw/~",
    "p": "~=sA/~",
}
"""What whoever owns a thing ("~"), and everybody, may do with it at first, by the kind of the thing."""


def procedure_oid(name: str) -> int:
    """The id of a function: one that is made of its name, as there is no pg_proc; 0 for "-"."""
    return 0 if name == "-" else 1 << 30 | zlib.crc32(name.encode()) >> 2


class CatalogAnswers:
    """Answers one query's functions, of the catalog and the state of ``context``."""

    def __init__(self, context: Context, done: Sequence[object] = ()) -> None:
        self.context = context
        self._done = done

    def acted(self, number: int) -> Any:
        """See the library's ``CatalogContext``."""
        return self._done[number] if number < len(self._done) else None

    def reg(self, base: Base, given: int | str, *, strict: bool = True) -> str | None:
        """See ``CatalogContext``."""
        if base not in _KINDS:
            return self._procedure(base, given, strict=strict)
        kind = _KINDS[base]
        oid = given if isinstance(given, int) else names.resolved(self.context, kind, given, strict=strict)
        if oid is None:
            return None
        name = self._shown(kind, oid)
        return without_name(oid) if name is None else reg_value(oid, name)

    def _shown(self, kind: str, oid: int) -> str | None:
        if kind == "type":
            shown = self.format_type(oid, -1)
            return None if shown in (None, "???", "-") else shown
        found = self._known(kind).get((oid,))
        if found is None:
            return None
        return str(found[0]) if kind == "class" else quote_ident(str(found[0]))

    def _procedure(self, base: Base, given: int | str, *, strict: bool) -> str | None:
        number = int(given) if isinstance(given, str) and given.isascii() and given.isdigit() else given
        if isinstance(number, int):
            known = self._known("procedure").get((number,))
            if known is not None and base in {Base.REGPROC, Base.REGPROCEDURE}:
                return reg_value(number, known[base is Base.REGPROCEDURE])
        if isinstance(given, int):
            return without_name(given)
        if base in {Base.REGOPER, Base.REGOPERATOR}:
            return None if not strict else from_text(SqlType(base))(given)
        is_name = number is given and given != "-"
        made = names.program(self.context, given, arguments=base is Base.REGPROCEDURE) if is_name else None
        if made is not None:
            return reg_value(made.oid, self._known("procedure")[made.oid,][base is Base.REGPROCEDURE])
        shown = names.procedure(self.context, given, strict=strict, arguments=base is Base.REGPROCEDURE)
        if shown is None or shown.isdigit():
            return None if shown is None else without_name(int(shown))
        return reg_value(procedure_oid(shown.partition("(")[0]), shown)

    def value(self, name: str) -> Any:
        """See ``CatalogContext``."""
        if name == "version":
            return f"PostgreSQL 15.0 (HerdPy {__version__})"
        return getattr(self.context.state, name, None)

    def schemas(self, *, implicit: bool) -> Sequence[str]:
        """See ``CatalogContext``: the session's own is no place to create in."""
        path = list(self.context.catalog.path)
        own = list(filter(is_temporary, path))
        named = [one for one in path if one not in own]
        if not implicit:
            return named
        return path if "pg_catalog" in path else [*own, "pg_catalog", *named]

    def setting(self, name: str, *, missing_ok: bool) -> str | None:
        """See ``CatalogContext``."""
        found = self._settings.get(name.lower())
        if found is None and not missing_ok:
            raise unknown_setting(name)
        return found

    @functools.cached_property
    def _settings(self) -> Mapping[str, str]:
        return setting_values(self.context.state)

    def format_type(self, oid: int | None, modifier: int | None) -> str | None:
        """See ``CatalogContext``."""
        found = None if oid is None else self._known("type").get((oid,))
        if found is None:
            return format_type(oid, modifier)
        own = f"({modifier})" if oid == VECTOR.oid and modifier is not None and modifier > 0 else ""
        return f"{found[0]}{own}"

    def is_visible(self, kind: str, oid: int) -> bool | None:
        """See ``CatalogContext``."""
        if kind == "function":
            known = self._known("procedure").get((oid,))
            return True if known is None else bool(known[2])
        found = self._known("class" if kind == "table" else "type").get((oid,))
        if found is None:
            return True if kind == "type" else None
        return bool(found[1])

    def text(self, kind: str, *key: Any) -> str | None:
        """See ``CatalogContext``."""
        if kind == "comment":
            return self._comment(*key)
        if kind.startswith("function"):
            found = self._known("function").get(key)
            return None if found is None else found[_OF_FUNCTIONS[kind]]
        rest = kind.removeprefix("pretty ")
        if rest not in ("constraint", "view", "index", "role", "serial", "partkey"):
            return None
        if rest == "index" and len(key) == 1:
            key = (*key, 0)
        found = self._known(rest).get(key)
        return None if found is None else found[-1 if kind != rest and len(found) > 1 else 0]

    def _comment(self, oid: Any, number: Any, catalog: str | None = None) -> str | None:
        found = self._comments.get((oid, number), [])
        if catalog is not None and len(found) > 1:
            found = [row for row in found if row[0] == _CATALOGS.get(catalog)]
        return min((row[1] for row in found), default=None)

    @functools.cached_property
    def _comments(self) -> Mapping[tuple[Any, ...], list[tuple[Any, ...]]]:
        found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for oid, class_, number, text in lookups.rows("comment", self.context):
            found.setdefault((oid, number), []).append((class_, text))
        return found

    def has_right(self, name: str, given: list[str]) -> bool | None:
        """See ``CatalogContext``."""
        return self._rights.answer(name, given)

    @functools.cached_property
    def _rights(self) -> RightsAsked:
        return RightsAsked(self.context)

    def table_count(self, oid: int, what: str) -> int:
        """See ``CatalogContext``."""
        row = self._table_counts.get(oid)
        return 0 if row is None else int(row[what])

    @functools.cached_property
    def _table_counts(self) -> Mapping[int, Mapping[str, Any]]:
        return self.context.table_counts()

    def size(self, oid: int, what: str) -> int | None:
        """See ``CatalogContext``."""
        found = self._sizes[what].get(oid)
        return 0 if found is None and (oid,) in self._known("class") else found

    @functools.cached_property
    def _sizes(self) -> Mapping[str, Mapping[int, int]]:
        return self.context.sizes()

    def database_size(self, database: str | int) -> int | None:
        """See ``CatalogContext``."""
        own = self.context.state.database
        is_own = database in (own, self.context.database_oid(None))
        return self._sizes["relation"].get(0) if is_own else None

    def blocking_pids(self, pid: int) -> Sequence[int]:
        """See ``CatalogContext``."""
        return self._blockers.get(pid, ())

    @functools.cached_property
    def _blockers(self) -> Mapping[int, Sequence[int]]:
        return {row["pid"]: row["by"] for row in self.context.state.facts("blockers")}

    def last_value(self, oid: int) -> int | None:
        """See ``CatalogContext``."""
        found = self._known("sequence").get((oid,))
        return found[0] if found is not None and found[1] else None

    def partition_ancestors(self, oid: int) -> Sequence[str]:
        """See ``CatalogContext``."""
        found, known = [], self._known("parent")
        at: int | None = oid
        while at is not None and (at,) in known:
            found.append(self._regclass(at))
            (at,) = known[at,]
        return found

    def partition_tree(self, oid: int) -> Sequence[tuple[str, str | None, bool, int]]:
        """See ``CatalogContext``."""
        known = self._known("parent")
        if (oid,) not in known:
            return []
        (parent,) = known[oid,]
        below = sorted(child for (child,), (above,) in known.items() if above == oid)
        root = self._regclass(oid)
        top = (root, None if parent is None else self._regclass(parent), parent is not None, 0)
        return [top, *((self._regclass(child), root, True, 1) for child in below)]

    def _regclass(self, oid: int) -> str:
        return self.reg(Base.REGCLASS, oid) or without_name(oid)

    def privileges(self, items: Sequence[str | None]) -> list[tuple[int, int, str, bool]]:
        """See ``CatalogContext``."""
        roles = self.context.role_oids()
        found = []
        for item in items:
            match = None if item is None else _ITEM.fullmatch(item)
            if match is None:
                continue
            grantee, letters, grantor = (part.replace('"', "") for part in match.groups())
            for letter, word in _PRIVILEGES.items():
                if letter in letters:
                    given = f"{letter}*" in letters
                    found.append((roles.get(grantor, 0), roles.get(grantee, 0), word, given))
        return found

    def default_privileges(self, kind: str, owner: int) -> Sequence[str] | None:
        """See ``CatalogContext``."""
        known = self._known("role").get((owner,))
        items = _DEFAULTS.get(kind)
        if items is None:
            return None
        return tuple(items.replace("~", str(known[0]) if known is not None else "").split(","))

    def _known(self, name: str) -> Mapping[tuple[Any, ...], tuple[Any, ...]]:
        """Rows of a lookup by their keys; those that the catalog alone decides are kept with it."""
        return lookups.by_key(name, self.context)
