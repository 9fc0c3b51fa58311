"""Store layer: what can be wrong with the files under a store, or between a store and its log."""

from __future__ import annotations


class StoreDamagedError(Exception):
    """The files of a store cannot be trusted; ``str`` says what was found, for a person to read.

    The state can be made again from the log when the log is whole, or from a replica or a backup.
    """


class ApplyError(Exception):
    """A record of the log does not fit the state it is applied to, so that log and store differ."""
