"""What can go wrong with a local cluster: one class per cause, each saying what to do about it.

A process that does not start is herdpy.testing's StartError, whose text ends with the last lines of its log.
"""

from __future__ import annotations


class DevError(Exception):
    """Base of the errors of local clusters."""


class BusyError(DevError):
    """Another command works on the cluster's directory at this moment."""


class NoClusterError(DevError):
    """There is no cluster in the directory."""


class ForeignDirectoryError(DevError):
    """The directory holds something that is not a local cluster; nothing in it was touched."""


class UnknownNameError(DevError):
    """The cluster has no process of that name."""


class NotRunningError(DevError):
    """The process does not run, so that it cannot be paused or resumed."""
