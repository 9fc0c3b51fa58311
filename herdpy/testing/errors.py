"""What can go wrong in the testing kit: one class per cause, each saying what to do about it."""

from __future__ import annotations


class KitError(Exception):
    """Base of the testing kit's errors."""


class MissingSoftwareError(KitError):
    """Java, Maven or another program is not installed, or the jars cannot be fetched; the text names what to
    install.
    """


class StartError(KitError):
    """A server did not become ready; the text ends with the last lines of its log."""


class PortTakenError(StartError):
    """The port of a server is listened on by a process that is not the server."""


class NetworkUnavailableError(KitError):
    """Network namespaces cannot be made here; the text says why."""
