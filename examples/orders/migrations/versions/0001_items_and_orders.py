"""Items and orders"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "item",
        sa.Column("sku", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("price", sa.Numeric(precision=10, scale=2), nullable=False),
        sa.Column("stock", sa.Integer(), nullable=False),
        sa.CheckConstraint("stock >= 0", name="item_stock_check"),
        sa.PrimaryKeyConstraint("sku"),
    )
    op.create_table(
        "orders",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("customer", sa.String(), nullable=False),
        sa.Column("placed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    op.create_index(op.f("ix_orders_customer"), "orders", ["customer"], unique=False)
    op.create_table(
        "order_line",
        sa.Column("order_id", sa.Integer(), nullable=False),
        sa.Column("sku", sa.String(), nullable=False),
        sa.Column("quantity", sa.Integer(), nullable=False),
        sa.Column("price", sa.Numeric(precision=10, scale=2), nullable=False),
        sa.CheckConstraint("quantity > 0", name="order_line_quantity_check"),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"]),
        sa.ForeignKeyConstraint(["sku"], ["item.sku"]),
        sa.PrimaryKeyConstraint("order_id", "sku"),
    )


def downgrade() -> None:
    op.drop_table("order_line")
    op.drop_index(op.f("ix_orders_customer"), table_name="orders")
    op.drop_table("orders")
    op.drop_table("item")
