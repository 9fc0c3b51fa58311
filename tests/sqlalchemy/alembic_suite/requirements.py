"""What Alembic's suite may ask of HerdPy: everything, but for what CLOSED has a reason for.

docs/sqlalchemy.md has the same reasons, and a test compares both.
"""

from __future__ import annotations

from typing import Any

from alembic.testing.requirements import SuiteRequirements
from sqlalchemy.testing import exclusions

CLOSED: dict[str, str] = {}
"""Requirements that are not met, with the reason."""


class Requirements(SuiteRequirements):
    """All of the suite's requirements, open but for CLOSED."""

    @property
    def computed_columns_warn_no_persisted(self) -> Any:
        """SQLAlchemy 2.1 warns where it is not said that a column is stored, as for PostgreSQL 15."""
        return exclusions.only_if(
            lambda config: hasattr(config.db.dialect, "supports_virtual_generated_columns")
        )


def _is_closed(predicate: Any) -> bool:
    """Whether the suite closes a requirement until a dialect opens it."""
    return isinstance(predicate, exclusions.compound) and any(
        isinstance(skip, exclusions.BooleanPredicate) and skip.value for skip in predicate.skips
    )


def _as_told(name: str) -> Any:
    reason = CLOSED.get(name)
    predicate = exclusions.open() if reason is None else exclusions.closed(reason)
    return property(lambda self: predicate)


_DEFAULTS = SuiteRequirements()
for _name, _value in vars(SuiteRequirements).items():
    if isinstance(_value, property) and (_name in CLOSED or _is_closed(getattr(_DEFAULTS, _name))):
        setattr(Requirements, _name, _as_told(_name))
