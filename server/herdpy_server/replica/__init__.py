"""Replicas of tablespaces: following a log in BookKeeper, leading it, and handing over.

``node`` is what a server process makes; ``replica`` is one tablespace on it. DESIGN.md says why.
"""
