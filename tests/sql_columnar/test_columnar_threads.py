"""Queries of several threads share one database of DuckDB, which takes each function of the library once."""

from __future__ import annotations

import threading

from herdpy_sql.columnar import engine
from herdpy_sql.columnar.macros import MACROS
from herdpy_sql.library import ROUTINES, Resolved
from herdpy_sql.types import SqlType
from herdpy_sql.values.styles import Style

THREADS = 8


def test_functions_are_provided_once_though_many_threads_want_them() -> None:
    wanted = [
        Resolved(name, 0, candidates[0].args, candidates[0].result)
        for name, candidates in sorted(ROUTINES.items())
        if name.isidentifier()
        and isinstance(candidates[0].result, SqlType)
        and all(isinstance(one, SqlType) for one in candidates[0].args)
        and not candidates[0].setof
    ][:60]
    style = Style("Europe/Malta")  # of this test alone
    connection = engine.database(64 << 20, 1, None, style)
    text = "\n".join(MACROS)
    together = threading.Barrier(THREADS)
    errors: list[BaseException] = []

    def provide() -> None:
        together.wait()
        try:
            engine.provide(connection, text, wanted, style)
        except BaseException as error:  # noqa: BLE001 - it is looked at below
            errors.append(error)

    threads = [threading.Thread(target=provide) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
