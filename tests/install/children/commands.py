"""Runs commands of ``herdpy`` where it is installed, each in a process of its own; prints what they said.

    python commands.py FILE     # FILE: a JSON list of lists of words

A process for each word list would import Typer and the commands' signatures again; here they are forked from
one that has them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback


def main() -> None:
    """See above."""
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = json.load(file)
    from herdpy.cli.app import app

    said = [_said(app, words) for words in lines]
    print(json.dumps({"commands": sorted(_leaves(app)), "said": said}))


def _leaves(app: object) -> list[str]:
    import typer.main

    found = []

    def walk(command: object, path: tuple[str, ...]) -> None:
        commands = getattr(command, "commands", None)
        if commands is None:
            found.append(" ".join(path))
            return
        for name, inner in commands.items():
            walk(inner, (*path, name))

    walk(typer.main.get_command(app), ())
    return found


def _said(app: object, words: list[str]) -> tuple[int, str]:
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            _run(app, words, output.fileno())
        _, status = os.waitpid(child, 0)
        output.seek(0)
        return os.waitstatus_to_exitcode(status), output.read().decode()


def _run(app: object, words: list[str], output: int) -> None:
    """What ``herdpy.cli.main`` does; never returns."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    status = 0
    try:
        app(args=words, prog_name="herdpy")
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except BaseException:  # noqa: BLE001 - a traceback is what the test looks for
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
