"""Which command of PostgreSQL a statement is, by its first words.

The commands are those of PostgreSQL 15's manual, part VI, reference I. Words that only qualify what is made
("OR REPLACE", "TEMP") are stepped over.
"""

from __future__ import annotations

import re

_OBJECTS = """
    ACCESS METHOD|AGGREGATE|CAST|COLLATION|CONVERSION|DATABASE|DOMAIN|EVENT TRIGGER|EXTENSION
    |FOREIGN DATA WRAPPER|FOREIGN TABLE|FUNCTION|GROUP|INDEX|LANGUAGE|MATERIALIZED VIEW|OPERATOR CLASS
    |OPERATOR FAMILY|OPERATOR|POLICY|PROCEDURE|PUBLICATION|ROLE|ROUTINE|RULE|SCHEMA|SEQUENCE|SERVER|STATISTICS
    |SUBSCRIPTION|TABLESPACE|TABLE|TEXT SEARCH CONFIGURATION|TEXT SEARCH DICTIONARY|TEXT SEARCH PARSER
    |TEXT SEARCH TEMPLATE|TRANSFORM|TRIGGER|TYPE|USER MAPPING|USER|VIEW
"""
_ONLY_ALTERED = "|DEFAULT PRIVILEGES|LARGE OBJECT|SYSTEM"
_ONLY_DROPPED = "|OWNED"
_QUALIFIERS = (
    r"(?:(?:OR\s+REPLACE|GLOBAL|LOCAL|TEMPORARY|TEMP|UNLOGGED|RECURSIVE|TRUSTED|PROCEDURAL|UNIQUE|DEFAULT"
    r"|CONSTRAINT)\s+)*"
)
_OTHERS = """
    ABORT|ANALYZE|BEGIN|CALL|CHECKPOINT|CLOSE|CLUSTER|COMMENT|COMMIT PREPARED|COMMIT|COPY|DEALLOCATE|DECLARE
    |DELETE|DISCARD|DO|END|EXECUTE|EXPLAIN|FETCH|GRANT|IMPORT FOREIGN SCHEMA|INSERT|LISTEN|LOAD|LOCK|MERGE
    |MOVE|NOTIFY|PREPARE TRANSACTION|PREPARE|REASSIGN OWNED|REFRESH MATERIALIZED VIEW|REINDEX|RELEASE|RESET
    |REVOKE|ROLLBACK PREPARED|ROLLBACK|SAVEPOINT|SECURITY LABEL|SELECT|SET CONSTRAINTS|SET|SHOW
    |START TRANSACTION|TRUNCATE|UNLISTEN|UPDATE|VACUUM|VALUES|WITH
"""


def _any_of(words: str) -> str:
    """An expression for one of the words, however they are spaced."""
    return re.sub(r" (?=\w)", r"\\s+", re.sub(r"\n\s*", "", words).strip())


_TAG = re.compile(
    rf"(CREATE)\s+{_QUALIFIERS}({_any_of(_OBJECTS)})\b"
    rf"|(ALTER)\s+(?:PROCEDURAL\s+)?({_any_of(_OBJECTS)}{_any_of(_ONLY_ALTERED)})\b"
    rf"|(DROP)\s+(?:PROCEDURAL\s+)?({_any_of(_OBJECTS)}{_any_of(_ONLY_DROPPED)})\b"
    rf"|({_any_of(_OTHERS)})\b",
    re.IGNORECASE,
)
_OBJECT = re.compile(rf"(?:{_any_of(_OBJECTS)}{_any_of(_ONLY_ALTERED)})\b", re.IGNORECASE)


def command_tag(text: str) -> str | None:
    """The command that a statement is, "CREATE FOREIGN TABLE"; None where PostgreSQL has none of it."""
    found = _TAG.match(text)
    if found is None:
        return None
    return re.sub(r"\s+", " ", " ".join(word for word in found.groups() if word)).upper()


def object_kind(text: str) -> str | None:
    """The kind of object that a text begins with, "TEXT SEARCH PARSER"; None where it is none."""
    found = _OBJECT.match(text.lstrip())
    return None if found is None else re.sub(r"\s+", " ", found.group()).upper()
