"""The `herdpy` command: SQL shell, import, export, and looking into a database's log and store.

Top layer, beside applications: it speaks to a database through the driver (PEP 249), and only
``log``, ``check`` and ``info`` look underneath. DESIGN.md says how the modules fit. Nothing heavy is
imported before a command needs it, so that ``herdpy --help`` works in a driver-only install.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line; ends the process with 0, 1 (it failed) or 2 (wrong usage)."""
    from herdpy.cli.app import app

    app(prog_name="herdpy")


__all__ = ["main"]
