"""The same tests on compiled modules: what seeds a bug by patching them is skipped, as they do not see it."""

from __future__ import annotations

import importlib.machinery
import sys
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from herdpy import compiled

_set = pytest.MonkeyPatch.setattr
_patch_object: Any = mock.patch.object
_NO_WEAK = "cannot create weak reference to"
_SUFFIXES = tuple(importlib.machinery.EXTENSION_SUFFIXES)


def refuse_patches_of_binaries() -> None:
    """From now on a test that patches a compiled class or module is skipped, where modules are compiled."""
    if compiled.IMPLEMENTATION == "compiled":
        pytest.MonkeyPatch.setattr = _set_or_skip  # type: ignore[method-assign]
        mock.patch.object = _patch_or_skip  # type: ignore[assignment]


def _set_or_skip(patch: pytest.MonkeyPatch, target: Any, *args: Any, **options: Any) -> None:
    _skip_if_compiled(target.rpartition(".")[0] if isinstance(target, str) else _owner(target))
    _set(patch, target, *args, **options)


def _patch_or_skip(target: Any, *args: Any, **options: Any) -> Any:
    _skip_if_compiled(_owner(target))
    return _patch_object(target, *args, **options)


def _skip_if_compiled(owner: str) -> None:
    module = sys.modules.get(owner)
    if owner.startswith("herdpy") and str(getattr(module, "__file__", "")).endswith(_SUFFIXES):
        pytest.skip(f"patches {owner}, which is compiled")


def _owner(target: Any) -> str:
    if isinstance(target, ModuleType):
        return target.__name__
    of = target if isinstance(target, type) else type(target)
    return of.__module__


def skip_weak_references(error: BaseException) -> None:
    """Skip a test that refers weakly to an object of a compiled class, to see it go."""
    if compiled.IMPLEMENTATION == "compiled" and isinstance(error, TypeError) and _NO_WEAK in str(error):
        pytest.skip(str(error))
