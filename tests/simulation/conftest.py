"""Where simulated databases lie."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def simulation_directory(tmp_path: Path) -> Path:
    """In memory where there is such a place: the store's syncs are not what is tested here."""
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK) else tmp_path
    return base / f"herdpy-simulation-{os.getpid()}"


@pytest.fixture(autouse=True)
def quiet_log() -> Iterator[None]:
    """The log warns of every injected fault; thousands of those tell nobody anything."""
    logger = logging.getLogger("herdpy.log")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)
