"""SIGHUP: which settings of a new configuration a running server takes over, and which it cannot."""

from __future__ import annotations

from msgspec import structs

from herdpy_server.config import RELOADABLE, ServerConfig


def changed(old: ServerConfig, new: ServerConfig) -> tuple[list[str], list[str]]:
    """Full names of the settings that differ: those to be taken over, and those that need another start."""
    taken: list[str] = []
    left: list[str] = []
    for section in structs.fields(ServerConfig):
        before, after = getattr(old, section.name), getattr(new, section.name)
        for field in structs.fields(type(before)):
            if getattr(before, field.name) != getattr(after, field.name):
                key = f"{section.name}.{field.name}"
                (taken if key in RELOADABLE else left).append(key)
    return taken, left


def taken_over(old: ServerConfig, new: ServerConfig) -> ServerConfig:
    """The configuration that holds after a reload: the old one with what can be taken over of the new one."""
    sections = {}
    for section in structs.fields(ServerConfig):
        before, after = getattr(old, section.name), getattr(new, section.name)
        fresh = {
            field.name: getattr(after, field.name)
            for field in structs.fields(type(before))
            if f"{section.name}.{field.name}" in RELOADABLE
        }
        sections[section.name] = structs.replace(before, **fresh)
    return structs.replace(old, **sections)
