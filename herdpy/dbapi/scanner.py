"""PostgreSQL's text in pieces: what is quoted, what is comment, what is code.

Only as much of the lexical structure (PostgreSQL's manual, section 4.1) as it takes to know where
a ``%``, a ``$1`` or a ``;`` is code. What is not closed reaches to the end of the text; the parser
will say so better.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORD = r"[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_$\u0080-\U0010ffff]*"
_TAG = r"(?:[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\u0080-\U0010ffff]*)?"

# Words come before quotes so that in date'...' only a lone E makes an escape string. Of the code
# only what the driver looks for is a token; the rest is skipped by search().
_CODE = rf"""
      (?P<text>
          [eE]'(?:[^'\\]|\\.|'')*(?:'|\\?\Z)    # escape string
        | '(?:[^']|'')*(?:'|\Z)                 # string
        | "(?:[^"]|"")*(?:"|\Z)                 # quoted identifier
        | \$(?P<tag>{_TAG})\$.*?(?:\$(?P=tag)\$|\Z)
      )
    | (?P<comment> --[^\n]* )
    | (?P<block> /\* )
    | (?P<word> {_WORD} )
    | (?P<dollar> \$[0-9]+ )
    | (?P<number> [0-9]+ )
"""
_PLACEHOLDERS = r"| (?P<percent> %(?: \((?P<name>[^)]*)\)(?P<kind>.?) | . | \Z ) )"
_FLAGS = re.VERBOSE | re.DOTALL
_TOKENS = re.compile(_CODE + _PLACEHOLDERS, _FLAGS)
_TRANSLATED = re.compile(_CODE, _FLAGS)
_BLOCK_EDGE = re.compile(r"/\*|\*/")

Match = re.Match[str]

TEXT, COMMENT, DOLLAR, PERCENT = "text", "comment", "dollar", "percent"


def tokens(text: str, *, placeholders: bool = True) -> Iterator[tuple[str, int, int, Match]]:
    """Kind, start, end and match of each piece that is quoted, comment, ``$n`` or ``%``.

    Args:
        placeholders: whether a ``%`` may begin one; where they were translated, it is an operator.
    """
    pattern = _TOKENS if placeholders else _TRANSLATED
    position = 0
    while match := pattern.search(text, position):
        kind = match.lastgroup or ""  # the outermost group, since it closes last
        start, position = match.span()
        if kind in ("word", "number"):
            continue
        if kind == "block":
            kind, position = COMMENT, _end_of_block(text, position)
        yield kind, start, position, match


def _end_of_block(text: str, position: int) -> int:
    depth = 1  # they nest
    while depth:
        edge = _BLOCK_EDGE.search(text, position)
        if edge is None:
            return len(text)
        depth += 1 if edge.group() == "/*" else -1
        position = edge.end()
    return position
