"""TPC-C on any database that is spoken to by DB-API with ``%s``: schema, rows, terminals, and what must hold.

    python -m bench.tpcc postgresql://user@host/database --warehouses 1 --terminals 4 --seconds 60

``scale`` says how much of everything there is, ``population`` fills the tables of ``schema``, ``profiles``
has the five transactions, ``terminals`` runs them beside each other, and ``conditions`` are the consistency
conditions 3.3.2.1 to 3.3.2.12 of the specification (revision 5.11). No key or think times are waited for:
what comes out is a rate of transactions, and no tpmC.
"""
