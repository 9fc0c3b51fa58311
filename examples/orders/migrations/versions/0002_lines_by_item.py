"""Lines by item"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(op.f("ix_order_line_sku"), "order_line", ["sku"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_order_line_sku"), table_name="order_line")
