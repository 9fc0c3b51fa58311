"""The names under which HerdPy is installed, and the words that install it. Below every room.

The import name is ``herdpy``; on PyPI that name belongs to another project. Every hint that names a command
of pip comes from here, and tests/house holds pyproject.toml, the docs and the constants together.
"""

from __future__ import annotations

NAME = "herdpydb"
"""The whole of HerdPy: it reads directories, and its extras run servers, jobs of Spark and the rest."""
CLIENT_NAME = "herdpydb-client"
"""What programs need that only talk to servers: the driver, ``herdpy.aio``, pools, SQLAlchemy's dialects."""


def requirement(*extras: str, name: str = NAME) -> str:
    """What pip is given: the distribution, with extras: ``herdpydb[server,spark]``."""
    return f"{name}[{','.join(extras)}]" if extras else name


def install_line(*extras: str, name: str = NAME) -> str:
    """The command that installs the distribution with these extras, as a shell reads it."""
    named = requirement(*extras, name=name)
    return f'pip install "{named}"' if extras else f"pip install {named}"
