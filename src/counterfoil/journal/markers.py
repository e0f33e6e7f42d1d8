"""Telling a tool's own result from an answer that the platform gave in its place (seed 000)."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from counterfoil.errors import InvalidForm

MarkerKind = Literal[
    "guard",
    "dispatch_gate",
    "hook",
    "argument_policy",
    "circuit_breaker",
    "output_withheld",
    "tool_budget",
    "approval_parked",
]
"""Who answered in place of the tool."""

PARKED: Final = "approval_parked"
TEXTS_MAX: Final = 4096
"""Registered texts kept; beyond it the oldest is forgotten and its wording decides."""

WRAPPED_CHARACTERS_MAX: Final = 64 * 1024
WRAPPED_NODES_MAX: Final = 64
"""How much of a wrapped answer is looked at."""

WORDINGS: Final[Mapping[str, MarkerKind]] = {
    "Blocked by guard": "guard",
    "Blocked by gate": "dispatch_gate",
    "Blocked by hook": "hook",
    "Arguments refused": "argument_policy",
    "Circuit breaker open": "circuit_breaker",
    "Output withheld": "output_withheld",
    "Tool budget exhausted": "tool_budget",
    "Waiting for approval": "approval_parked",
}
"""How the answer of a producer begins that did not register it."""


class Marker(Struct, frozen=True):
    """The platform answered. ``request`` is the approval that a parked call waits for, if it was named."""

    kind: MarkerKind
    request: str | None = None


class ResultMarkers:
    """The texts with which the platform answers in place of a tool, each with its kind. Thread-safe.

    The layer that answers registers its exact text, so that a configured wording is recognised too, and one that
    somebody wrapped in JSON. A text that nobody registered is judged by how it begins.
    """

    def __init__(self, wordings: Mapping[str, MarkerKind] = WORDINGS) -> None:
        self._texts: OrderedDict[str, Marker] = OrderedDict()
        self._wordings = dict(wordings)
        self._lock = threading.Lock()

    def register(self, text: str, kind: MarkerKind, *, request: str | None = None) -> str:
        """Say that this exact text is the platform's; returns the text, to be handed out. Raises InvalidForm."""
        if kind not in get_args(MarkerKind):
            raise InvalidForm(f"a marker is one of {', '.join(get_args(MarkerKind))}", argument="kind")
        if not text.strip():
            raise InvalidForm("an empty text marks nothing", argument="text")
        with self._lock:
            self._texts.pop(text, None)
            self._texts[text] = Marker(kind, request)
            while len(self._texts) > TEXTS_MAX:
                self._texts.popitem(last=False)
        return text

    def find(self, result: Any) -> Marker | None:
        """What the platform says in this result; None when it is the tool's own."""
        texts = list(_texts(result))
        for text in texts:
            found = self._texts.get(text)
            if found is not None:
                return found
        for text in texts:
            for beginning, kind in self._wordings.items():
                if text.startswith(beginning):
                    return Marker(kind)
        return None


def _texts(result: Any) -> Iterator[str]:
    """The texts in a result: itself, or those inside the JSON that wraps it; a bounded number."""
    left: list[Any] = [result]
    seen = 0
    while left and seen < WRAPPED_NODES_MAX:
        seen += 1
        node = left.pop(0)
        match node:
            case str():
                yield node
                if node[:1] in ("{", "[") and len(node) <= WRAPPED_CHARACTERS_MAX:
                    left.append(_parsed(node))
            case Mapping():
                left += list(node.values())[:WRAPPED_NODES_MAX]
            case Sequence() if not isinstance(node, bytes | bytearray | memoryview):
                left += list(node[:WRAPPED_NODES_MAX])
            case _:
                text = getattr(node, "text", None)
                if isinstance(text, str):
                    yield text


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
