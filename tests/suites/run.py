"""Run other people's suites on HerdPy, and hold the counts against those that are kept.

    python tests/suites/run.py regress                      all of PostgreSQL's regression scripts
    python tests/suites/run.py regress --files int4,join    some of them
    python tests/suites/run.py regress --seed 7 --some 5    five of them, by seed
    python tests/suites/run.py regress --record        all; counts.txt takes what grew
    python tests/suites/run.py regress --show refused       the last run's refusals, the most frequent first
    python tests/suites/run.py regress --show rows          the last run's statements with other rows
    python tests/suites/run.py regress --last --json        the last run's counts

A run fails when a count is below what ``counts.txt`` has. `--show` and `--last` run nothing: each run leaves
what it found in ``out/suites``.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.suites import counts, reports  # noqa: E402

FOUND = ROOT / "out" / "suites" / "regress"
_LONG = 250
"""A script of more statements is not among those that a seed takes."""


def play(names: list[str]) -> None:
    """Play scripts to both servers, and leave what was found of each in FOUND."""
    from tests.suites.regress import Suite
    from tests.suites.sources import regress
    from tests.suites.stage import Stage

    suite = Suite.read(regress())
    chosen = [name for name in suite.order if name in names or not names]
    FOUND.mkdir(parents=True, exist_ok=True)
    with Stage(suite) as stage:
        for name, judged in zip(chosen, stage.play(chosen), strict=True):
            records = [one.record() for one in judged]
            (FOUND / f"{name}.json").write_text(json.dumps(records, indent=1))
            print(reports.line(name, counts.count(records)), file=sys.stderr, flush=True)


def by_seed(seed: int, some: int) -> list[str]:
    """Some scripts, chosen by a seed among the shorter ones."""
    short = [name for name, count in counts.kept("regress").items() if count.statements <= _LONG]
    return random.Random(seed).sample(short, min(some, len(short)))


def main(arguments: list[str]) -> int:
    """Do what is asked for; 0 when no count is below what is kept."""
    parser = argparse.ArgumentParser(prog="tests/suites/run.py")
    parser.add_argument("suite", choices=["regress"])
    parser.add_argument("--files", default="", help="scripts, with commas between them")
    parser.add_argument("--seed", type=int, help="which scripts --some takes")
    parser.add_argument("--some", type=int, default=5, help="how many scripts a seed takes")
    parser.add_argument("--record", action="store_true", help="let counts.txt take what grew")
    parser.add_argument("--show", choices=["refused", "rows", "missing", "code", "endless", "lost", "after"])
    parser.add_argument("--most", type=int, default=40, help="how many lines --show prints")
    parser.add_argument("--last", action="store_true", help="run nothing: take what the last run found")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    asked = parser.parse_args(arguments)
    names = [name for name in asked.files.split(",") if name]
    if asked.show:
        print(reports.show(FOUND, asked.show, asked.most, names))
        return 0
    if asked.seed is not None:
        names = by_seed(asked.seed, asked.some)
    if not asked.last:
        play(names)
    found = counts.found(FOUND, names)
    as_json = json.dumps({name: asdict(count) for name, count in found.items()})
    print(as_json if asked.json else reports.total(found))
    wrong = counts.record("regress", found) if asked.record else counts.problems("regress", found)
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
