"""Runs blocks of a page where HerdPy is installed, in order and in one namespace; prints what each printed.

python page.py FILE     # FILE: a JSON list of [language, text]: python, or console with lines of "$ "
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys


def main() -> None:
    """See above."""
    with open(sys.argv[1], encoding="utf-8") as file:
        blocks = json.load(file)
    names: dict[str, object] = {"__name__": "__main__"}
    printed = []
    for language, text in blocks:
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(text, "page", "exec"), names)
            printed.append(output.getvalue())
        else:
            done = subprocess.run(
                text, shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
            )
            printed.append(f"{done.stdout}exit status {done.returncode}\n")
    print(json.dumps(printed))


if __name__ == "__main__":
    main()
