"""Facts about a run's own work that are one event each: compactions, draft checkpoints, sandbox probes (DESIGN 6)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from counterfoil.abc.sandbox import Probed, SandboxProbe
from counterfoil.core import canonical
from counterfoil.core.forms import is_label
from counterfoil.core.keyed import ROOT_NODE
from counterfoil.core.values import comparable, from_json, to_json
from counterfoil.errors import InvalidForm
from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Call, CallResult, Flow, HeadOf, Raised, Read, Returned
from counterfoil.runtime.events import Said
from counterfoil.runtime.once import Noted, once_flow
from counterfoil.runtime.outcome import is_result
from counterfoil.runtime.recording import error_label, shown_name
from counterfoil.runtime.spec import check_text
from counterfoil.runtime.trees import last_tip
from counterfoil.store.unit import Head

CompactionCause = Literal["size", "request", "policy"]

CAPABILITIES_MAX: Final = 64
"""Labels a header may list (FORMAT 1)."""


# ---- compaction ----------------------------------------------------------------------------------------------------


class Compaction(Struct, frozen=True):
    """A stretch of the conversation that a summary stands for from here on; ``sequence`` is where that was recorded.

    ``tip_before`` is the node of the last request before it, ``tip_after`` that of the messages that go on, if they were
    given: a branch of their own (FORMAT 9).
    """

    sequence: int
    from_sequence: int
    to_sequence: int
    cause: CompactionCause
    summary: Any
    tip_before: str | None = None
    tip_after: str | None = None


def compact_flow(
    scope: RunScope,
    from_sequence: int,
    to_sequence: int,
    summary: Any,
    cause: CompactionCause,
    messages: Sequence[Any] | str | None,
) -> Flow[Compaction]:
    """Record that ``summary`` stands for the events from ``from_sequence`` to ``to_sequence``, both included.

    Raises ``InvalidForm`` for a range that the conversation does not hold (case X6): nothing is recorded.
    """
    if cause not in get_args(CompactionCause):
        raise InvalidForm(f"cause is one of {', '.join(get_args(CompactionCause))}", argument="cause")
    for name, value in (("from_sequence", from_sequence), ("to_sequence", to_sequence)):
        if type(value) is not int or value < 1:
            raise InvalidForm(f"{name} is a sequence: 1 or more", argument=name)
    if from_sequence > to_sequence:
        raise InvalidForm(
            f"the range ends before it begins: {from_sequence} to {to_sequence}", argument="to_sequence"
        )
    given = to_json(summary, "summary")
    if given is None:
        raise InvalidForm("a compaction has a summary", argument="summary")
    tip_after = None if messages is None else _tip_of(scope, messages)
    told = canonical.encode([from_sequence, to_sequence, cause, comparable(given), tip_after or ""])

    def make() -> Flow[Said]:
        head: Head = yield Read(HeadOf(scope.stream_id))
        if to_sequence > head.sequence:
            raise InvalidForm(
                f"the conversation has {head.sequence} events, and the range ends at {to_sequence}",
                hint="a compaction names events that are recorded",
                argument="to_sequence",
            )
        tips = {"tip_before": (yield from last_tip(scope)), "tip_after": tip_after}
        data: dict[str, Any] = {
            "from_sequence": from_sequence,
            "to_sequence": to_sequence,
            "cause": cause,
        }
        data |= {name: tip for name, tip in tips.items() if tip is not None}
        return Said("compaction.recorded", data, {"summary": given})

    noted = yield from once_flow(scope, "compaction", "compaction", told, make)
    kept = from_json(noted.content["summary"])
    tip_before = noted.data.get("tip_before")
    return Compaction(noted.sequence, from_sequence, to_sequence, cause, kept, tip_before, tip_after)


def _tip_of(scope: RunScope, messages: Sequence[Any] | str) -> str:
    """The node of the context tree to which a request with exactly these messages leads (FORMAT 9)."""
    from counterfoil.runtime.model import request_body
    from counterfoil.runtime.question import spoken_messages

    material = scope.ports.material(scope.stream_id)
    node = ROOT_NODE
    for body in request_body("", spoken_messages(messages), (), {}).cut.bodies:
        node = material.node(node, body)
    return node.hex()


# ---- drafts --------------------------------------------------------------------------------------------------------


class DraftCheckpoint(Struct, frozen=True):
    """How far a draft had come: SHA-256 and size in bytes of what there was, in how many chunks. Never the draft."""

    sequence: int
    chunks: int
    sha256: str
    size: int


def checkpoint_flow(scope: RunScope, draft: str | bytes, chunks: int, name: str) -> Flow[DraftCheckpoint]:
    """Record how far a draft has come, by hash and size (ADR 0175); text counts as UTF-8.

    The tag in the open tells equal drafts of a conversation, and nothing else about them.
    """
    check_text("name", name or "")
    if not isinstance(draft, str | bytes):
        raise InvalidForm(f"a draft is text or bytes, not {type(draft).__name__}", argument="draft")
    if type(chunks) is not int or chunks < 0:
        raise InvalidForm("chunks is a count: 0 or more", argument="chunks")
    raw = draft.encode("utf-8", "surrogatepass") if isinstance(draft, str) else draft
    sha256 = hashlib.sha256(raw).hexdigest()
    tag = scope.ports.material(scope.stream_id).tag("draft", [], raw)

    def make() -> Flow[Said]:
        yield from ()
        content = {"name": name, "sha256": sha256, "size": len(raw)}
        return Said("draft.checkpointed", {"draft": tag, "chunks": chunks}, content)

    told = canonical.encode([sha256, len(raw), chunks])
    noted = yield from once_flow(scope, "draft", name, told, make)
    return DraftCheckpoint(noted.sequence, chunks, sha256, len(raw))


# ---- sandbox -------------------------------------------------------------------------------------------------------


def probe_flow(scope: RunScope, probe: SandboxProbe, sandbox: str) -> Flow[Probed]:
    """Ask the host about a sandbox, once: what it said is recorded and handed out again."""
    check_text("sandbox", sandbox or "")

    def make() -> Flow[Said]:
        answer: CallResult = yield Call("sandbox probe", probe.probe, (sandbox,))
        found = _answered(answer)
        shown = shown_name(scope, sandbox)
        data = {"sandbox": shown, "ok": found.ok, "capabilities": list(found.capabilities)}
        hidden = {} if shown == sandbox else {"name": sandbox}
        return Said("sandbox.probed", data, {"output": to_json(dict(found.output), "output"), **hidden})

    noted: Noted = yield from once_flow(scope, "sandbox", sandbox, canonical.encode(sandbox), make)
    return Probed(noted.data["ok"], tuple(noted.data["capabilities"]), from_json(noted.content["output"]))


def _answered(answer: CallResult) -> Probed:
    if isinstance(answer, Returned):
        return _checked(answer.value)
    assert isinstance(answer, Raised), "a probe has no deadline of its own"
    if not is_result(answer.error):
        raise answer.error
    return Probed(ok=False, output={"error": error_label(answer.error)})


def _checked(found: Any) -> Probed:
    if not isinstance(found, Probed) or type(found.ok) is not bool:
        raise InvalidForm(
            f"a sandbox probe answers with Probed, not {type(found).__name__}", argument="sandbox"
        )
    labels: Sequence[str] = found.capabilities
    if len(labels) > CAPABILITIES_MAX or not all(is_label(label) for label in labels):
        raise InvalidForm(
            f"capabilities are labels, {CAPABILITIES_MAX} at most: 1 to 128 of A-Za-z0-9_.:/+-",
            argument="sandbox",
        )
    return found
