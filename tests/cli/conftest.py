"""The command line run in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from herdpy.cli.app import app


@pytest.fixture
def run() -> Callable[..., Any]:
    """``run("sql", url, ..., input="", code=0)``: run a command; its result has stdout and stderr."""
    runner = CliRunner()

    def invoke(*arguments: object, input: str | None = None, code: int = 0) -> Any:
        result = runner.invoke(app, [str(argument) for argument in arguments], input=input)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, f"{result.exit_code}: {result.stdout}\n{result.stderr}"
        return result

    return invoke


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """Where a test's database is; there is none yet."""
    return tmp_path / "db"
