"""docs/operating.md lists every setting of a database with its default."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from herdpy_server.embedded import DatabaseSettings

PAGE = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| ([\d.]+) \| .+ \|$", re.MULTILINE)


def test_every_setting_is_listed_with_its_default():
    assert ROW.findall(PAGE) == [(field.name, str(field.default)) for field in fields(DatabaseSettings)]
