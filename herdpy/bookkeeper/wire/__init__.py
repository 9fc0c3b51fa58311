"""BookKeeper's wire format, with no I/O in it: bytes to messages and back.

From the bottom: ``status`` has the numbers, ``varint`` the integers and length prefixes, ``proto`` the
messages. A client encodes with ``adds`` and ``reads`` (by hand, for speed) and ``requests`` (protobuf); what
comes back is cut by ``frames`` and parsed by ``adds`` and ``reads`` where it has the usual form, else by
``replies``;
``availability`` is the list of entries in one of these. ``server`` is the other side, for model bookies.
Malformed input raises ProtocolError and nothing else.
"""
