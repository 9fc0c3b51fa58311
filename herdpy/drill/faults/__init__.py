"""Faults that a drill makes happen, by name: `Fault` says what one is."""

from collections.abc import Mapping

from herdpy.drill.faults.disks import BitRot, EmptyBookie, FullDisk, LoseBookieDisk, LoseLeaderDisk, SlowDisk
from herdpy.drill.faults.fault import Fault
from herdpy.drill.faults.ledgers import RollLedgers, TrimAndSeed
from herdpy.drill.faults.partitions import (
    DelayInFlight,
    LoseInFlight,
    LoseOnlyWitness,
    PartitionLeader,
    PartitionLeaderFromBookies,
    PartitionLeaderFromBoth,
    PartitionLeaderFromClients,
    PartitionLeaderFromMostBookies,
    PartitionLeaderFromZooKeeper,
    PartitionLeaderOneWay,
    PartitionPreferredLeader,
)
from herdpy.drill.faults.processes import (
    ClockJump,
    ExpireSession,
    KillBookie,
    KillFollower,
    KillLeader,
    KillLeaderAndBookies,
    KillZooKeeper,
    PauseBookie,
    PauseLeader,
    PauseZooKeeper,
    RollingRestart,
)
from herdpy.drill.faults.storm import Storm

FAULTS: Mapping[str, type[Fault]] = {
    fault.name: fault
    for fault in (
        KillLeader,
        PauseLeader,
        PartitionLeader,
        PartitionLeaderFromZooKeeper,
        PartitionLeaderFromBookies,
        PartitionLeaderFromMostBookies,
        PartitionPreferredLeader,
        PartitionLeaderFromBoth,
        PartitionLeaderFromClients,
        PartitionLeaderOneWay,
        LoseInFlight,
        LoseOnlyWitness,
        DelayInFlight,
        KillLeaderAndBookies,
        KillFollower,
        RollLedgers,
        KillBookie,
        PauseBookie,
        LoseBookieDisk,
        EmptyBookie,
        KillZooKeeper,
        PauseZooKeeper,
        ExpireSession,
        TrimAndSeed,
        FullDisk,
        SlowDisk,
        ClockJump,
        RollingRestart,
        LoseLeaderDisk,
        BitRot,
        Storm,
    )
}

__all__ = ["FAULTS", "Fault"]
