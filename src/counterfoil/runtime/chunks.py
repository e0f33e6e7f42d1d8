"""What a model has streamed so far: handed on as it comes, kept for the record, and put together at the end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from counterfoil.core import canonical
from counterfoil.core.values import from_json, to_json
from counterfoil.errors import InputError
from counterfoil.runtime.model import Response, response_of

_JOINED = ("text", "content")


class Chunks:
    """The chunks of one attempt. ``count`` is how many were handed on; a :class:`Response` at the end is none of them."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._whole: Response | None = None
        self.open: bool = False
        """Whether a stream was begun at all: a model may also answer at once."""

    @property
    def count(self) -> int:
        """How many chunks came."""
        return len(self._items)

    def take(self, chunk: Any) -> bool:
        """Keep a chunk: text, or a mapping with what is new. Whether it is to be handed on.

        A Response says the whole and is the last thing of a stream. Raises InputError for anything else.
        """
        if self._whole is not None:
            raise InputError("a model streamed on after its whole Response", hint="yield the Response last")
        if isinstance(chunk, Response):
            self._whole = chunk
            return False
        if not isinstance(chunk, str | Mapping):
            raise InputError(
                f"a model streamed {type(chunk).__name__}",
                hint="yield text, dicts with what is new, and perhaps a counterfoil.Response at the end",
            )
        # In its JSON form: what cannot be recorded is refused before anybody has seen it.
        self._items.append(chunk if isinstance(chunk, str) else to_json(dict(chunk), "chunk"))
        return True

    @property
    def text(self) -> str:
        """The text so far."""
        return _joined(self._items)

    def response(self) -> Response:
        """The whole response: the Response that ended the stream, else what the chunks come to.

        Text is joined and tool calls are listed one after the other; of every other member the last word counts.
        """
        if self._whole is not None:
            return self._whole if self._whole.text else replace(self._whole, text=self.text)
        members: dict[str, Any] = {}
        calls: list[Any] = []
        for item in self._items:
            if isinstance(item, str):
                continue
            given = from_json(item)
            calls += given.get("tool_calls") or ()
            members |= {
                name: value
                for name, value in given.items()
                if name not in {*_JOINED, "tool_calls"} and value is not None
            }
        return response_of({**members, "text": self.text, "tool_calls": calls})

    # ---- on record ----

    def form(self, text: str) -> list[Any]:
        """How they are recorded beside the whole text: each as its length where they make it up, else as it is."""
        return _form(list(self._items), text)

    def partial(self) -> dict[str, Any]:
        """What came of a response that did not end: its text, where that was cut, and SHA-256 of the chunks' JSON."""
        # A copy: a thread that nobody waits for any more may still add to it.
        items = list(self._items)
        text = _joined(items)
        return {
            "text": text,
            "chunks": _form(items, text),
            "sha256": hashlib.sha256(canonical.encode(items)).hexdigest(),
        }


def _form(items: list[Any], text: str) -> list[Any]:
    if _is_unicode(text) and all(isinstance(item, str) for item in items) and text == _joined(items):
        return [len(item) for item in items]
    return items


def _joined(items: list[Any]) -> str:
    return "".join([_text_of(item) for item in items])


def _text_of(item: Any) -> str:
    if isinstance(item, str):
        return item
    return next((item[name] for name in _JOINED if isinstance(item.get(name), str)), "")


def _is_unicode(text: str) -> bool:
    """Half characters would be joined in the record, and lengths would no longer fit."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") == text


def recorded_chunks(text: str, form: Any) -> Iterator[Any]:
    """The chunks as they came, from the record. Without a form the text comes in one."""
    if not isinstance(form, list):
        if text:
            yield text
        return
    at = 0
    for item in form:
        if isinstance(item, int):
            yield text[at : at + item]
            at += item
        else:
            yield item if isinstance(item, str) else from_json(item)
