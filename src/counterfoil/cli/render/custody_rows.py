"""Rows of what is done to conversations and to the ledger: access, keys, levers, retention, erasure, seals, moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from counterfoil.cli.render.beside_rows import present, when
from counterfoil.cli.render.building import Build
from counterfoil.cli.render.content import Content
from counterfoil.cli.render.line import Span, Style
from counterfoil.cli.render.marks import marked
from counterfoil.cli.render.times import count, plural
from counterfoil.cli.render.values import shown
from counterfoil.flow.event import Event

_HEX: Final = 12


def _by(content: Content) -> Span | None:
    """Who did it, where it is said."""
    by = content.get("by")
    name = by.get("name") if isinstance(by, Mapping) else None
    return None if name is None else Span(f"by {shown(name)}")


def _label(event: Event, name: str) -> str:
    return marked(str(event.data.get(name, ""))).replace("_", " ")


# ---- who sees what ---------------------------------------------------------------------------------------------------


def _access(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    note = build.note(event, "◉", "access", style="plain" if data["allowed"] else "failure")
    what = data.get("event_id") or data.get("stream_id") or "all conversations"
    note.detail = present(
        Span(f"{_label(event, 'action')} {what}"),
        Span(f"up to class {data['class']}" if "class" in data else ""),
        _by(content),
        content.span("purpose", style="quiet"),
        Span(f"rule {_label(event, 'rule')}", "quiet"),
    )
    note.outcome = Span("✓ allowed", "good") if data["allowed"] else Span("⊘ refused", "failure")


def _glass(build: Build, event: Event) -> None:
    content = Content(event)
    note = build.note(event, "◉", "glass opened", style="wait")
    note.detail = present(
        Span(f"may read beyond their roles until {when(event.data['until'])}", "wait"),
        _by(content),
        content.span("reason"),
        Span(f"rule {_label(event, 'rule')}", "quiet"),
    )


def _subject(build: Build, event: Event) -> None:
    content = Content(event)
    linked = event.type == "subject.linked"
    note = build.note(event, "⚇", "person linked" if linked else "person unlinked")
    role = {"about": "whom it is about", "author": "who wrote it", "third_party": "somebody else in it"}
    note.detail = present(
        content.span("subject", style="strong"),
        Span(role[event.data["role"]]),
        Span(f"key {event.data['key']}", "quiet"),
    )


# ---- levers, tools ---------------------------------------------------------------------------------------------------


def _lever(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    held = event.type == "lever.held"
    note = build.note(
        event, "■" if held else "▶", "stop" if held else "go on", style="wait" if held else "plain"
    )
    scope = {"tool": f"tool {_label(event, 'tool')}", "tenant": "all tools of the tenant", "all": "all tools"}
    words = (
        f"no call of {scope[data['scope']]} is made"
        if held
        else f"{scope[data['scope']]} may be called again"
    )
    note.detail = present(Span(words, note.style), _by(content), content.span("reason"))


_DOUBT: Final[Mapping[str, str]] = {
    "lookup": "by lookup",
    "lookup_then_key": "by lookup, then by its key",
    "key": "by its key",
    "repeat": "by repeating",
    "review": "by a person",
}


def _tool(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    note = build.note(event, "⚙", "tool declared")
    note.detail = present(
        Span(f"{marked(str(data['tool']))} {marked(str(data['tool_version']))}", "strong"),
        Span(f"in doubt {_DOUBT[data['doubt']]}"),
        content.span("description", style="quiet"),
    )
    note.fold = event.type


# ---- retention, erasure, holds ---------------------------------------------------------------------------------------


def _ruled(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    note = build.note(event, "⧗", "retention")
    types = ", ".join(marked(name) for name in data["types"]) or "all types"
    note.detail = present(
        Span(_label(event, "rule"), "strong"),
        Span(f"content of {types} goes after {plural(data['after_days'], 'day')}"),
        Span(f"kept {plural(data['floor_days'], 'day')} at least"),
        Span(f"class {data['class']}" if "class" in data else ""),
        content.span("text", style="quiet"),
    )


def _applied(build: Build, event: Event) -> None:
    data = event.data
    note = build.note(event, "⧗", "retention")
    note.detail = [
        Span(_label(event, "rule"), "strong"),
        Span(
            f"{plural(data['contents'], 'content')} and {plural(data['objects'], 'artifact')} went,"
            f" in {plural(data['streams'], 'conversation')}"
        ),
    ]


_ERASURE: Final[Mapping[str, tuple[str, str, Style]]] = {
    "deletion.requested": ("░", "asked for", "wait"),
    "deletion.started": ("░", "begun", "wait"),
    "deletion.refused": ("⊘", "refused", "failure"),
}
_REFUSED: Final[Mapping[str, str]] = {
    "hold": "a hold forbids it",
    "floor": "it has to be kept for longer",
    "doubt": "an effect is in doubt",
    "live": "a run is under way",
}


def _erasure(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    glyph, words, style = _ERASURE[event.type]
    note = build.note(event, glyph, "erasure", style="failure" if style == "failure" else "plain")
    scope = {"subject": "a person", "stream": "a conversation", "artifact": "an artifact"}[data["scope"]]
    note.detail = present(
        Span(f"of {scope}, {_ground(event)}"),
        Span(_REFUSED[data["cause"]], style) if "cause" in data else None,
        Span(str(data.get("hold_id", "")), "quiet"),
        _by(content) or content.gone,
        Span(str(data["deletion_id"]), "quiet"),
    )
    note.outcome = Span(f"{glyph} {words}", style)


def _ground(event: Event) -> str:
    grounds = {"request": "on request", "retention": "by retention", "operator": "by the operator"}
    return grounds[event.data["ground"]]


def _erased(build: Build, event: Event) -> None:
    data = event.data
    note = build.note(event, "░", "erasure")
    went = f"{plural(data['contents'], 'content')} and {plural(data['objects'], 'artifact')}"
    note.detail = [
        Span(f"{went}, {_ground(event)}"),
        Span(f"certificate {data['certificate']}", "quiet"),
    ]
    if data["copies"] == "not_covered":
        note.below = [Span("! copies elsewhere are not covered by it", "failure")]
    note.outcome = Span("░ erased", "strong")


def _purged(build: Build, event: Event) -> None:
    data = event.data
    note = build.note(event, "▒", "purged", style="strong")
    note.detail = present(
        Span(f"{data['stream_id']} is gone with its {plural(data['final_sequence'], 'event')}"),
        Span(f"rule {_label(event, 'rule')}" if "rule" in data else "", "quiet"),
        Span(f"last hash {str(data['final_hash'])[:_HEX]}…", "quiet"),
    )


def _hold(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    placed = event.type == "hold.placed"
    note = build.note(event, "▮" if placed else "▯", "hold placed" if placed else "hold released")
    scope = {"subject": "a person", "stream": "a conversation", "tenant": "all of the tenant"}[data["scope"]]
    note.detail = present(
        Span(f"nothing of {scope} may be erased" if placed else f"{scope} may be erased again"),
        content.span("matter"),
        Span(str(data.get("stream_id", "")), "quiet"),
        Span(str(data["hold_id"]), "quiet"),
    )


# ---- keys, seals -----------------------------------------------------------------------------------------------------


def _rotated(build: Build, event: Event) -> None:
    data = event.data
    note = build.note(event, "⚿", "keys rotated")
    note.detail = [
        Span(f"epoch {data['epoch_from']} → {data['epoch_to']}", "strong"),
        Span(f"{plural(data['keys'], 'key')} wrapped again"),
    ]


def _keys_lost(build: Build, event: Event) -> None:
    content = Content(event)
    note = build.note(event, "✗", "keys lost", style="failure")
    note.detail = present(
        Span(f"{plural(event.data['keys'], 'key')}: what lies under them cannot be opened", "failure"),
        content.span("circumstances"),
    )


def _seal(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    failed = event.type == "seal.failed"
    note = build.note(event, "✗" if failed else "◈", "seal", style="failure" if failed else "plain")
    cause = {
        "behind_anchor": "the ledger is behind its anchor",
        "anchor": "the anchor did not take it",
        "witness": "a witness did not sign it",
        "key": "its key was not at hand",
    }.get(data.get("cause", ""), "")
    note.detail = present(
        Span(cause, "failure" if failed else "plain"),
        Span(f"of {plural(data['size'], 'leaf', 'leaves')}"),
        Span(f"grade {data['grade']}" if "grade" in data else ""),
        Span(f"root {str(data['root'])[:_HEX]}…" if "root" in data else "", "quiet"),
        content.span("detail", style="quiet"),
    )
    note.outcome = Span("✗ failed", "failure") if failed else Span("✓ published", "good")


# ---- where it lies ---------------------------------------------------------------------------------------------------


def _adopted(build: Build, event: Event) -> None:
    data = event.data
    note = build.note(event, "⇣", "adopted", style="strong")
    note.detail = [
        Span(f"came from ledger {data['from_ledger']} at event {count(data['at_sequence'])}"),
        Span(f"tenant {_label(event, 'tenant')}", "quiet"),
    ]


def _moved(build: Build, event: Event) -> None:
    content = Content(event)
    note = build.note(event, "⇢", "ledger moved", style="wait")
    note.detail = present(
        Span("nothing is recorded here any more", "wait"),
        content.span("where"),
        Span(f"as {event.data['to_ledger']}", "quiet"),
    )


def _restored(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    note = build.note(event, "!", "restored", style="failure")
    note.detail = present(
        Span(f"what was recorded after {when(data['taken_at'])} is lost", "failure"),
        Span(f"{plural(data['streams'], 'conversation')}, {plural(data['events'], 'event')} came back"),
        Span(f"effects are looked up until {when(data['look_back_until'])}", "wait"),
        _by(content),
        content.span("reason"),
    )


def _baseline(build: Build, event: Event) -> None:
    data = event.data
    note = build.note(event, "⚑", "taken over")
    note.detail = present(
        Span(
            f"{plural(data['messages'], 'message')} and {plural(data['runs'], 'run')} of schema {data['schema_from']}"
        ),
        Span(f"as of {when(data['as_of'])}", "quiet"),
        Content(event).gone,
    )


def _archive(build: Build, event: Event) -> None:
    content, data = Content(event), event.data
    out = event.type == "archive.exported"
    note = build.note(event, "⇡" if out else "⇣", "exported" if out else "imported")
    keys = {
        "none": "without keys",
        "epoch": "keys under the epoch",
        "passphrase": "keys under a passphrase",
        "recipient": "keys for a recipient",
    }[data["keys"]]
    note.detail = present(
        Span(f"{data['stream_id']} up to event {count(data['up_to_sequence'])}"),
        Span(keys),
        content.span("other_party"),
        Span(f"archive {str(data['archive'])[:_HEX]}…", "quiet"),
    )


HANDLERS: Final[Mapping[str, Callable[[Build, Event], None]]] = {
    "access.decided": _access,
    "access.glass_opened": _glass,
    "subject.linked": _subject,
    "subject.unlinked": _subject,
    "lever.held": _lever,
    "lever.released": _lever,
    "tool.declared": _tool,
    "retention.ruled": _ruled,
    "retention.applied": _applied,
    **dict.fromkeys(_ERASURE, _erasure),
    "deletion.completed": _erased,
    "stream.purged": _purged,
    "hold.placed": _hold,
    "hold.released": _hold,
    "keys.rotated": _rotated,
    "keys.lost": _keys_lost,
    "seal.published": _seal,
    "seal.failed": _seal,
    "stream.adopted": _adopted,
    "ledger.moved": _moved,
    "ledger.restored": _restored,
    "runtime.baseline": _baseline,
    "archive.exported": _archive,
    "archive.imported": _archive,
}
