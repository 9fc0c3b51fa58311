"""Speaks to a server with all that a program has which only talks to servers; prints what it saw.

python driver.py URL [sqlalchemy]
"""

from __future__ import annotations

import asyncio
import json
import sys

import herdpy
import herdpy.aio


async def _asynchronous(url: str) -> object:
    async with await herdpy.aio.connect(url, autocommit=True) as connection:
        cursor = await connection.execute("SELECT name FROM plant WHERE id = %s", (1,))
        return (await cursor.fetchone())[0]


def _dialects(url: str) -> list[object]:
    import sqlalchemy

    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        found = connection.scalar(sqlalchemy.text("SELECT height FROM plant WHERE id = 1"))
    engine.dispose()
    return [engine.dialect.name, str(found)]


def main() -> None:
    """See above."""
    url = sys.argv[1]
    with herdpy.connect(url) as connection:
        connection.execute("CREATE TABLE plant (id INTEGER PRIMARY KEY, name TEXT, height NUMERIC)")
        plants = [(1, "bean", "1.80"), (2, "leek", "0.45")]
        connection.cursor().executemany("INSERT INTO plant VALUES (%s, %s, %s)", plants)
    seen: dict[str, object] = {"aio": asyncio.run(_asynchronous(url))}
    with herdpy.Pool(url) as pool, pool.connection() as connection:
        seen["pool"] = connection.execute("SELECT count(*) FROM plant").fetchone()[0]
    if "sqlalchemy" in sys.argv:
        seen["sqlalchemy"] = _dialects(url)
    for place in ("herdpy:garden", "herdpy+zk://127.0.0.1:1/x?tablespace=a"):
        try:
            herdpy.connect(place)
        except herdpy.InterfaceError as error:
            seen[place] = str(error)
    seen["loaded"] = sorted({name.partition(".")[0] for name in sys.modules})
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
