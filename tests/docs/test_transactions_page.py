"""docs/transactions.md says of each anomaly at each level what the isolation scripts show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/transactions.md").read_text()
SCRIPTS = ROOT / "tests/isolation/golden"
LEVELS = ("read committed", "repeatable read", "serializable")
ROWS = {
    row[1].strip("`"): row[2:]
    for line in PAGE.splitlines()
    if len(row := [cell.strip() for cell in line.strip("|").split("|")]) == 5 and row[1].startswith("`")
}

Answers = list[tuple[str, list[str]]]
"""Statements, each with its answer."""


def played(script: str, level: str) -> Answers:
    """What a script shows at a level."""
    text = (SCRIPTS / f"{script}.txt").read_text()
    section = text.split(f"## {level}\n", 1)[1].split("\n## ", 1)[0]
    found: Answers = []
    for line in section.splitlines():
        if line[1:3] == "> ":
            found.append((line, []))
        elif found and line:
            found[-1][1].append(line)
    return found


def all_committed(answers: Answers) -> bool:
    return all(lines[0] == "COMMIT" for asked, lines in answers if asked.endswith("> COMMIT"))


def shown(session: str, what: str) -> Callable[[Answers], bool]:
    """A session is shown a line that it must not see."""
    return lambda answers: any(asked[0] == session and what in lines for asked, lines in answers)


def second_look(session: str) -> Callable[[Answers], bool]:
    """The session's second query finds something."""

    def found(answers: Answers) -> bool:
        looks = [lines for asked, lines in answers if asked.startswith(f"{session}> SELECT")]
        return looks[1] != ["nothing"]

    return found


def mixed(answers: Answers) -> bool:
    """The rows are of two transactions in the end."""
    return answers[-1][1] in (["1 11", "2 22"], ["1 12", "2 21"])


def vanished(answers: Answers) -> bool:
    looks = [lines for asked, lines in answers if asked.startswith("C> SELECT")]
    return looks[-2:] == [["18"], ["11"]]


HAPPENED: dict[str, Callable[[Answers], bool]] = {
    "g0": mixed,
    "g1a": shown("B", "1 101"),
    "g1b": shown("B", "1 101"),
    "g1c": lambda answers: shown("A", "22")(answers) or shown("B", "11")(answers),
    "otv": vanished,
    "pmp": second_look("A"),
    "g_single": shown("A", "18"),
    "g_single_predicate": second_look("A"),
}
"""Where the anomaly is what somebody is shown; elsewhere it is that all may commit."""


@pytest.mark.parametrize("script", ROWS)
def test_the_table_says_what_the_script_shows(script: str) -> None:
    happened = HAPPENED.get(script, all_committed)
    given = ["possible" if happened(played(script, level)) else "no" for level in LEVELS]
    assert list(ROWS[script]) == given


def test_every_anomaly_is_in_the_table() -> None:
    anomalies = {path.stem for path in SCRIPTS.glob("*.txt") if "## serializable" in path.read_text()}
    assert anomalies - {"g_single_write_2"} == set(ROWS)  # that one ends by a ROLLBACK of its own
