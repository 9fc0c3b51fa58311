"""Links of pages: to another page of the site where there is one, to the repository for all other files.

Pages link to each other as files of the repository, so that they work on GitHub; the site has some of these
files in other places (DESIGN.md of each component), and does not have sources. Layer: text to text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from pathlib import Path

_FENCED = r"^(?P<indent> *)(?P<fence>`{3,})(?!`).*?^(?P=indent)(?P=fence) *$"
_LINK = r"(?P<text>!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()(?P<target>[^)\s]+)\)"
_PART = re.compile(rf"{_FENCED}|{_LINK}|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def rewritten(
    text: str, source: str, page: str, places: Mapping[str, str], repository: Callable[[str], str]
) -> str:
    """``text`` with every link to a file as the site needs it.

    Args:
        text: a page in Markdown; what is code stays as it is.
        source: the file it came from, from the root of the repository.
        page: the page's place in the site.
        places: the site's place of each file that it has, by the file's path from the root of the repository.
        repository: makes the link to a file that the site does not have, of its path.
    """
    here = posixpath.dirname(page)

    def replaced(found: re.Match[str]) -> str:
        path, hash_, anchor = (found["target"] or "").partition("#")
        if not path or re.match(r"[a-z]+:", path):  # code, a heading of this page, or another host
            return found[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        place = places.get(file) or places.get(f"{file}/README.md")
        link = posixpath.relpath(place, here or ".") if place else repository(file)
        return f"{found['text']}{link}{hash_}{anchor})"

    return _PART.sub(replaced, text)


def in_repository(root: Path, url: str) -> Callable[[str], str]:
    """Makes links to files of a repository at ``url``; a file that is not there is an error (ValueError)."""

    def link(file: str) -> str:
        path = root / file
        if not path.exists():
            raise ValueError(f"{file} is not there")
        return f"{url}/{'tree' if path.is_dir() else 'blob'}/main/{file}"

    return link
