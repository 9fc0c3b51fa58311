"""A filesystem of fsspec for other processes that is well, full or holds whoever writes, as a file says.

``held:///directory`` is that directory. ``HELD_PLACE`` names the file: ``ok``, ``full`` (nothing can be
written), ``away`` (nothing can be listed, read or written), or ``hold`` (a write does not come back before
the file says something else).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_SITE = """
import sys
sys.path.insert(0, {root!r})
from fsspec import register_implementation
register_implementation("held", "tests.support.held_place.HeldFileSystem")
"""


class HeldPlace:
    """Its controls.

    Attributes:
        url: of a directory in it.
    """

    def __init__(self, directory: Path, control: Path) -> None:
        self.url = f"held://{directory}"
        self._control = control
        self.say("ok")

    def say(self, what: str) -> None:
        """How it is from now on."""
        new = self._control.with_suffix(".new")
        new.write_text(what)
        os.replace(new, self._control)


@contextmanager
def held_place(directory: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldPlace]:
    """A place whose URL this process and those that it starts know."""
    site = scratch / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(_SITE.format(root=str(Path(__file__).parents[2])))
    control = scratch / "control"
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    monkeypatch.setenv("HELD_PLACE", str(control))
    place = HeldPlace(directory, control)
    try:
        yield place
    finally:
        place.say("ok")


def _await_leave(writes: bool) -> None:
    control = Path(os.environ["HELD_PLACE"])
    while True:
        match control.read_text():
            case "ok":
                return
            case "full" if writes:
                raise OSError(errno.ENOSPC, "No space left on device")
            case "away":
                raise ConnectionError("nobody answers")
            case "hold" if writes:
                time.sleep(0.02)  # the file of another process: there is nothing to await
            case _:
                return


def __getattr__(name: str) -> Any:
    """The class, once somebody asks: fsspec is imported then."""
    if name != "HeldFileSystem":
        raise AttributeError(name)
    from fsspec.implementations.local import LocalFileSystem

    class HeldFileSystem(LocalFileSystem):
        protocol = "held"

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return super()._strip_protocol(path.removeprefix("held://"))

        def pipe_file(self, path: str, value: bytes, **more: Any) -> None:
            _await_leave(writes=True)
            self.makedirs(os.path.dirname(path), exist_ok=True)
            super().pipe_file(path, value, **more)

        def find(self, path: str, **more: Any) -> Any:
            _await_leave(writes=False)
            return super().find(path, **more)

        def cat_file(self, path: str, **more: Any) -> Any:
            _await_leave(writes=False)
            return super().cat_file(path, **more)

        def exists(self, path: str, **more: Any) -> bool:
            _await_leave(writes=False)
            return bool(super().exists(path, **more))

    globals()[name] = HeldFileSystem
    return HeldFileSystem
