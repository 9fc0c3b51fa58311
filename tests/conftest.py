"""Fixtures that every area's tests may use, and how properties are tested everywhere."""

import os

from hypothesis import HealthCheck, settings

from tests.support.postgres import postgres

# How long an example takes says something of the machine, nothing of the code. Where every commit is
# judged (CI is set) examples are the same each time; new ones are for developers to find.
settings.register_profile(
    "herdpy",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("herdpy")

__all__ = ["postgres"]
