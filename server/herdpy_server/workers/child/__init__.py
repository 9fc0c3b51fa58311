"""The worker process's side.

__main__    its life: limits, then questions one after the other until its server is gone
answering   one question: columns, DuckDB, batches
state       LMDB's newest state, and what is known of tables between questions: deltas, kept columns
channel     frames to and from the server; cancels
"""
