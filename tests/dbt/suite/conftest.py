"""Hands dbt's test suite a profile of type `herdpy`. Only ``run.py`` starts pytest here.

The server's port comes as HERDPY_PORT; dbt's tests read the roles for GRANT from DBT_TEST_USER_1 and on.
"""

import os
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from dbt.flags import set_from_args
from dbt.tests.adapter.hooks import test_model_hooks

sys.path.insert(0, str(Path(__file__).parent))

from selection import LEFT_OUT

set_from_args(Namespace(), None)  # profiles are rendered before a command has set its flags

pytest_plugins = "dbt.tests.fixtures.project"


def pytest_collection_modifyitems(items):
    """Leave out the tests that have a reason of their own."""
    items[:] = [one for one in items if f"{one.cls.suite_name}::{one.name}" not in LEFT_OUT]


@pytest.fixture(scope="class")
def dbt_profile_target():
    return {
        "type": "herdpy",
        "threads": 4,
        "host": "127.0.0.1",
        "port": int(os.environ["HERDPY_PORT"]),
        "user": "root",  # this and the database's name are in what tests of hooks expect
        "pass": "none",
        "dbname": "dbt",
    }


@pytest.fixture(scope="class")
def unique_schema(prefix):
    return f"{prefix}_dbt"


@pytest.fixture(scope="class")
def test_data_dir(request, tmp_path_factory):
    """The files that a test brings along; a new directory for the tests that write into it."""
    if "_hooks" in request.cls.__name__:
        return Path(test_model_hooks.__file__).parent / "data"
    return tmp_path_factory.mktemp("own") / "data"
