"""A cluster's agreement, all of it in ZooKeeper: who is there, what tablespaces there are, who leads each.

From the bottom: ``layout`` (paths and records), ``session`` (which session, by number), ``certain`` (changes
whose outcome gets known), ``lease`` (until when nobody else leads) and ``election``; ``membership`` and
``tablespaces``;
``placement`` (pure), ``positions`` and ``readers``; ``coordination`` makes them all.
DESIGN.md says why, and why a lease is safe.
"""
