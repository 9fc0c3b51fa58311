"""Metadata of ledgers and bookies in ZooKeeper.

From the bottom: ``znodes`` is what is needed of ZooKeeper, ``zookeeper`` gives it over kazoo; ``uri``,
``paths`` and ``ids`` say where ledgers are and how they are numbered; ``ledger_metadata`` and
``serde`` are the value of one ledger's znode; ``ledger_store`` keeps them all, ``registry`` follows bookies.
"""
