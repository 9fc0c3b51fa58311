"""The same interface on asyncio, with the same models and work: ``uvicorn orders.async_api:app``."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Annotated, TypeVar

from fastapi import FastAPI, Header, HTTPException, Response
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from orders import entry
from orders.api import Offer, ShownItem, ShownOrder, Wish
from orders.database import PATIENCE_S, helps_to_try_again, url

T = TypeVar("T")


@cache
def engine() -> AsyncEngine:
    """The one engine of this process, for its one loop."""
    return create_async_engine(url(), pool_size=16)


async def transaction(work: Callable[[Session], T]) -> T:
    """Run ``work`` as one transaction, and again when that may help: as ``orders.database`` does."""
    until = time.monotonic() + PATIENCE_S
    pause_s = 0.01
    while True:
        try:
            async with AsyncSession(engine(), expire_on_commit=False) as session, session.begin():
                return await session.run_sync(work)
        except DBAPIError as error:
            if not helps_to_try_again(error) or time.monotonic() + pause_s > until:
                raise
        await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
        pause_s = min(2 * pause_s, 1.0)


@asynccontextmanager
async def _lifespan(_app: FastAPI) -> AsyncIterator[None]:
    yield
    await engine().dispose()


app = FastAPI(title="Orders", lifespan=_lifespan)


@app.get("/items", response_model=list[ShownItem])
async def items() -> object:
    """What is for sale."""
    return await transaction(entry.offer)


@app.put("/items/{sku}", response_model=ShownItem)
async def stock_up(sku: str, item: Offer) -> object:
    """Offer an item."""
    return await transaction(lambda session: entry.stock_up(session, sku, item.name, item.price, item.stock))


@app.post("/orders", status_code=201, response_model=ShownOrder)
async def place(
    wish: Wish, idempotency_key: Annotated[str, Header(max_length=100)], response: Response
) -> object:
    """Place an order: 201, or 200 if it was placed before; 409 when there is not enough."""

    def work(session: Session) -> tuple[object, bool]:
        return entry.place(session, idempotency_key, wish.customer, wish.lines)

    try:
        order, is_new = await transaction(work)
    except entry.SoldOutError as error:
        raise HTTPException(409, f"not enough of {error}") from error
    if not is_new:
        response.status_code = 200
    return order


@app.get("/orders/{key}", response_model=ShownOrder)
async def order(key: str) -> object:
    """An order by its key."""
    found = await transaction(lambda session: entry.order_of(session, key))
    if found is None:
        raise HTTPException(404, "no such order")
    return found
