"""Cluster control: what does a fault to a cluster, and undoes it."""

from herdpy.drill.control.control import (
    CLIENTS,
    Action,
    CannotError,
    ClusterControl,
    ClusterNeeds,
    ControlError,
    Kind,
    OneWay,
    ProcessPlace,
)
from herdpy.drill.control.view import ClusterObserver

__all__ = [
    "CLIENTS",
    "Action",
    "CannotError",
    "ClusterControl",
    "ClusterNeeds",
    "ClusterObserver",
    "ControlError",
    "Kind",
    "OneWay",
    "ProcessPlace",
]
