"""Recorded requests for people: what one was made of, and what each shares with the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from counterfoil.cli.render.content import LOOKS
from counterfoil.cli.render.exact import written
from counterfoil.cli.render.line import Line, Span, cut
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.table import Column, table
from counterfoil.cli.render.times import count, moment, plural
from counterfoil.core.canonical import decode
from counterfoil.errors import CounterfoilError
from counterfoil.runtime.rebuild import RecordedRequest

MESSAGES: Final = ("messages", "input", "contents")
"""Members under which providers take the messages of a request."""

ADDRESS_SHOWN: Final = 12


def request_lines(found: RecordedRequest, width: int, *, full: bool) -> Iterator[Line]:
    """One request: where it stands, what it is made of, its messages, and whether its bytes could be made again."""
    event = found.event
    data = event.data
    attempt = event.header.attempt or 1
    yield Line(
        Span(f"Request of {event.header.step_id or event.event_id}", "strong"),
        f"  attempt {attempt}, event {event.sequence} of {event.stream_id}",
    )
    yield Line("  ", moment(event.recorded_at_ms), f"  {marked(str(data.get('model', '?')))}", _purpose(data))
    yield from _standing(found)
    yield Line()
    yield from _segments(found)
    if found.slots:
        slots = ", ".join(f"{marked(str(name))} v{version}" for name, version in found.slots.items())
        yield Line("  state  ", slots)
    if found.body is not None:
        yield Line()
        yield from _content(found.body, width, full=full)


def _purpose(data: Mapping[str, Any]) -> Span:
    purpose = str(data.get("purpose", "primary"))
    return Span("" if purpose == "primary" else f"  {purpose.replace('_', ' ')}", "quiet")


def _standing(found: RecordedRequest) -> Iterator[Line]:
    if found.body is None:
        yield Line(Span("✗ the bytes as sent cannot be shown", "failure"))
        for gone in found.gone:
            word, style = LOOKS.get(gone.state, ("✗ damaged", "failure"))  # type: ignore[call-overload]  # states from the record
            yield Line(f"  event {gone.sequence}: ", Span(word, style), f"  {marked(gone.reason)}")
        return
    yield Line(Span("✓", "good"), f" {plural(len(found.body), 'byte')} as sent, made again and checked")
    if found.shared_bytes is not None:
        part = 100 * found.shared_bytes // max(1, len(found.body))
        yield Line(
            f"  begins with {plural(found.shared_messages, 'message')} and {plural(found.shared_bytes, 'byte')}"
            f" of the request before ({part} %)"
        )


def _segments(found: RecordedRequest) -> Iterator[Line]:
    yield Line(Span("made of", "strong"))
    for part in found.parts:
        if "raw" in part:
            yield Line("  raw    ", plural(_size(str(part["raw"])), "byte"))
        elif "body" in part:
            yield Line("  body   ", Span(str(part["body"])[:ADDRESS_SHOWN], "quiet"), "…")
        elif "path" in part:
            yield Line(
                "  path   ",
                Span(str(part["path"])[:ADDRESS_SHOWN], "quiet"),
                "… ",
                plural(len(found.path), "message"),
            )


def _content(body: bytes, width: int, *, full: bool) -> Iterator[Line]:
    try:
        request = decode(body)
    except CounterfoilError:
        yield from (Line("  ", marked(line)) for line in body.decode("utf-8", "replace").split("\n"))
        return
    if full or not isinstance(request, dict):
        yield from (Line("  ", line) for line in written(request))
        return
    name = next((name for name in MESSAGES if isinstance(request.get(name), list)), None)
    if name is not None:
        rows = [_message(number, message, width) for number, message in enumerate(request.pop(name), 1)]
        yield from table(
            (Column("#", "right"), Column("role"), Column("bytes", "right"), Column("says")), rows, width
        )
    for member, value in request.items():
        text = " ".join(" ".join(written(value)).split())
        yield Line("  ", Span(marked(member), "quiet"), " ", cut(text, max(8, width - len(member) - 4)))


def _message(number: int, message: Any, width: int) -> list[Line]:
    role = message.get("role", "") if isinstance(message, dict) else ""
    said = message.get("content", message) if isinstance(message, dict) else message
    text = said if isinstance(said, str) else " ".join(" ".join(written(said)).split())
    size = _size(said if isinstance(said, str) else "".join(written(message)))
    return [
        Line(count(number)),
        Line(Span(marked(str(role)), "strong")),
        Line(count(size)),
        Line(cut(marked(" ".join(text.split())), max(8, width - 30))),
    ]


def _size(text: str) -> int:
    """Bytes of a text. Half a surrogate pair has no UTF-8, and may stand in a message all the same."""
    return len(text.encode(errors="surrogatepass"))


def requests_lines(found: Sequence[RecordedRequest], width: int) -> list[Line]:
    """Requests in order with what each begins with of the one before: what a provider's prompt cache can use."""
    columns = (
        Column("event", "right"),
        Column("step"),
        Column("try", "right", yields=5),
        Column("model", yields=4, shrinks=True),
        Column("messages", "right"),
        Column("bytes", "right"),
        Column("shared messages", "right", yields=3),
        Column("shared bytes", "right"),
        Column("shared", "right"),
    )
    return table(columns, [_row(one) for one in found], width)


def _row(one: RecordedRequest) -> list[Line]:
    event = one.event
    size = Line(count(len(one.body))) if one.body is not None else _gone(one)
    shared = one.shared_bytes
    part = "" if shared is None or one.body is None else f"{100 * shared // max(1, len(one.body))} %"
    return [
        Line(count(event.sequence)),
        Line(event.header.step_id or ""),
        Line(count(event.header.attempt or 1)),
        Line(marked(str(event.data.get("model", "?")))),
        Line(count(len(one.path))),
        size,
        Line(count(one.shared_messages)),
        Line("" if shared is None else count(shared)),
        Line(part),
    ]


def _gone(one: RecordedRequest) -> Line:
    state = one.gone[0].state if one.gone else "damaged"
    word, style = LOOKS.get(state, ("✗ damaged", "failure"))  # type: ignore[call-overload]  # states from the record
    return Line(Span(word, style))


def request_json(found: RecordedRequest, *, body: bool = True) -> dict[str, Any]:
    """One request for programs; ``body`` is text, null where it cannot be made again."""
    event = found.event
    told: dict[str, Any] = {
        "stream_id": event.stream_id,
        "sequence": event.sequence,
        "event_id": event.event_id,
        "run_id": event.header.run_id,
        "step_id": event.header.step_id,
        "attempt": event.header.attempt,
        **{
            name: event.data.get(name)
            for name in ("call_id", "provider", "model", "purpose", "tip", "request")
        },
        "messages": len(found.path),
        "bytes": None if found.body is None else len(found.body),
        "exact": found.exact,
        "shared_messages": found.shared_messages,
        "shared_bytes": found.shared_bytes,
        "gone": [gone._asdict() for gone in found.gone],
    }
    if body:
        told |= {
            "state": dict(found.slots),
            "segments": [dict(part) for part in found.parts],
            "body": None if found.body is None else found.body.decode(),
        }
    return told
