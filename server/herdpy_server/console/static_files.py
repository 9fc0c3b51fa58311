"""The console's own scripts, styles and pictures, read once; and htmx, which is vendored beside them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response

if TYPE_CHECKING:
    from starlette.requests import Request

_DIRECTORY = Path(__file__).parent / "static"
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class _Kept:
    data: bytes
    kind: str
    tag: str


class StaticFiles:
    """The files by name; there are no directories in it, so a name leads nowhere else."""

    def __init__(self) -> None:
        self._files = {
            path.name: _kept(path) for path in sorted(_DIRECTORY.iterdir()) if path.suffix in _TYPES
        }

    async def answer(self, request: Request) -> Response:
        """A file; 304 where the browser has it."""
        found = self._files.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("404: Not Found\n", 404)
        headers = {"etag": found.tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        return Response(found.data, headers={**headers, "content-type": found.kind})


def _kept(path: Path) -> _Kept:
    data = path.read_bytes()
    return _Kept(data, _TYPES[path.suffix], f'"{hashlib.sha256(data).hexdigest()[:20]}"')
