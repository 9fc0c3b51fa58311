"""The broker's part of `herdpy drill`: a workload with its judge, and a storm with worker processes.

Layer 4 of the broker, beside its page and command line; above the public packages herdpy and herdpy.drill.
"""

from herdpy_broker.drill.storm import BROKER_STORM, BrokerStorm
from herdpy_broker.drill.workload import BrokerWorkload

__all__ = ["BROKER_STORM", "BrokerStorm", "BrokerWorkload"]
