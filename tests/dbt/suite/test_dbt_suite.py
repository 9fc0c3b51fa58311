"""dbt's test suite for adapters, each class under its name there: run.py starts it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from selection import chosen


def _test_classes():
    for name, one in chosen().items():
        called = "Test_" + name.replace(".", "_").replace(":", "__")
        yield called, type(called, (one,), {"__module__": __name__, "suite_name": name})


globals().update(_test_classes())
