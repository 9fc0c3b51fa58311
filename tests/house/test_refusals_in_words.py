"""No message of the SQL layer is made from a name of a class: ``herdpy_sql.node_names`` has words."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2] / "sql" / "herdpy_sql"
MADE_FROM_A_CLASS = re.compile(
    r"SqlError\([^()]*\{[^}]*(?:__name__|sql_name\(|\bnode\.key\b|\btree\.key\b)", re.DOTALL
)
ABOUT_PYTHON = {"values/form.py", "values/forms.py"}
"""Their messages are about objects of Python, which a class of Python names."""


def test_no_message_is_made_from_a_class() -> None:
    assert MADE_FROM_A_CLASS.search('SqlError("0A000", f"{type(node).__name__} is not supported")')
    sources = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
    wrong = [name for name, text in sources.items() if MADE_FROM_A_CLASS.search(text)]
    assert set(wrong) <= ABOUT_PYTHON
