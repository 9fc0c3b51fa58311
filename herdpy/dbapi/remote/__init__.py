"""The link to servers, over PostgreSQL's protocol. Only ``connect`` for a URL of servers loads it.

Above the driver's own ``link``, ``errors`` and ``options``, and psycopg's libpq. From the bottom: ``wire``
is one connection, ``leader`` and ``hosts`` say where the next one is, ``connection`` makes it when one is
lost; ``commits`` knows what became of commits, ``requests`` sends again what may be sent again; ``link`` is
what a connection of the driver calls. ``values``, ``results`` and ``arrow`` convert what goes through them.
"""
