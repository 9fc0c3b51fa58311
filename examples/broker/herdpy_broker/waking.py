"""Wakes workers when tasks become ready.

Layer 0 of the broker. Every statement that may make a task ready returns ``WAKE`` for it: the notification is
a part of its transaction, and is delivered once when that is durable. Workers look for themselves besides, at
intervals, so a notification that is missed costs time alone.
"""

from __future__ import annotations

CHANNEL = "broker"
"""The channel; a payload is the name of a group that has work."""

WAKE = f"CASE WHEN state = 'ready' THEN pg_notify('{CHANNEL}', group_name) END"
"""An expression over a row of ``broker.task``, for RETURNING."""
