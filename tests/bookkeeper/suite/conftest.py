"""Every test of the suite runs twice."""

from __future__ import annotations

import pytest

from tests.bookkeeper.suite.targets import ModelTarget, RealTarget, Target


@pytest.fixture(params=["model", "real"])
def target(request: pytest.FixtureRequest) -> Target:
    if request.param == "model":
        return ModelTarget(1)
    return RealTarget(request.getfixturevalue("bookkeeper_cluster").uri)
