"""Hands: who does a fault to a cluster."""

from herdpy.drill.hands.hands import (
    CLIENTS,
    Action,
    CannotError,
    Hands,
    HandsError,
    Kind,
    Needs,
    OneWay,
    Place,
)
from herdpy.drill.hands.view import ClusterView

__all__ = [
    "CLIENTS",
    "Action",
    "CannotError",
    "ClusterView",
    "Hands",
    "HandsError",
    "Kind",
    "Needs",
    "OneWay",
    "Place",
]
