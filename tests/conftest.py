"""Fixtures that every area's tests may use, and how properties are tested everywhere."""

import os
import signal

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

# A command in the background of a shell ignores Ctrl-C, and so does all that it starts; tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

__all__ = ["postgres"]
