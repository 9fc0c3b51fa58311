"""Servers watched by SQL, for ``herdpy top``: see DESIGN.md."""
