"""A configuration that has what it needs, and what is wrong with the rest of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from herdpy_server.config import ConfigError, load

DATA = ("--data", "data.directory", "/srv/db")


def problems(path: Path | None = None, **more) -> list[str]:
    """What is wrong with a configuration that has a data directory."""
    flags = [DATA, *more.pop("flags", ())]
    with pytest.raises(ConfigError) as caught:
        load(path, flags=flags, **more)
    return caught.value.problems
