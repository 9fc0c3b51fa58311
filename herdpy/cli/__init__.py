"""The `herdpy` command: SQL shell, import, export, and looking into a database's log and store.

Top layer, beside applications: it speaks to a database through the driver (PEP 249), and only
``log``, ``check`` and ``info`` look underneath. DESIGN.md says how the modules fit. Nothing heavy is
imported before a command needs it, so that ``herdpy --help`` works in a driver-only install.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line; ends the process with 0, 1 (it failed) or 2 (wrong usage)."""
    import sys

    from herdpy.imports import importing

    if sys.argv[1:2] == ["server"]:
        from herdpy.cli.errors import exit_code
        from herdpy.cli.serving import plain_arguments, serve

        arguments = plain_arguments(sys.argv[2:])
        if arguments is not None:
            try:
                sys.exit(serve(arguments))
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - a defect is raised again
                sys.exit(exit_code(error))
    with importing(freeze=True):
        from herdpy.cli.app import app

    app(prog_name="herdpy")


__all__ = ["main"]
