"""Metadata of ledgers and bookies in ZooKeeper.

From the bottom: ``znodes`` is what is needed of ZooKeeper, ``zookeeper`` gives it over kazoo; ``paths`` says
where ledgers are, ``ledger_metadata`` is the value of one znode; ``ledger_store`` keeps them all,
``registry`` follows bookies.
"""
