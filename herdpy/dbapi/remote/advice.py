"""What to do about a server that cannot be connected to, by the words of whoever gave up. Below ``leader``.

libpq has no codes for what goes wrong before a session begins: its words, and the servers', are all there is.
"""

from __future__ import annotations

import re

_ADVICE = (
    (
        r"server does not support SSL",
        "Leave sslmode out, or let it be prefer; or give the server tls.certificate and tls.key.",
    ),
    (
        r"certificate verify failed|root certificate|does not match host name",
        "sslrootcert names who signed the server's certificate, which must have the name in the URL.",
    ),
    (
        r"client certificate|certificate authentication",
        "sslcert and sslkey name the user's certificate and its key (PEM): signed by who is in the server's "
        "tls.client_ca, and made out to the user's name. sslmode must not be disable.",
    ),
    (
        r"private key file|certificate file|certificate .* (does not|doesn't) match",
        "sslcert and sslkey name the files of the user's certificate and of its key, which only their owner "
        "may read (chmod 600).",
    ),
    (
        r"invalid response to SSL|unexpected response|expected authentication request|unsupported frontend",
        "Something else than HerdPy listens there: the URL takes the port of PostgreSQL's protocol, "
        "postgres.port, and not that of gRPC or HTTP.",
    ),
    (r"password|authentication", "Are user and password right? HERDPY_PASSWORD or a profile may have them."),
    (r"no rule|pg_hba|not permitted", "authentication.rules of the server says who may come from where."),
    (r"(database|tablespace) .* does not exist", "herdpy tablespace ls shows those that there are."),
    (r"looked up|failed to resolve", "Is the name of the host right?"),
    (r"Connection refused", "Is the server up, and is that its port? herdpy server starts one."),
    (
        r"not reached from here",
        "Open the way to the server that leads, or move leadership to one that is reached, on that one: "
        "ALTER TABLESPACE name LEADER 'node'.",
    ),
    (r"does not answer|timeout|timed out", "Is the way to it open? connect_timeout says how long is waited."),
    (r"follows|read-only|not ready", "herdpy status shows who leads, and what is wrong."),
)


def advice(said: str) -> str | None:
    """What to do next; None where that is not known."""
    return next((what for words, what in _ADVICE if re.search(words, said, re.IGNORECASE)), None)
