"""The worker process's side.

__main__    its life: limits, then questions one after the other until its server is gone
answering   one question: columns, DuckDB, batches
state       what is known of tables between questions: deltas, kept columns
base        LMDB, opened read-only, and its newest state
channel     frames to and from the server; cancels
"""
