"""The events of the runtime as typed constructors: what is public, what is content (FORMAT 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

from msgspec import Struct, field

from counterfoil.core.context import Exact
from counterfoil.core.event import Draft, Part
from counterfoil.core.event_types import DEFAULT_CLASS
from counterfoil.core.forms import time_text
from counterfoil.core.keyed import KeyMaterial

WhileRunning = Literal["queue", "absorb", "supersede", "reject"]
WhileSuspended = Literal["start", "queue", "reject"]
WaitCause = Literal["approval", "review", "effect", "schedule", "child", "input"]
ClaimCause = Literal["resume", "takeover", "recovery"]
DeferCause = Literal["live_run", "until", "approval", "operator"]
Origin = Literal["live", "import", "child"]

CONVERSATION_SCOPE = "conversation"
TENANT_SCOPE = "tenant"


class Said(Struct, frozen=True):
    """An event before it has an id and a time: type, public fields and content."""

    type: str
    data: Mapping[str, Any]
    content: Mapping[str, Any] = field(default_factory=dict)
    key: KeyMaterial | None = None
    """With a key the content is sealed under it, as part 1, and part 0 only points there (FORMAT 6)."""
    klass: str | None = None
    """The class of the content; None is the type's default."""

    def draft(
        self,
        event_id: str,
        now_ms: int,
        actor: Mapping[str, str],
        *,
        run_id: str | None = None,
        step_id: str | None = None,
        attempt: int | None = None,
        causation_event_id: str | None = None,
    ) -> Draft:
        """The draft of this event."""
        return Draft(
            event_id=event_id,
            event_type=self.type,
            occurred_at=time_text(now_ms),
            actor=actor,
            data=self.data,
            parts=self._parts(),
            run_id=run_id,
            step_id=step_id,
            attempt=attempt,
            causation_event_id=causation_event_id,
        )

    def _parts(self) -> tuple[Part, ...]:
        if not self.content:
            return ()
        klass = None if self.klass == DEFAULT_CLASS else self.klass
        if self.key is None:
            return (Part(self.content, klass=klass),)
        return (Part({"about": {"$part": 1}}, klass=klass), Part(self.content, self.key, klass))


_WAIT_CAUSES: Final[Mapping[str, WaitCause]] = {cause: cause for cause in get_args(WaitCause)}


def wait_cause(text: str | None) -> WaitCause | None:
    """A cause found in a row or given by a feature, if it is one that the header may show."""
    return None if text is None else _WAIT_CAUSES.get(text)


_DEFER_CAUSES: Final[Mapping[str, DeferCause]] = {cause: cause for cause in get_args(DeferCause)}


def defer_cause(text: str | None) -> DeferCause:
    """Why an input waits, as a row says it; rows that say nothing are of inputs that wait for the slot."""
    return "live_run" if text is None else _DEFER_CAUSES.get(text, "live_run")


