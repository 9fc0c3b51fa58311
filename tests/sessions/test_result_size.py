"""herdpy.max_result_size: a larger answer of the columnar engine is an error, and the session goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

import herdpy

LARGE = "SELECT g, g::text FROM generate_series(1, 200000) g"


def test_a_larger_result_is_refused_and_the_session_goes_on(tmp_path: Path) -> None:
    with herdpy.connect(f"herdpy://{tmp_path}", autocommit=True) as connection:
        connection.execute("SET herdpy.max_result_size = '1MB'")
        with pytest.raises(herdpy.OperationalError, match=r"larger than herdpy.max_result_size") as caught:
            connection.execute(LARGE).fetchall()
        assert caught.value.sqlstate == "54000"
        assert len(connection.execute("SELECT g FROM generate_series(1, 1000) g").fetchall()) == 1000
        connection.execute("SET herdpy.max_result_size = '1GB'")
        assert len(connection.execute(LARGE).fetchall()) == 200_000
        connection.execute("RESET herdpy.max_result_size")
        assert connection.execute("SHOW herdpy.max_result_size").fetchall() == [("0",)]


def test_a_size_that_is_none(tmp_path: Path) -> None:
    with herdpy.connect(f"herdpy://{tmp_path}", autocommit=True) as connection:
        with pytest.raises(herdpy.Error) as caught:
            connection.execute("SET herdpy.max_result_size = 'much'")
        assert caught.value.sqlstate == "22023"
