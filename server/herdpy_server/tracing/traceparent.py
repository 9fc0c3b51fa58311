"""The context of a trace as clients send it: W3C's ``traceparent``, at the end of a statement. Pure.

A statement ends in a comment, ``/*traceparent='00-<trace>-<span>-<flags>'*/``, perhaps among other keys, as
PostgreSQL's clients write it (sqlcommenter). It is taken off before anything else looks at the text, so
that one statement in many traces is one statement: one plan, one line of statistics. Also what of a
statement's text a trace may show: its constants are left out.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_COMMENT = re.compile(r"\s*/\*((?:[^*]|\*(?!/))*)\*/\s*;?\s*\Z")
_IN_COMMENT = re.compile(r"(?:\A|,)\s*traceparent='([^']*)'")
_END = "*/"
_AHEAD = 1024
MOST_COMMENT = 2048
"""Characters; a longer comment at a statement's end is not looked at."""
_TOKEN = re.compile(
    r"""(?P<constant>[eE]'(?:[^'\\]|''|\\.)*'|(?:[bBxXnN]|[uU]&)?'(?:[^']|'')*'"""
    r"""|\$(?P<tag>[A-Za-z_]\w*|)\$.*?\$(?P=tag)\$"""
    r"""|0[xX][0-9a-fA-F]+|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"""
    r"""|(?P<comment>--[^\n]*|/\*.*?\*/)"""
    r"""|(?P<keep>"(?:[^"]|"")*"|\$\d+|[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*)"""
    r"""|(?P<open>['"]|\$[A-Za-z_]*\$|/\*)""",
    re.DOTALL,
)
_SECRET = re.compile(r"\bPASSWORD\b", re.IGNORECASE)


class Parent(NamedTuple):
    """The span that a statement is part of.

    Attributes:
        is_sampled: whether its trace is recorded.
    """

    trace_id: int
    span_id: int
    is_sampled: bool


def parse_traceparent(text: str) -> Parent | None:
    """The context in a ``traceparent``; None for what is none, which is no error (W3C, "Trace Context")."""
    found = _PARENT.match(text)
    if found is None or found[1] == "ff" or (found[1] == "00" and found.end() != len(text)):
        return None
    if found.end() != len(text) and text[found.end()] != "-":
        return None
    trace_id, span_id = int(found[2], 16), int(found[3], 16)
    if not trace_id or not span_id:
        return None
    return Parent(trace_id, span_id, bool(int(found[4], 16) & 1))


def without_traceparent(sql: str) -> tuple[str, Parent | None]:
    """A text without the comment at its end, if that has a context, and the context.

    A comment within a string, or behind ``--``, is none; so a text that has a quote after it is left alone
    by its pattern, and one behind ``--`` costs nothing: only the text up to it counts.
    """
    tail = sql[-MOST_COMMENT:]
    if "traceparent=" not in tail or _END not in tail:
        return sql, None
    begin = tail.rfind("/*")
    found = _COMMENT.match(tail, begin) if begin >= 0 else None
    given = None if found is None else _IN_COMMENT.search(found[1])
    if given is None:
        return sql, None
    return sql[: len(sql) - len(tail) + begin].rstrip(), parse_traceparent(given[1])


def without_constants(sql: str, chars: int) -> str:
    """A statement with ``?`` in place of strings and numbers, and cut; nothing behind the word PASSWORD.

    What looks like the beginning of a string that does not end is cut off, too: it may be one. Of a long text
    only the beginning is read, as it is on the server's loop.
    """
    sql = sql[: 4 * chars + _AHEAD]
    secret = _SECRET.search(sql)
    if secret is not None:
        sql = sql[: secret.end()] + " ..."
    pieces: list[str] = []
    at = 0
    for found in _TOKEN.finditer(sql):
        pieces.append(sql[at : found.start()])
        at = found.end()
        kind = found.lastgroup
        if kind == "open":
            pieces.append("...")
            at = len(sql)
            break
        if kind == "keep":
            pieces.append(found[0])
        else:
            pieces.append(" " if kind == "comment" else "?")  # a comment may have anything in it
    pieces.append(sql[at:])
    text = "".join(pieces)
    return text if len(text) <= chars else text[:chars] + "..."
