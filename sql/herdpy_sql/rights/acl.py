"""The grants of one thing as an immutable value, and what GRANT and REVOKE make of it.

A grant is (to whom, by whom, letters): a letter with * after it may be passed on. "" is everybody. The form
is that of PostgreSQL's aclitem, with keys of roles instead of names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import pairwise

from herdpy_sql.errors import SqlError
from herdpy_sql.rights.privileges import OF_KIND, TO_PUBLIC, ordered

PUBLIC = ""
"""Everybody, as the one that something is granted to."""

Grant = tuple[str, str, str]
Acl = tuple[Grant, ...]


def usual(kind: str, owner: str) -> Acl:
    """What holds where nothing was granted: everything for the owner, a little for everybody."""
    public = TO_PUBLIC.get(kind, "")
    own = (owner, owner, OF_KIND[kind])
    return ((PUBLIC, owner, public), own) if public else (own,)


def split(letters: str) -> tuple[str, str]:
    """The letters, and those of them that may be passed on."""
    options = "".join(one for one, after in pairwise(letters) if after == "*")
    return letters.replace("*", ""), options


def joined(letters: str, options: str) -> str:
    """The inverse of :func:`split`."""
    return "".join(one + ("*" if one in options else "") for one in ordered(letters))


def held(acl: Acl, keys: Collection[str]) -> str:
    """The letters that who acts as ``keys`` has, those of everybody too."""
    return ordered("".join(split(one[2])[0] for one in acl if one[0] == PUBLIC or one[0] in keys))


def passed_on(acl: Acl, key: str, owner: str, kind: str) -> str:
    """The letters that ``key`` may grant to others; the owner all of them."""
    if key == owner:
        return OF_KIND[kind]
    return ordered("".join(split(one[2])[1] for one in acl if one[0] == key))


def granted(acl: Acl, grantee: str, grantor: str, letters: str, *, option: bool = False) -> Acl:
    """With those letters granted."""
    made, found = [], False
    for to, by, text in acl:
        now = text
        if (to, by) == (grantee, grantor):
            found = True
            has, options = split(text)
            now = joined(has + letters, options + (letters if option else ""))
        made.append((to, by, now))
    if not found:
        made.append((grantee, grantor, joined(letters, letters if option else "")))
    return tuple(made)


def revoked(
    acl: Acl,
    grantee: str,
    grantor: str,
    letters: str,
    owner: str,
    *,
    option_only: bool = False,
    cascade: bool = False,
) -> Acl:
    """Without those letters, or without that they may be passed on.

    What the grantee has granted in turn goes along, if it has no other ground.

    Raises:
        SqlError: 2BP01 there is such a thing, and not ``cascade``.
    """
    made = []
    for to, by, text in acl:
        now = text
        if (to, by) == (grantee, grantor):
            has, options = split(text)
            options = "".join(one for one in options if one not in letters)
            if not option_only:
                has = "".join(one for one in has if one not in letters)
            now = joined(has, options)
        if now:
            made.append((to, by, now))
    return _grounded(tuple(made), grantee, letters, owner, cascade=cascade)


def _grounded(acl: Acl, key: str, letters: str, owner: str, *, cascade: bool) -> Acl:
    """Without what ``key`` granted of ``letters`` and may not pass on any more."""
    if key in (PUBLIC, owner):
        return acl
    kept = "".join(split(one[2])[1] for one in acl if one[0] == key)
    lost = "".join(one for one in letters if one not in kept)
    for to, by, text in acl:
        without = "".join(one for one in split(text)[0] if one in lost)
        if by != key or not without:
            continue
        if not cascade:
            raise SqlError("2BP01", "dependent privileges exist", hint="Use CASCADE to revoke them too.")
        return _grounded(
            revoked(acl, to, by, without, owner, cascade=True), key, letters, owner, cascade=True
        )
    return acl


def without(acl: Acl, key: str) -> Acl:
    """Without what was granted to ``key``, or by it."""
    return tuple(one for one in acl if key not in one[:2])


def owned_by(acl: Acl, before: str, after: str) -> Acl:
    """As the thing gets another owner: what was granted by and to the one is the other's."""
    merged: dict[tuple[str, str], str] = {}
    for one in acl:
        to, by = (after if key == before else key for key in one[:2])
        has, options = split(merged.get((to, by), ""))
        more, more_options = split(one[2])
        merged[to, by] = joined(has + more, options + more_options)
    return tuple((to, by, text) for (to, by), text in merged.items())


def texts(acl: Iterable[Grant], name_of: Callable[[str], str]) -> list[str]:
    """As PostgreSQL writes aclitems: "ann=arw*/bob"; nothing before = is everybody."""
    return [
        f"{_quoted(name_of(to)) if to else ''}={letters}/{_quoted(name_of(by))}" for to, by, letters in acl
    ]


def _quoted(name: str) -> str:
    if name.replace("_", "a").isalnum() and name.isascii():
        return name
    return '"' + name.replace('"', '""') + '"'
