"""``herdpy doctor``: looks at a machine, a configuration and a cluster, and says what to do.

findings        what is said of one thing
machine         clock, disk, limits, memory, ports
configuration   the file of a server: its settings, keys, certificates
cluster         ZooKeeper, bookies, servers

Each part gathers facts and judges them in two steps, so that tests judge the facts of bad machines. The
command line (``herdpy.cli.doctor``) puts the parts together.
"""
