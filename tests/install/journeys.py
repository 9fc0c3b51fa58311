"""What a user does first with an install: README's examples, a server and its client, every command."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.docs.test_examples import blocks_of, commands_of, prints
from tests.install.environments import ROOT, Installed
from tests.support.server_process import RunningServer


def readme_blocks() -> list[tuple[str, str, str | None]]:
    """README's examples of a directory: language, text, and what is printed where the page says it."""
    blocks = blocks_of((ROOT / "README.md").read_text())
    found: list[tuple[str, str, str | None]] = []
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block.language == "python" and block.runs:
            output = following.text if following is not None and following.language == "output" else None
            found.append(("python", block.text, output))
        elif block.language == "console" and block.text.startswith("$ herdpy") and block.runs:
            found += [("console", command, expected) for command, expected in commands_of(block)]
    return found


def run_readme(installed: Installed, place: Path) -> None:
    """README's first examples run there and print what the page says."""
    blocks = readme_blocks()
    assert blocks[0][0] == "python"
    assert "herdpy.connect" in blocks[0][1]
    assert any(language == "console" for language, _, _ in blocks)
    file = place / "blocks.json"
    file.write_text(json.dumps([(language, text) for language, text, _ in blocks]))
    printed: Any = installed.child("page.py", file, cwd=place)
    for (language, text, expected), whole in zip(blocks, printed, strict=True):
        output, _, status = whole.rpartition("exit status ") if language == "console" else (whole, "", "0")
        assert status.strip() == "0", (text, output)
        if expected is not None and expected.strip():
            assert prints(expected, output), f"{text}\nprinted\n{output}\ninstead of\n{expected}"


@contextmanager
def serving(installed: Installed, data: Path) -> Iterator[RunningServer]:
    """A server of an environment, on free ports."""
    server = RunningServer(data, program=[str(installed.path / "bin" / "herdpy")]).ready()
    try:
        yield server
    finally:
        server.close()


def use_a_server(server: Installed, client: Installed, place: Path, *words: str) -> dict[str, Any]:
    """A server of one environment and a program of another: what the program saw."""
    with serving(server, place / "data") as running:
        url = f"herdpy://ann@127.0.0.1:{running.port}/herdpy"
        seen: Any = client.child("driver.py", url, *words, cwd=place)
        shown = server.run("herdpy", "status", url, cwd=place)
        assert "alone" in shown
        assert running.stop() == 0
    assert seen["aio"] == "bean"
    assert seen["pool"] == 2
    return dict(seen)


def said_by_commands(installed: Installed, place: Path, lines: list[list[str]]) -> dict[str, Any]:
    """The commands there are, and of each line of words the exit code and what was said."""
    file = place / "lines.json"
    file.write_text(json.dumps(lines))
    found: Any = installed.child("commands.py", file, cwd=place)
    return dict(found)


def files_of(archive: Path) -> set[str]:
    """The names in a wheel or an sdist; of an sdist without its first directory."""
    if archive.suffix == ".whl":
        listed = subprocess.run(["unzip", "-Z1", archive], capture_output=True, text=True, check=True)
        return set(listed.stdout.split("\n")) - {""}
    listed = subprocess.run(["tar", "tzf", archive], capture_output=True, text=True, check=True)
    return {line.partition("/")[2] for line in listed.stdout.splitlines() if not line.endswith("/")}
