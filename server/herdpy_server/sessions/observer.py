"""What is called for every statement that has ended: a server's statistics and its slow-statement log.

A hook of ``session``. It is called in the engine's turn: it must be brief and raise nothing.
"""

from __future__ import annotations

from collections.abc import Callable

Observer = Callable[[str, float, int, BaseException | None], object]
"""Called with a statement's text, the seconds from its beginning to its answer (waiting for locks and the
log included), its rows (returned or changed; -1: neither), and its error if it failed."""
