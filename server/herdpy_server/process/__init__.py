"""What makes a server a well-behaved process: logs, statistics, signals, word to systemd.

logs        records -> lines of text or JSON, written by a thread of their own
statements  what sessions report of statements: counts, latencies, the slow-statement log
notify      systemd's readiness protocol
node        the process as the gRPC services see it; SIGHUP: what of a new configuration it takes over
front_ends  what it listens with, and who may come in
"""
