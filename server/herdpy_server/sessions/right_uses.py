"""What would be without an owner, or granted to nobody, if roles were dropped. Beside ``role_changes``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.objects import RightsDefinition
from herdpy_sql.rights.held import DEFAULTS, granted_acl, owner_of
from herdpy_sql.rights.subjects import everything

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog


def uses_of(catalog: Catalog, keys: set[str]) -> list[str]:
    """What stands in the way of dropping roles: lines that say what they own, and what they were granted."""
    found = []
    for subject in everything(catalog):
        said = f"{subject.kind} {subject.name}".strip()
        if owner_of(catalog, subject) in keys:
            found.append(f"owner of {said}")
        elif any(keys & set(one[:2]) for one in granted_acl(catalog, subject) or ()):
            found.append(f"privileges for {said}")
    for one in catalog.objects.values():
        what = one.definition
        if not isinstance(what, RightsDefinition) or what.on not in DEFAULTS:
            continue
        if what.owner in keys or any(keys & set(grant[:2]) for grant in what.acl or ()):
            found.append(f"default privileges on new {what.on}")
    return sorted(found)
