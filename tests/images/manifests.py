"""The objects of deploy/kubernetes, as their files have them."""

from __future__ import annotations

from typing import Any

import yaml

from tools.make_manifests import MANIFESTS


def manifest_objects() -> dict[tuple[str, str], dict[str, Any]]:
    """Every object by kind and name, each there once."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path in MANIFESTS.glob("*.yaml"):
        if path.name not in {"values.yaml", "kustomization.yaml"}:
            for one in yaml.safe_load_all(path.read_text()):
                key = (one["kind"], one["metadata"]["name"])
                assert key not in found
                found[key] = one
    return found
