"""Cluster control: what does a fault to a cluster, and undoes it."""

from herdpy.drill.control.control import (
    CLIENTS,
    Action,
    CannotError,
    ClusterControl,
    ClusterNeeds,
    ClusterObserver,
    ControlError,
    Kind,
    OneWay,
    ProcessPlace,
)

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
