"""A small order-entry service: FastAPI in front, SQLAlchemy's ORM and HerdPy behind.

api: HTTP <-> entry: what placing an order means <-> models: tables <-> database: transactions
"""
