"""Pages as GitHub reads them, for Python-Markdown, which is stricter about lists; GitHub's anchors.

Layer: text to text; knows neither MkDocs nor where a page is.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r" *(`{3,})")
_ITEM = re.compile(r"( *)([-*]|\d+\.) +(?=\S)")
_COMMENT = re.compile(r"^ *<!-- .*? -->\n", re.MULTILINE)


def anchor(heading: str, separator: str = "-") -> str:
    """The anchor of a heading's text, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", separator)


def for_python_markdown(text: str) -> str:
    """``text`` with a blank line before each list, and four columns for each level of one.

    GitHub begins a list right after a paragraph, and takes what stands under the text of an item as part of
    it. Python-Markdown needs a blank line, and four columns. Comments of one line, which are for the tests of
    examples, go.
    """
    lines: list[str] = []
    inside: list[int] = []  # the columns where the texts of the open items begin
    fence = ""
    for line in _COMMENT.sub("", text).splitlines():
        opening = _FENCE.match(line)
        if not fence and line.strip():
            _list_level(line, inside, lines)
        lines.append(_shifted(line, inside, None if fence else _ITEM.match(line)))
        if opening:
            fence = "" if fence == opening[1] else fence or opening[1]
    return "\n".join(lines) + "\n"


def _list_level(line: str, inside: list[int], lines: list[str]) -> None:
    """Close the items that ``line`` is not part of, and open the one that it begins."""
    indent = len(line) - len(line.lstrip())
    is_lazy = bool(lines) and bool(lines[-1].strip()) and not _ITEM.match(line) and not _FENCE.match(line)
    was_inside = bool(inside)
    while inside and indent < inside[-1] and not is_lazy:
        inside.pop()
    item = _ITEM.match(line)
    if item is None:
        return
    if not was_inside and lines and lines[-1].strip():
        lines.append("")
    inside.append(item.end())


def _shifted(line: str, inside: list[int], item: re.Match[str] | None) -> str:
    """``line`` with four columns for each item that it stands in; ``item`` is the one that it begins."""
    if not line.strip() or not inside:
        return line
    depth, column = (len(inside) - 1, len(item[1])) if item else (len(inside), inside[-1])
    return " " * (4 * depth) + line[min(column, len(line) - len(line.lstrip())) :]
