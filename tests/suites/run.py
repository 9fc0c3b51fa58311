"""Run other people's suites on HerdPy, and hold the counts against those that are kept.

    python tests/suites/run.py regress                      all of PostgreSQL's regression scripts
    python tests/suites/run.py regress --files int4,join    some of them
    python tests/suites/run.py regress --seed 7 --some 5    five of them, by seed
    python tests/suites/run.py regress --record        all; counts.txt takes what grew
    python tests/suites/run.py regress --show refused       the last run's refusals, the most frequent first
    python tests/suites/run.py regress --show rows          the last run's statements with other rows
    python tests/suites/run.py regress --last --json        the last run's counts
    python tests/suites/run.py django                       Django's own tests, an app at a time
    python tests/suites/run.py django --files queries --again    one, with PostgreSQL's last outcomes
    python tests/suites/run.py django --show failed         the last run's failures by cause
    python tests/suites/run.py django --show texts --files queries    one by one, with their errors
    python tests/suites/run.py psycopg --files test_cursor  the tests of a client: psycopg, asyncpg

A run fails when a count is below what ``counts.txt`` has. `--show` and `--last` run nothing: each run leaves
what it found in ``out/suites``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.suites import cases, counts, reports  # noqa: E402

FOUND = ROOT / "out" / "suites"
"""Where a run leaves what it found, a folder a suite."""
_LONG = 250
"""A script of more statements is not among those that a seed takes."""


class Regress:
    """PostgreSQL's regression scripts, judged statement by statement."""

    folder = FOUND / "regress"
    shown = ("refused", "rows", "missing", "code", "endless", "lost", "after")

    def play(self, names: list[str], *, again: bool) -> None:
        """Play scripts to both servers, and leave what was found of each."""
        from tests.suites.regress import Suite
        from tests.suites.sources import regress
        from tests.suites.stage import Stage

        if again:
            sys.exit("--again is for suites whose tests run apart on each server")
        suite = Suite.read(regress())
        chosen = [name for name in suite.order if name in names or not names]
        self.folder.mkdir(parents=True, exist_ok=True)
        with Stage(suite) as stage:
            for name, judged in zip(chosen, stage.play(chosen), strict=True):
                records = [one.record() for one in judged]
                (self.folder / f"{name}.json").write_text(json.dumps(records, indent=1))
                print(reports.line(name, counts.count(records)), file=sys.stderr, flush=True)

    def found(self, names: list[str]) -> dict[str, counts.Count]:
        """The counts of the last run, by script."""
        return counts.found(self.folder, names)

    def total(self, found: dict[str, counts.Count]) -> str:
        """The counts, to be read."""
        return reports.total(found)

    def show(self, what: str, most: int, names: list[str]) -> str:
        """The statements of a category."""
        return reports.show(self.folder, what, most, names)


class Cases:
    """A suite of tests that run apart on each server: what passes on PostgreSQL is to pass on HerdPy."""

    shown = ("failed", "texts")

    def __init__(self, name: str) -> None:
        self.folder = FOUND / name
        self._name = name

    def play(self, names: list[str], *, again: bool) -> None:
        """Run parts of the suite on both servers, and leave what was found of each."""
        suite = importlib.import_module(f"tests.suites.{self._name}_suite")
        suite.play(names, self.folder, again=again)

    def found(self, names: list[str]) -> dict[str, counts.Count]:
        """The counts of the last run, by part."""
        return cases.found(self.folder, names)

    def total(self, found: dict[str, counts.Count]) -> str:
        """The counts, to be read."""
        return cases.total(found)

    def show(self, what: str, most: int, names: list[str]) -> str:
        """The tests that pass on PostgreSQL only: by cause, or one by one."""
        return (cases.show if what == "failed" else cases.show_texts)(self.folder, most, names)


SUITES: dict[str, Regress | Cases] = {
    "regress": Regress(),
    "django": Cases("django"),
    "psycopg": Cases("psycopg"),
    "asyncpg": Cases("asyncpg"),
}


def by_seed(suite: str, seed: int, some: int) -> list[str]:
    """Some scripts, chosen by a seed among the shorter ones."""
    short = [name for name, count in counts.kept(suite).items() if count.statements <= _LONG]
    return random.Random(seed).sample(short, min(some, len(short)))


def main(arguments: list[str]) -> int:
    """Do what is asked for; 0 when no count is below what is kept."""
    parser = argparse.ArgumentParser(prog="tests/suites/run.py")
    parser.add_argument("suite", choices=list(SUITES))
    parser.add_argument("--files", default="", help="scripts, apps or modules, with commas between them")
    parser.add_argument("--seed", type=int, help="which of them --some takes")
    parser.add_argument("--some", type=int, default=5, help="how many a seed takes")
    parser.add_argument("--record", action="store_true", help="let counts.txt take what grew")
    parser.add_argument("--show", choices=sorted({what for suite in SUITES.values() for what in suite.shown}))
    parser.add_argument("--most", type=int, default=40, help="how many lines --show prints")
    parser.add_argument("--last", action="store_true", help="run nothing: take what the last run found")
    parser.add_argument("--again", action="store_true", help="take PostgreSQL's outcomes of the last run")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    asked = parser.parse_args(arguments)
    suite = SUITES[asked.suite]
    names = [name for name in asked.files.split(",") if name]
    if asked.show:
        if asked.show not in suite.shown:
            parser.error(f"{asked.suite} shows {', '.join(suite.shown)}")
        print(suite.show(asked.show, asked.most, names))
        return 0
    if asked.seed is not None:
        names = by_seed(asked.suite, asked.seed, asked.some)
    if not asked.last:
        suite.play(names, again=asked.again)
    found = suite.found(names)
    as_json = json.dumps({name: asdict(count) for name, count in found.items()})
    print(as_json if asked.json else suite.total(found))
    wrong = counts.record(asked.suite, found) if asked.record else counts.problems(asked.suite, found)
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
