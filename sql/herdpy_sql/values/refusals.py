"""The errors of Python objects that cannot be what is wanted. Below ``inputs``."""

from __future__ import annotations

from herdpy_sql.errors import SqlError


def mismatch(value: object, name: str) -> SqlError:
    """There is no way from this Python type to that SQL type."""
    return SqlError("42804", f"a Python object of type {type(value).__name__} cannot be used as type {name}")


def lossy(value: object, name: str) -> SqlError:
    """There is one, which would change the value."""
    return SqlError("42804", f"{value!r} cannot be used as type {name} without loss")
