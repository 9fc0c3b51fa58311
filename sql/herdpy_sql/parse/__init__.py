"""SQL text to syntax trees: the first layer of the SQL engine, knowing no tables and no types.

    split(sql) -> [Statement]                  lexical: quotes, comments, limits on size and nesting
    parse(statement) -> Expression | Command   queries, writes and definitions by sqlglot's postgres
                                               dialect; BEGIN, SET, SHOW and the like by a small own parser

Everything raises SqlError: 42601 with a position for what is not SQL, 54001 for what is nested too
deeply, 54000 for what is too long, 22021 for text that is not text, 0A000 for statements that are
PostgreSQL's and not (yet) ours. The tree's values are those of the text: dollar-quoted and escape
strings have become plain ones, comments blanks, before sqlglot sees them.
"""

from __future__ import annotations

from herdpy_sql.parse.commands import Command
from herdpy_sql.parse.copy_statement import CopyStatement
from herdpy_sql.parse.lexer import DEFAULT_MAX_BYTES, MAX_NESTING, Statement, split
from herdpy_sql.parse.parser import makes_temporary, moment_read, parse

__all__ = [
    "DEFAULT_MAX_BYTES",
    "MAX_NESTING",
    "Command",
    "CopyStatement",
    "Statement",
    "makes_temporary",
    "moment_read",
    "parse",
    "split",
]
