"""BookKeeper's wire format, with no I/O in it: bytes to messages and back.

From the bottom: ``protocol`` has numbers, varints and length prefixes, ``proto`` the messages. ``messages``
makes and parses every operation through protobuf, ``entries`` plain adds and reads by hand, for speed;
``frames`` cuts what comes back; ``availability`` is the list of entries in one reply. ``server`` is the other
side, for model bookies. Malformed input raises ProtocolError and nothing else.
"""
