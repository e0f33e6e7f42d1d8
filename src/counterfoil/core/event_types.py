"""Every event type of the product: its public fields and what its content holds (FORMAT 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from counterfoil.core.fields import DataCheck, FieldForm, parse_row

CLASSES: Final = ("public", "internal", "confidential", "personal", "secret")
"""Classes of content and artifacts, from open to closed."""

TERMINALS: Final = (
    "success",
    "policy_stop",
    "provider_stop",
    "interrupted",
    "cancelled",
    "timeout",
    "shutdown",
    "superseded",
    "absorbed",
    "provider_failure",
    "runtime_failure",
    "storage_conflict",
    "output_rejected",
    "context_overflow",
)
"""The 14 ways a run ends (DESIGN 6)."""

DEFAULT_CLASS: Final = "confidential"

_TERMINAL: Final = f"{{{','.join(TERMINALS)}}}"
_CLASS: Final = f"{{{','.join(CLASSES)}}}"
_DOUBT: Final = "{lookup,lookup_then_key,key,repeat,review}"
_RUN_CAUSE: Final = "{approval,review,effect,schedule,child,input}"
_ADMISSION_END: Final = (
    "admission_id id:adm, run_id? id:run, by_admission_id? id:adm, cause {policy,closed,duplicate,limit}"
)
_DELETION: Final = (
    "deletion_id id:del, scope {subject,stream,artifact}, ground {request,retention,operator}, keys? n,"
    " cause? {hold,floor,doubt,live}, hold_id? id:hld"
)
_OBSERVATION: Final = (
    "effect_id id:eff, outcome {succeeded,rejected,failed,unknown}, source {call,lookup,callback,import},"
    " error_class? name, latency_ms? n, fencing_token? n"
)
_APPROVAL_ANSWER: Final = "approval_id id:apr, effect_id id:eff, binding h"
_SEAL: Final = "size n, root? sha, grade? {A1,A2,A3,A4}, cause? {behind_anchor,anchor,witness,key}"
_BUDGET: Final = "budget {tokens,money,calls,wall}, limit decimal, spent? decimal, currency?"
_ARCHIVE: Final = (
    "archive sha, stream_id id:str, genesis sha, up_to_sequence n, head sha, keys {none,epoch,passphrase,recipient},"
    " tenant?"
)
_HOLD: Final = "hold_id id:hld, scope {subject,stream,tenant}, stream_id? id:str"
_LEVER: Final = "scope {tool,tenant,all}, tool? name"
_ARTIFACT: Final = "size_class n, effect_id? id:eff, call_id? id:cal, permission?, principal? id:dk"

# One row for each type: name, public fields, what is expected in content. A field without a form is a label.
_ROWS: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "conversation.opened",
        "agent name, while_running {queue,absorb,supersede,reject}, while_suspended {start,queue,reject},"
        " origin {live,import,child}, parent_stream_id? id:str, parent_run_id? id:run, parent_event_id? id:evt",
        "name, title, subject, correlation id, tags, spawning call id",
    ),
    ("conversation.closed", "cause {done,continued,erased,operator}, next_stream_id? id:str", "note"),
    ("subject.linked", "key id:dk, role {about,author,third_party}", "the subject's id outside"),
    ("subject.unlinked", "key id:dk, role {about,author,third_party}", "the subject's id outside"),
    ("stream.adopted", "from_ledger id:ldg, ledger id:ldg, tenant, at_sequence n, head sha", ""),
    ("admission.accepted", "admission_id id:adm", "message, dedupe key, source ids"),
    ("admission.deferred", "admission_id id:adm, cause {live_run,until,approval,operator}, until? time", ""),
    ("admission.released", "admission_id id:adm, cause {live_run,until,approval,operator}, until? time", ""),
    ("admission.absorbed", _ADMISSION_END, "detail"),
    ("admission.superseded", _ADMISSION_END, "detail"),
    ("admission.rejected", _ADMISSION_END, "detail"),
    (
        "run.started",
        "admission_id? id:adm, agent name, agent_version? name, model? name, input h, configuration h,"
        f" class {_CLASS}, principal? id:dk, policy_revision?, fencing_token n, rehearsal_of? id:run",
        "configuration, input",
    ),
    ("run.claimed", "fencing_token n, previous_token n, cause {resume,takeover,recovery}", "host, process"),
    ("run.suspended", f"cause {_RUN_CAUSE}, waits_for ids", "note"),
    ("run.resumed", f"cause {_RUN_CAUSE}, waits_for ids", "note"),
    ("run.cancel_requested", "", "reason; the person's name under their own key"),
    (
        "run.finished",
        f"terminal {_TERMINAL}, steps n, calls n, input_tokens n, output_tokens n, cost? decimal, currency?",
        "output, error",
    ),
    ("step.started", "kind {model,tool,code}, name name, memo t", "input"),
    (
        "step.finished",
        "kind {model,tool,code}, name name, memo t, outcome {ok,error,cancelled}, duration_ms? n",
        "result or error, response",
    ),
    ("provider.message_recorded", "bodies n", "the bodies (1 to 64), in order"),
    (
        "provider.requested",
        "call_id id:cal, provider name, model name, purpose {primary,tools_disabled,fallback,compaction}, tip h,"
        " bodies n, request h",
        "segments (FORMAT 9), state slots used",
    ),
    (
        "provider.responded",
        "call_id id:cal, provider name, finish {stop,length,tools,filter,refusal,other}, input_tokens n,"
        " output_tokens n, cached_tokens? n, reasoning_tokens? n, cost? decimal, currency?, latency_ms? n, chunks? n",
        "response {id, provider?}, served model, address of the body",
    ),
    (
        "provider.failed",
        "call_id id:cal, provider name, error_class name, status? n, retryable bool, chunks? n",
        "message, partial output, or an answer that is no response",
    ),
    ("state.set", "slot name, version n, value? t", "value"),
    ("state.cleared", "slot name, version n, value? t", "value"),
    ("draft.checkpointed", "draft t, chunks n", "SHA-256 and size of the draft"),
    (
        "compaction.recorded",
        "from_sequence n, to_sequence n, tip_before? h, tip_after? h, cause {size,request,policy}",
        "summary",
    ),
    ("checkpoint.created", "projection, version n, up_to_sequence n, state h", "state, or an artifact"),
    (
        "checkpoint.rejected",
        "projection, version n, up_to_sequence n, cause {damaged,unsupported,ahead,migration}",
        "detail",
    ),
    (
        "decision.proposed",
        "effect_id id:eff, tool name, tool_version name, binding h",
        "arguments, evidence, the model's words, tool call id",
    ),
    (
        "policy.evaluated",
        "effect_id id:eff, policy, revision, outcome {allow,constrain,deny,ask}, rules labels, binding h,"
        " enforced? bool",
        "inputs, reasons",
    ),
    (
        "approval.requested",
        "approval_id id:apr, effect_id id:eff, binding h, scope {once,run}, expires_at? time, needed n",
        "question, arguments as shown",
    ),
    ("approval.granted", _APPROVAL_ANSWER, "comment; the person's name under their own key"),
    ("approval.denied", _APPROVAL_ANSWER, "comment; the person's name under their own key"),
    ("approval.revoked", _APPROVAL_ANSWER, "comment; the person's name under their own key"),
    ("approval.expired", "approval_id id:apr, effect_id id:eff", ""),
    ("approval.consumed", "approval_id id:apr, effect_id id:eff", ""),
    ("approval.mismatched", "approval_id id:apr, effect_id id:eff, approved h, found h", "what changed"),
    (
        "effect.intended",
        f"effect_id id:eff, tool name, tool_version name, schema? sha, doubt {_DOUBT}, binding h, deadline? time,"
        " approval_id? id:apr, compensates? id:eff, seal_first? bool",
        "arguments, idempotency_key, target",
    ),
    ("effect.observed", _OBSERVATION, "result, provider_effect_id, error"),
    ("effect.late_observed", _OBSERVATION, "result, provider_effect_id, error"),
    ("effect.looked_up", "effect_id id:eff, answer {found,absent,cannot_tell}, lookup n", "answer"),
    (
        "effect.review_requested",
        "effect_id id:eff, review_id id:rev,"
        " cause {by_review,absent,cannot_tell,contradicted,schema_changed,key_missing,policy}",
        "what is known",
    ),
    (
        "effect.settled",
        "effect_id id:eff, review_id id:rev, outcome {succeeded,rejected,failed,abandoned}",
        "reason, evidence",
    ),
    ("effect.repeated", "effect_id id:eff, first id:evt", ""),
    (
        "effect.contradicted",
        "effect_id id:eff, review_id id:rev, recorded {succeeded,rejected,failed,settled},"
        " found {succeeded,rejected,failed}",
        "both",
    ),
    (
        "fact.corrected",
        "corrects id:evt",
        "reason, evidence, the right value; the person's name under their own key",
    ),
    ("review.assigned", "review_id id:rev, assignee id:dk", "note"),
    (
        "retry.decided",
        "effect_id? id:eff, call_id? id:cal, error_class name, retry bool, attempts_max n, delay_ms n, same_key bool",
        "error",
    ),
    (
        "repair.opened",
        "repair_id id:rep, supersedes id:evt, effect_id? id:eff",
        "reason, owner, evidence, residual impact, the planned calls; people's names under their own keys",
    ),
    (
        "repair.closed",
        "repair_id id:rep, result {repaired,partial,irreversible}, compensations ids:eff",
        "residual impact, reason; the person's name under their own key",
    ),
    ("child.started", "child_stream_id id:str, child_run_id id:run, depth n", "full input, spawning call id"),
    (
        "child.settled",
        f"child_stream_id id:str, state {{finished,stopped,lost,left}}, by {{child,parent}}, parent_terminal? {_TERMINAL}",
        "result",
    ),
    (
        "schedule.created",
        "schedule_id id:sch, kind {once,every,calendar}, due_at time, period_ms? n",
        "payload, expression",
    ),
    ("schedule.fired", "schedule_id id:sch, due_at time, late_ms? n, next_due_at? time", ""),
    ("schedule.cancelled", "schedule_id id:sch, due_at time, late_ms? n", ""),
    ("sandbox.probed", "sandbox name, ok bool, capabilities labels", "output"),
    ("artifact.stored", _ARTIFACT, "file name, media type, exact size, preview"),
    ("artifact.spilled", _ARTIFACT, "file name, media type, exact size, preview"),
    ("artifact.redacted", "sha256 sha, certificate id:ers", "reason"),
    (
        "access.decided",
        f"action {{read,search,export,disclose,erase,glass}}, stream_id? id:str, event_id? id:evt, class? {_CLASS},"
        " allowed bool, rule",
        "purpose, query",
    ),
    ("access.glass_opened", "until time, rule", "reason"),
    ("retention.ruled", f"rule, class? {_CLASS}, types types, after_days n, floor_days n", "text"),
    ("retention.applied", "rule, streams n, contents n, objects n", ""),
    ("deletion.requested", _DELETION, "whom it names, who asked"),
    ("deletion.started", _DELETION, "whom it names, who asked"),
    ("deletion.refused", _DELETION, "whom it names, who asked"),
    (
        "deletion.completed",
        "deletion_id id:del, certificate id:ers, ground {request,retention,operator}, key? id:dk, object? sha,"
        " from_sequence? n, to_sequence? n, types? types, epoch_from? n, epoch_to? n, contents n, objects n,"
        " copies {covered,not_covered}",
        "",
    ),
    ("stream.purged", "stream_id id:str, final_sequence n, final_hash sha, rule?", ""),
    ("hold.placed", _HOLD, "matter, whom it names"),
    ("hold.released", _HOLD, "matter, whom it names"),
    ("keys.rotated", "epoch_from n, epoch_to n, keys n", ""),
    ("keys.lost", "keys n", "circumstances"),
    ("seal.published", _SEAL, "detail"),
    ("seal.failed", _SEAL, "detail"),
    (
        "turn.checked",
        "stage {guard,verify}, check name, outcome, side? {inbound,outbound,model}, found? n",
        "reason",
    ),
    (
        "turn.committed",
        "turn_id id:trn, agent name, events n, status {completed,error,cancelled,refused}",
        "head hash of the turn, hash of each event, session digest, version of the fold",
    ),
    ("turn.abandoned", "turn_id id:trn, agent name, events n", "head hash of the turn"),
    ("lever.held", _LEVER, "reason"),
    ("lever.released", _LEVER, "reason"),
    ("ledger.moved", "to_ledger id:ldg", "where, and the identity of the key store there"),
    (
        "ledger.restored",
        "taken_at time, streams n, events n, look_back_until time",
        "who accepted the loss, and why",
    ),
    ("budget.set", _BUDGET, ""),
    ("budget.exceeded", _BUDGET, ""),
    ("runtime.baseline", "as_of time, schema_from n, messages n, runs n", "the state (or an artifact)"),
    ("tool.declared", f"tool name, tool_version name, schema sha, doubt {_DOUBT}", "schema, description"),
    ("transcript.imported", "format, records n, refused n", "path, session id, source digest"),
    (
        "record.refused",
        "line n, offset n, cause {json,encoding,shape,size,depth,type}",
        "the bytes as found",
    ),
    ("record.imported", "kind name", "the record"),
    ("archive.exported", _ARCHIVE, "other party"),
    ("archive.imported", _ARCHIVE, "other party"),
)

# Fields of which exactly one group stands in the event. `types` and the epochs are free beside them.
_GROUPS: Final[dict[str, tuple[frozenset[str], ...]]] = {
    "retry.decided": (frozenset({"effect_id"}), frozenset({"call_id"})),
    "deletion.completed": (
        frozenset({"key"}),
        frozenset({"object"}),
        frozenset({"from_sequence", "to_sequence"}),
    ),
}


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """One event type in one version.

    ``fields`` are the public ones by name, ``content`` says in words what else the event holds, ``ignorable``
    whether a reader that does not know the type may pass over it, ``default_class`` the class of its content where
    the header names none, ``groups`` sets of fields of which exactly one is present.
    """

    event_type: str
    version: int
    fields: MappingProxyType[str, FieldForm]
    content: str = ""
    ignorable: bool = False
    default_class: str = DEFAULT_CLASS
    groups: tuple[frozenset[str], ...] = ()
    data_check: DataCheck = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_check", DataCheck(self.fields, self.groups))


def _spec(event_type: str, row: str, content: str) -> TypeSpec:
    groups = _GROUPS.get(event_type, ())
    return TypeSpec(event_type, 1, MappingProxyType(parse_row(row)), content, groups=groups)


class _Types(Mapping[str, TypeSpec]):
    """Each row is read when it is first asked for: a process meets a few of all types."""

    def __init__(self, rows: Iterable[tuple[str, str, str]]) -> None:
        self._rows = {row[0]: row for row in rows}
        self._read: dict[str, TypeSpec] = {}

    def __getitem__(self, event_type: str) -> TypeSpec:
        spec = self._read.get(event_type)
        if spec is None:
            spec = self._read.setdefault(event_type, _spec(*self._rows[event_type]))
        return spec

    def __contains__(self, event_type: object) -> bool:
        return event_type in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


EVENT_TYPES: Final[Mapping[str, TypeSpec]] = _Types(_ROWS)
"""Every registered type of the product, version 1, by name. Registered types are never ignorable."""
