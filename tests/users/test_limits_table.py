"""The table of limits in docs/users.md: each is shown by a test that is there, and no limit is left out."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from herdpy_server.config.sections import GrpcSection, SessionsSection
from herdpy_server.pgwire.context import PgSettings

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "users.md").read_text().partition("## Limits\n")[2].partition("\n## ")[0]
SHOWN = re.compile(r"`(tests/\S+\.py)::(test_\w+)` \|$", re.MULTILINE)


def test_each_limit_is_shown_by_a_test() -> None:
    rows = [line for line in SECTION.splitlines() if line.startswith("| ")][1:]
    found = SHOWN.findall(SECTION)
    assert len(found) == len(rows) > 15
    missing = [f"{path}::{name}" for path, name in found if f"def {name}(" not in (ROOT / path).read_text()]
    assert missing == []


def test_each_setting_of_a_limit_is_told() -> None:
    settings = [f"postgres.{name}" for name in PgSettings.__dataclass_fields__ if name.startswith("max_")]
    settings += [
        f"grpc.{one.name}" for one in msgspec.structs.fields(GrpcSection) if one.name.startswith("max_")
    ]
    settings += [f"sessions.{one.name}" for one in msgspec.structs.fields(SessionsSection)]
    assert len(settings) > 12
    assert [name for name in settings if f"`{name}`" not in SECTION] == []
