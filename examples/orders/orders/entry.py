"""What placing an order means, as transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from herdpy.sqlalchemy import insert
from orders.models import Item, Line, Order


class SoldOutError(Exception):
    """There is not enough of an item, or no such item."""


def place(session: Session, key: str, customer: str, wanted: Mapping[str, int]) -> tuple[Order, bool]:
    """The order with this key, and whether it was placed only now.

    Args:
        key: chosen by the customer, new for every order. Asking again with the same key is safe: when the
            connection broke, when nobody answered, when the answer got lost.
        wanted: how many of which item.

    Raises:
        SoldOutError: nothing was ordered.
    """
    placed = session.scalar(
        insert(Order).values(key=key, customer=customer).on_conflict_do_nothing().returning(Order)
    )
    if placed is None:  # it is there, or somebody else placed it just now
        return session.scalars(select(Order).where(Order.key == key)).one(), False
    for sku, quantity in sorted(wanted.items()):  # in one order for all, so that nobody deadlocks
        price = session.scalar(
            update(Item)
            .where(Item.sku == sku, Item.stock >= quantity)
            .values(stock=Item.stock - quantity)
            .returning(Item.price)
        )
        if price is None:
            raise SoldOutError(sku)
        placed.lines.append(Line(sku=sku, quantity=quantity, price=price))
    return placed, True


def stock_up(session: Session, sku: str, name: str, price: Decimal, stock: int) -> Item:
    """Offer an item, or offer it anew: what is said here replaces what was."""
    offered = insert(Item).values(sku=sku, name=name, price=price, stock=stock)
    said = offered.excluded
    changed = offered.on_conflict_do_update(
        index_elements=[Item.sku], set_={"name": said.name, "price": said.price, "stock": said.stock}
    )
    return session.scalars(changed.returning(Item)).one()


def offer(session: Session) -> Sequence[Item]:
    """All items, by their numbers."""
    return session.scalars(select(Item).order_by(Item.sku)).all()


def order_of(session: Session, key: str) -> Order | None:
    """The order with this key."""
    return session.scalars(select(Order).where(Order.key == key)).one_or_none()
