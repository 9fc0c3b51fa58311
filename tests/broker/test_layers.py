"""How the broker is built: on the driver's public modules alone, and a layer knows none above it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import herdpy_broker
import pytest

PLACE = Path(herdpy_broker.__file__).parent
PUBLIC = {"herdpy", "herdpy.aio", "herdpy.backoff", "herdpy.rows"}
"""What docs/drivers.md has of the driver."""
OF_DRILLS = ("herdpy.drill.", "herdpy.testing.")
"""What the broker's drill, which stands beside HerdPy's own, may import besides."""

LAYERS = (
    {"errors", "transactions", "values", "waking"},
    {
        "claim", "ending", "finish", "groups", "letters", "listing", "overview", "reading", "retrying",
        "sample", "schedule", "schema", "submission", "types", "upkeep", "workers",
    },
    {"broker"},
    {
        "async_worker", "child", "claim_loop", "execution", "finisher", "handlers", "listener", "membership",
        "process_worker", "service", "shares", "state", "upkeep_loop", "worker",
    },
    {"cli", "drill", "metrics", "poller", "rates", "tables", "terminal", "web"},
)  # fmt: skip
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}
MODULES = sorted(path.relative_to(PLACE) for path in PLACE.rglob("*.py") if path != PLACE / "__init__.py")


def imported(path: Path) -> Iterator[str]:
    """The modules that a module names, with what it takes of a package as a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module in ("herdpy", "herdpy_broker"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_stands_on_the_public_driver_alone(module):
    ours = {one for one in imported(PLACE / module) if one.split(".")[0] == "herdpy"}
    if module.parts[0] == "drill":
        ours = {one for one in ours if not one.startswith(OF_DRILLS)}
    assert ours <= PUBLIC


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_layer_knows_none_above_it(module):
    known = [one.split(".")[1] for one in imported(PLACE / module) if one.startswith("herdpy_broker.")]
    own = LAYER[module.parts[0].removesuffix(".py")]
    assert {one for one in known if LAYER[one] > own} == set()
