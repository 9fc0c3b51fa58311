"""The page's own script, style and picture, read once."""

from __future__ import annotations

import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

_DIRECTORY = Path(__file__).parent / "static"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class StaticFiles:
    """The files by name: a name leads nowhere else."""

    def __init__(self) -> None:
        self._files = {path.name: path.read_bytes() for path in _DIRECTORY.iterdir() if path.suffix in _TYPES}
        self._tags = {
            name: f'"{hashlib.sha256(data).hexdigest()[:20]}"' for name, data in self._files.items()
        }

    async def answer(self, request: Request) -> Response:
        """A file; 304 where the browser has it."""
        name = request.path_params["name"]
        if name not in self._files:
            return PlainTextResponse("404: no such file\n", 404)
        headers = {"etag": self._tags[name], "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == self._tags[name]:
            return Response(status_code=304, headers=headers)
        kind = f"{_TYPES[Path(name).suffix]}; charset=utf-8"
        return Response(self._files[name], headers={**headers, "content-type": kind})
