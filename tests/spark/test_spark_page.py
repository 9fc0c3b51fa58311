"""docs/spark.md: its examples run, in order, on the cluster and session that tests share; options are all.

`herdpy://db1/shop` is the cluster. Jobs run in this process, in the session that is there.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from herdpy_spark.jobs.__main__ import run as run_job
from herdpy_spark.options import definitions
from tests.docs.test_examples import Block, blocks_of, commands_of, prints

pytestmark = pytest.mark.timeout(900)

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
URL = "herdpy://db1/shop"
OPTION = re.compile(r"^\| `(\w+)` \| ([a-z, ]+) \| (.+) \|$", re.MULTILINE)
_CALLS = {"read": "read", "write": "write", "stream": "stream"}


def option_rows() -> list[tuple[str, str, str]]:
    """The page's table of options, as it is to be."""
    rows = []
    for one, default in definitions():
        uses = "all" if len(one.uses) == 3 else ", ".join(_CALLS[use] for use in one.uses)
        text = one.says if default in (None, "") else f"{one.says} (default: {default})"
        rows.append((one.name, uses, text.replace("|", "\\|")))
    return rows


def test_the_page_lists_every_option_with_its_meaning():
    assert OPTION.findall(PAGE) == option_rows()


def test_the_pages_examples_run(spark, cluster, sql, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"spark": spark}
    blocks = [block for block in blocks_of(PAGE.replace(URL, cluster.url)) if block.runs]
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        expected = following.text if following is not None and following.language == "output" else None
        if block.language == "sql":
            sql(block.text)
        elif block.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * (block.line - 1) + block.text, "docs/spark.md", "exec"), names)
            assert expected is None or prints(expected, printed.getvalue()), printed.getvalue()
        elif block.language == "console":
            run_console(block)


def run_console(block: Block) -> None:
    """Run the commands; jobs here, all others by bash."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for command, expected in commands_of(block):
        if command.startswith("herdpy spark "):
            with contextlib.redirect_stderr(io.StringIO()) as told:
                code = run_job(shlex.split(command)[2:])
            assert code == 0, f"docs/spark.md:{block.line}: {command}: {told.getvalue()}"
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert not expected.strip() or prints(expected, done.stdout), done.stdout
