"""Syntax of PostgreSQL that no parser here reads, found by the words where reading stopped.

A syntax error at the place of one of these is no error of the statement's: PostgreSQL reads it. It becomes a
refusal (0A000) that names the feature. What PostgreSQL would not read either stays a syntax error.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from herdpy_sql.absent import OPERATORS, TYPES, absent_operator, absent_type
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_sql.parse.lexer import Statement

_TYPED = "|".join(sorted((one for one in TYPES if one.isalpha()), key=len, reverse=True))
_NAME = r'(?:[\w$.]+|"[^"]*")+'
_FEATURES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), name)
    for pattern, name in (
        (r"\bCURRENT\s+OF\b", "WHERE CURRENT OF"),
        (r"\bUSING\s+(?:OPERATOR\b|[-+*/<>=~!@#%^&|])", "ORDER BY ... USING operator"),
        (r"\bUSING\s*\([^()]*\)\s*AS\b", "JOIN ... USING (...) AS alias"),
        (r"^MERGE\b.*?\bUSING\b[^()]*?\bJOIN\b", "MERGE ... USING a join without parentheses"),
        (r"\bNO\s+INHERIT\b", "CHECK ... NO INHERIT"),
        (r"^CREATE\b.*\bON\s+ONLY\b", "CREATE INDEX ... ON ONLY"),
        (r"\bNULLS\s+(?:NOT\s+)?DISTINCT\b", "UNIQUE NULLS NOT DISTINCT"),
        (r"\bCOMPRESSION\s+\w+", "COMPRESSION of a column"),
        (r"\bWITHOUT\s+OIDS\b", "WITHOUT OIDS"),
        (rf"^CREATE\b.*\bTABLE\s+{_NAME}\s+OF\b", "CREATE TABLE ... OF type"),
        (r"\bEXCLUDE\s*(?:USING\b|\()", "EXCLUDE constraint"),
        (r"\b(?:UNIQUE|KEY)\s+USING\s+INDEX\b", "UNIQUE or PRIMARY KEY ... USING INDEX"),
        (rf"^ALTER\s+TYPE\s+{_NAME}\s+(?:ADD|DROP|ALTER|RENAME)\s+ATTRIBUTE\b", "ALTER TYPE ... ATTRIBUTE"),
        (rf"^ALTER\s+TYPE\s+{_NAME}\s+SET\s*\(", "ALTER TYPE ... SET (...)"),
        (r"^ALTER\s+SEQUENCE\b.*\bSET\s+(?:UN)?LOGGED\b", "ALTER SEQUENCE ... SET LOGGED"),
        (r"^SET\s+TRANSACTION\s+SNAPSHOT\b", "SET TRANSACTION SNAPSHOT"),
        (r"^SET\s+XML\s+OPTION\b", "SET XML OPTION"),
        (r"^SET\b.*\bFROM\s+CURRENT\b", "SET ... FROM CURRENT"),
        (r"^COMMIT\s+PREPARED\b", "COMMIT PREPARED"),
        (r"^ROLLBACK\s+PREPARED\b", "ROLLBACK PREPARED"),
        (rf"^INSERT\s+INTO\s+{_NAME}\s*\([^()]*\[", "assignment to elements of arrays in INSERT"),
        (r"\bSUBSTRING\s*\(.*\bSIMILAR\b", "substring(... SIMILAR ... ESCAPE ...)"),
        (r"\b(XMLPARSE|XMLPI|XMLROOT|XMLSERIALIZE|XMLEXISTS|XMLFOREST|XMLNAMESPACES)\s*\([^)]*", "XML"),
        (rf"\b({_TYPED})\s*(?:\[\s*\]\s*)?'", "type"),
        (r"\"char\"\s*'", "a constant written \"char\" '...'"),
    )
)
_STRING = re.compile(r"'((?:[^']|'')*)'")
_OPERATOR = re.compile(r"[-+*/<>=~!@#%^&|`?]+")
_IS_PLAIN = re.compile(r"[^~!@#%^&|`?]*[-+]\Z")


def unread(statement: Statement, error: SqlError) -> SqlError:
    """A syntax error as it is, or the refusal of the feature of PostgreSQL that stands at its place."""
    if error.sqlstate != "42601" or not error.message.startswith("syntax error"):
        return error
    text = _STRING.sub(lambda found: "'" + "_" * len(found[1]) + "'", statement.clean)
    place = len(text) if error.position is None else _clean_offset(statement, error.position)
    for pattern, name in _FEATURES:
        for found in pattern.finditer(text):
            if error.position is None or found.start() <= place <= found.end() + 1:
                refused = _named(name, found)
                refused.position = statement.position(_first(found))
                return refused
    return _at_operator(statement, text, place) or error


def _first(found: re.Match[str]) -> int:
    """Where the words that say what it is begin: of a whole statement's pattern the last of them."""
    return found.start(1) if found.re.groups else found.start()


def _named(name: str, found: re.Match[str]) -> SqlError:
    if name == "XML":
        return SqlError("0A000", f"XML (function {found[1].lower()}) is not supported")
    if name == "type":
        refused = absent_type(found[1].lower())
        assert refused is not None
        return refused
    return SqlError("0A000", f"{name} is not supported")


def _clean_offset(statement: Statement, position: int) -> int:
    """The offset into the clean text of a 1-based position in the whole text, as far as it can be said."""
    offset = position - statement.offset - 1
    for start, shift in reversed(statement.edits):
        if offset - shift >= start:
            return offset - shift
    return offset


def _at_operator(statement: Statement, text: str, place: int) -> SqlError | None:
    """The refusal of the operator of PostgreSQL that stands at a place, or before it; None of all else."""
    for found in _OPERATOR.finditer(text):
        if not found.start() <= place < found.end():
            continue
        symbol = found.group()
        while len(symbol) > 1 and _IS_PLAIN.match(symbol):
            symbol = symbol[:-1]
        position = statement.position(found.start())
        refused = absent_operator(symbol)
        if refused is not None:
            refused.position = position
            return refused
    before = _OPERATOR.search(text[:place].rstrip()[-1:] or " ")
    if before is None or before.group() not in OPERATORS:
        return None
    refused = absent_operator(before.group())
    if refused is not None:
        refused.position = statement.position(len(text[:place].rstrip()) - 1)
    return refused
