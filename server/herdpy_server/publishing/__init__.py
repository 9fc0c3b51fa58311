"""Publishing: a tablespace's state, written as a snapshot that readers of the log begin from.

Above the store; ``replica`` and ``serving`` decide when. Data passes through so: ``state`` is what the store
holds at one LSN, in this process or opened read-only in another; ``snapshot`` makes its rows Arrow batches,
looks up in the log what belongs to the LSN, and gives them to ``herdpy.log.published``. ``child`` does all
that in a process of its own, which ``process`` starts and speaks with. DESIGN.md says why it is so.
"""
