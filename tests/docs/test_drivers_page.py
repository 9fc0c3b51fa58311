"""The table of options on docs/drivers.md: all that there are, and where each may stand."""

from __future__ import annotations

import re
from pathlib import Path

from herdpy.dbapi.options import OPTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "drivers.md").read_text()
HEAD = "| option | for directories, too | environment | default | meaning |"


def test_every_option_is_in_the_table_and_nothing_else():
    told = {}
    for line in PAGE[PAGE.index(HEAD) :].splitlines()[2:]:
        if not line.startswith("|"):
            break
        name, directories, variable, _default, _meaning = (
            cell.strip() for cell in line.strip("|").split("|")
        )
        told[name.strip("`")] = (bool(directories), variable.strip("`"))
    assert told == {name: (option.directories, option.variable) for name, option in OPTIONS.items()}


def test_examples_for_servers_name_the_test_that_runs_them():
    marks = re.findall(r"<!-- (not run: .*?) -->", PAGE)
    assert marks
    assert set(marks) == {"not run: tests/remote/test_drivers_page.py runs it on servers"}