def about(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The content of an event whoever's key it was sealed under (see ``Said.key``)."""
    inner = content.get("about")
    return inner if isinstance(inner, Mapping) else content


# ---- conversation ------------------------------------------------------------------------------------------------


def conversation_opened(
    agent: str,
    while_running: WhileRunning,
    while_suspended: WhileSuspended,
    origin: Origin,
    *,
    name: str | None,
    title: str | None = None,
    above: Mapping[str, str] | None = None,
) -> Said:
    """The first event of a conversation; ``above`` names the one that it comes from."""
    data = {
        "agent": agent,
        "while_running": while_running,
        "while_suspended": while_suspended,
        "origin": origin,
        **(above or {}),
    }
    return Said("conversation.opened", data, _present(name=name, title=title))


def subject_linked(key: KeyMaterial, subject: str) -> Said:
    """Whom a key belongs to; the person's id outside stands under that key."""
    return Said("subject.linked", {"key": key.key_id, "role": "about"}, {"subject": subject}, key)


# ---- approval ----------------------------------------------------------------------------------------------------


def approval_expired(approval_id: str, effect_id: str) -> Said:
    """The run that would have used it ends."""
    return Said("approval.expired", {"approval_id": approval_id, "effect_id": effect_id})


# ---- admission ---------------------------------------------------------------------------------------------------


def admission_accepted(
    admission_id: str,
    message: Any,
    dedupe: str | None,
    scope: str,
    key: KeyMaterial | None = None,
    klass: str | None = None,
) -> Said:
    """An input was taken in. ``scope`` says where its dedupe key is unique: in the conversation or the tenant."""
    content = {"message": message} | ({} if dedupe is None else {"dedupe": dedupe, "scope": scope})
    return Said("admission.accepted", {"admission_id": admission_id}, content, key, klass)


def admission_deferred(admission_id: str, cause: DeferCause, until_ms: int | None = None) -> Said:
    """The input waits: for the conversation's slot, for a time, or for a person to let it in."""
    return Said("admission.deferred", _waiting(admission_id, cause, until_ms))


def admission_released(admission_id: str, cause: DeferCause, until_ms: int | None = None) -> Said:
    """The input no longer waits: whoever asks for its run may start it. ``cause`` is what it had waited for."""
    return Said("admission.released", _waiting(admission_id, cause, until_ms))


def _waiting(admission_id: str, cause: DeferCause, until_ms: int | None) -> dict[str, Any]:
    until = None if until_ms is None else time_text(until_ms)
    return _present(admission_id=admission_id, cause=cause, until=until)


def admission_absorbed(admission_id: str, run_id: str) -> Said:
    """The input joins a run that is under way."""
    return Said("admission.absorbed", {"admission_id": admission_id, "run_id": run_id, "cause": "policy"})


def admission_superseded(admission_id: str, run_id: str, by_admission_id: str) -> Said:
    """A newer input takes this one's place."""
    data = {
        "admission_id": admission_id,
        "run_id": run_id,
        "by_admission_id": by_admission_id,
        "cause": "policy",
    }
    return Said("admission.superseded", data)


def admission_rejected(
    admission_id: str, message: Any, dedupe: str | None, run_id: str | None, key: KeyMaterial | None = None
) -> Said:
    """The input was refused; it is kept as content so that nobody has to ask for it again."""
    # Without a run in the way it is the conversation itself that takes nothing more.
    data = {"admission_id": admission_id} | (
        {"cause": "closed"} if run_id is None else {"cause": "policy", "run_id": run_id}
    )
    return Said("admission.rejected", data, {"message": message} | _present(dedupe=dedupe), key)


# ---- run ---------------------------------------------------------------------------------------------------------


def run_started(
    agent: str,
    *,
    admission_id: str,
    agent_version: str | None,
    input_digest: str,
    configuration_digest: str,
    classification: str,
    principal: str | None,
    policy_revision: str | None,
    fencing_token: int,
    configuration: Mapping[str, Any],
    worker: Mapping[str, Any],
    rehearsal_of: str | None = None,
) -> Said:
    """A run begins; names what seed 004 asks for: admission, input, classification, versions, principal."""
    data = _present(
        admission_id=admission_id,
        agent=agent,
        agent_version=agent_version,
        input=input_digest,
        configuration=configuration_digest,
        principal=principal,
        policy_revision=policy_revision,
        fencing_token=fencing_token,
        rehearsal_of=rehearsal_of,
    )
    data["class"] = classification
    return Said("run.started", data, {"configuration": dict(configuration), "worker": dict(worker)})


def run_claimed(token: int, previous: int, cause: ClaimCause, worker: Mapping[str, Any]) -> Said:
    """Another worker, or the same one again, owns the run from here on."""
    data = {"fencing_token": token, "previous_token": previous, "cause": cause}
    return Said("run.claimed", data, dict(worker))


def run_suspended(cause: WaitCause, waits_for: Sequence[str], note: str) -> Said:
    """The run gives its slot up until what it waits for has come."""
    return Said("run.suspended", {"cause": cause, "waits_for": list(waits_for)}, _present(note=note or None))


def run_resumed(cause: WaitCause, waits_for: Sequence[str]) -> Said:
    """The run goes on."""
    return Said("run.resumed", {"cause": cause, "waits_for": list(waits_for)})


def run_finished(terminal: str, tally: Mapping[str, Any], *, output: Any = None, error: Any = None) -> Said:
    """The run ends. ``tally`` holds the counts of :class:`counterfoil.runtime.resume.Tally`."""
    return Said("run.finished", {"terminal": terminal, **tally}, _present(output=output, error=error))


# ---- step --------------------------------------------------------------------------------------------------------


def step_started(kind: str, name: str, memo: str, content: Mapping[str, Any]) -> Said:
    """A memoised unit begins."""
    return Said("step.started", {"kind": kind, "name": name, "memo": memo}, content)


def step_finished(
    kind: str, name: str, memo: str, outcome: str, duration_ms: int, content: Mapping[str, Any]
) -> Said:
    """A memoised unit ended; the next entry into the run gets this result without running it."""
    data = {"kind": kind, "name": name, "memo": memo, "outcome": outcome, "duration_ms": duration_ms}
    return Said("step.finished", data, content)


# ---- provider ----------------------------------------------------------------------------------------------------


def message_recorded(branch: Mapping[str, Any]) -> Said:
    """What a request brings to the context tree: bodies, and under which node they stand (FORMAT 9)."""
    return Said("provider.message_recorded", {"bodies": len(branch["bodies"])}, branch)


def provider_requested(
    call_id: str, provider: str, model: str, purpose: str, exact: Exact, slots: Mapping[str, int]
) -> Said:
    """The exact request, durable before it is sent (DESIGN 2.5). ``slots`` are the state slots set, with versions."""
    data = {
        "call_id": call_id,
        "provider": provider,
        "model": model,
        "purpose": purpose,
        "tip": exact.tip.hex(),
        "bodies": exact.bodies,
        "request": exact.request.hex(),
    }
    return Said(
        "provider.requested", data, {"segments": exact.segments, **({"state": dict(slots)} if slots else {})}
    )


def provider_failed(
    call_id: str,
    provider: str,
    error_class: str,
    *,
    retryable: bool,
    status: int | None,
    message: str,
    partial: Mapping[str, Any] | None = None,
    answer: Any = None,
) -> Said:
    """The attempt brought no response, or a part of one: ``partial`` is what was streamed, ``answer`` what is no response."""
    data = _present(
        call_id=call_id,
        provider=provider,
        error_class=error_class,
        status=status,
        retryable=retryable,
        chunks=None if partial is None else len(partial["chunks"]),
    )
    return Said("provider.failed", data, {"message": message, **_present(partial=partial, answer=answer)})


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
