"""docs/spark.md and docs/tutorials/spark.md ("spark.md"): their examples run, in order, in the session that
tests share; options are all.

The tutorial's database is a directory, so nothing of it can need a cluster; in the reference `herdpy://db1/shop`
is the cluster. Jobs run in this process, in the session that is there. A long run has the tutorial as its
reader would: programs in one Python, each command a process of its own, and paths as the page writes them.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from herdpy_spark.jobs.__main__ import run as run_job
from herdpy_spark.options import definitions
from tests.docs.test_examples import Block, blocks_of, commands_of, prints

pytestmark = pytest.mark.timeout(900)

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "spark.md").read_text()
TUTORIAL = (DOCS / "tutorials" / "spark.md").read_text()
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


def examples(page: str, places: Mapping[str, str]) -> list[Block]:
    """The blocks of a page that run, with other places than the page's."""
    blocks = [block for block in blocks_of(page) if block.runs]
    for block in blocks:
        for place, other in places.items():
            block.text = block.text.replace(place, other)
    return blocks


def test_the_tutorial_runs_on_a_directory(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The session's own processes work where they were begun: what they open has whole paths.
    places = {"herdpy:shop": f"herdpy://{tmp_path}/shop", '"followed/': f'"{tmp_path}/followed/'}
    try:
        run_blocks(examples(TUTORIAL, places), {}, job_here)
    finally:
        spark.catalog.dropTempView("orders")


def test_the_references_examples_run_on_a_cluster(spark, cluster, sql, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_blocks(examples(PAGE, {URL: cluster.url}), {"spark": spark}, job_here, sql)


@pytest.mark.soak
def test_the_tutorial_runs_as_its_reader_runs_it(tmp_path):
    blocks = "page.examples(page.TUTORIAL, {})"
    code = f"import tests.spark.test_spark_page as page; page.run_blocks({blocks}, {{}}, page.command)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def run_blocks(
    blocks: list[Block],
    names: dict[str, Any],
    run_spark: Callable[[Block, str, str], None],
    sql: Callable[[str], object] | None = None,
) -> None:
    """Run them in order; ``run_spark`` has the commands that are jobs."""
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        expected = following.text if following is not None and following.language == "output" else None
        if block.language == "sql":
            assert sql is not None, f"docs/spark.md:{block.line}: SQL needs the cluster"
            sql(block.text)
        elif block.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * (block.line - 1) + block.text, "docs/spark.md", "exec"), names)
            assert expected is None or prints(expected, printed.getvalue()), printed.getvalue()
        elif block.language == "console":
            for line, output in commands_of(block):
                (run_spark if line.startswith("herdpy spark ") else command)(block, line, output)


def job_here(block: Block, line: str, expected: str) -> None:
    """Run a job in this process, which has the session."""
    with contextlib.redirect_stderr(io.StringIO()) as told:
        code = run_job(shlex.split(line)[2:])
    assert code == 0, f"docs/spark.md:{block.line}: {line}: {told.getvalue()}"


def command(block: Block, line: str, expected: str) -> None:
    """Run a command by bash, with this environment's programs."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", line],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"docs/spark.md:{block.line}: {line}: {done.stderr}"
    assert not expected.strip() or prints(expected, done.stdout), done.stdout
