"""The HTTP interface: ``uvicorn orders.api:app``."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated

from fastapi import FastAPI, Header, HTTPException, Response
from pydantic import BaseModel, ConfigDict, Field

from orders import entry
from orders.database import transaction

app = FastAPI(title="Orders")


class _Shown(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Offer(_Shown):
    """An item, but for its number."""

    name: str
    price: Annotated[Decimal, Field(ge=0, max_digits=10, decimal_places=2)]
    stock: Annotated[int, Field(ge=0, lt=2**31)]


class ShownItem(Offer):
    """An item."""

    sku: str


class Wish(BaseModel):
    """An order that is to be placed: the customer, and how many of which item."""

    customer: str
    lines: Annotated[dict[str, Annotated[int, Field(gt=0, lt=2**31)]], Field(min_length=1, max_length=100)]


class ShownLine(_Shown):
    """A line of an order."""

    sku: str
    quantity: int
    price: Decimal


class ShownOrder(_Shown):
    """An order."""

    id: int
    key: str
    customer: str
    placed_at: datetime
    lines: list[ShownLine]


@app.get("/items", response_model=list[ShownItem])
def items() -> object:
    """What is for sale."""
    return transaction(entry.offer)


@app.put("/items/{sku}", response_model=ShownItem)
def stock_up(sku: str, item: Offer) -> object:
    """Offer an item."""
    return transaction(lambda session: entry.stock_up(session, sku, item.name, item.price, item.stock))


@app.post("/orders", status_code=201, response_model=ShownOrder)
def place(wish: Wish, idempotency_key: Annotated[str, Header(max_length=100)], response: Response) -> object:
    """Place an order: 201, or 200 if it was placed before; 409 when there is not enough."""
    try:
        order, is_new = transaction(
            lambda session: entry.place(session, idempotency_key, wish.customer, wish.lines)
        )
    except entry.SoldOutError as error:
        raise HTTPException(409, f"not enough of {error}") from error
    if not is_new:
        response.status_code = 200
    return order


@app.get("/orders/{key}", response_model=ShownOrder)
def order(key: str) -> object:
    """An order by its key."""
    found = transaction(lambda session: entry.order_of(session, key))
    if found is None:
        raise HTTPException(404, "no such order")
    return found
