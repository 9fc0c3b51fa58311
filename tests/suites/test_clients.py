"""The files of clients' tests by their names."""

from __future__ import annotations

import pytest

from tests.suites import clients, psycopg_suite


def test_a_part_is_a_file_with_dots_for_folders(tmp_path):
    assert clients.part_of("tests/types/test_enum.py::test_dump[a/b.c]") == "types.test_enum"
    assert clients.part_of("tests/test_copy.py::TestCopy::test_one") == "test_copy"


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"psycopg has no tests/test_nothing\.py"):
        psycopg_suite.CLIENT._paths(tmp_path, ["test_nothing"])
