"""The tables: what is for sale, and who ordered how much of it at which price."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from sqlalchemy import CheckConstraint, DateTime, ForeignKey, Identity, Numeric, func
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    """What Alembic compares the database with."""


class Item(Base):
    """Something for sale, and how many of it are left."""

    __tablename__ = "item"
    __table_args__ = (CheckConstraint("stock >= 0", name="item_stock_check"),)

    sku: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    price: Mapped[Decimal] = mapped_column(Numeric(10, 2))
    stock: Mapped[int]


class Order(Base):
    """An order. Its key is the customer's: who asks twice with the same key has ordered once."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    customer: Mapped[str] = mapped_column(index=True)
    placed_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    lines: Mapped[list[Line]] = relationship(order_by="Line.sku", lazy="selectin")


class Line(Base):
    """So many of one item in an order, at the price of that day."""

    __tablename__ = "order_line"
    __table_args__ = (CheckConstraint("quantity > 0", name="order_line_quantity_check"),)

    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"), primary_key=True)
    sku: Mapped[str] = mapped_column(ForeignKey("item.sku"), primary_key=True, index=True)
    quantity: Mapped[int]
    price: Mapped[Decimal] = mapped_column(Numeric(10, 2))
