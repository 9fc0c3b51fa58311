"""How Alembic reaches the database: the one that the service uses, or ``-x url=herdpy://...``."""

from alembic import context
from orders.database import url
from orders.models import Base
from sqlalchemy import create_engine

chosen = context.get_x_argument(as_dictionary=True).get("url", url())

if context.is_offline_mode():
    context.configure(url=chosen, target_metadata=Base.metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()
else:
    engine = create_engine(chosen)
    with engine.connect() as connection:
        context.configure(connection=connection, target_metadata=Base.metadata)
        with context.begin_transaction():
            context.run_migrations()
    engine.dispose()
