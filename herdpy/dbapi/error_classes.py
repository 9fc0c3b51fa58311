"""PEP 249's exceptions as attributes of connections, for programs with several drivers. Above ``errors``."""

from __future__ import annotations

from herdpy.dbapi import errors


class ErrorClasses:
    """What every kind of connection has; see PEP 249, optional extensions."""

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError
