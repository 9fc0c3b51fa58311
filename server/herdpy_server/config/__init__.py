"""The configuration of a server: one TOML file, the environment and flags over it, all of it checked.

sections   what can be set: types, limits, defaults, meanings
fields     one setting: what it takes in words, its value out of text; all of them as TOML
values     file < environment < flags -> checked values and where each came from
check      what must hold between settings, and of the files they name
"""

from herdpy_server.config.check import listeners, networks_of
from herdpy_server.config.fields import documented, documented_with, effective
from herdpy_server.config.sections import RELOADABLE, HostRule, ServerConfig
from herdpy_server.config.values import ConfigError, LoadedConfig, load

__all__ = [
    "RELOADABLE",
    "ConfigError",
    "HostRule",
    "LoadedConfig",
    "ServerConfig",
    "documented",
    "documented_with",
    "effective",
    "listeners",
    "load",
    "networks_of",
]
