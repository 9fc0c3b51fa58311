"""Publishing: a tablespace's state, written as a snapshot that readers of the log begin from.

Above the store; ``serving.publishing`` decides when. Data passes through so: ``snapshot`` takes what the
store holds at one LSN, in this process or opened read-only in another, makes its rows Arrow batches, looks
up in the log what belongs to the LSN, and gives them to ``herdpy.log.published``. ``child`` does all that
in a process of its own, which ``publisher`` starts and speaks with (``messages``). DESIGN.md says why it is
so.
"""
