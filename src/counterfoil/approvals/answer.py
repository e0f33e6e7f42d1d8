"""A named person answers: grants, denies, or takes back; counted once, and never by who asked (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NoReturn, get_args

from msgspec import Struct

from counterfoil.approvals import events
from counterfoil.approvals.decide import judge_answer
from counterfoil.approvals.events import Answer
from counterfoil.approvals.standing import ApprovalStanding, approval_now
from counterfoil.core.event import Draft
from counterfoil.errors import AnsweredAlready, ApprovalNotFound, ApproverRefused, GuardFailed, InputError
from counterfoil.flow.drafting import Outsider, Person
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Append, Entry, Events, Flow, NewId, Now, Read, UnitDraft

TRIES_MAX: Final = 16
"""How often an answer looks again because the approval moved between reading and writing."""

_WAYS_ON: Final = {
    "granted": "a grant that was not used yet can be taken back with `counterfoil approve revoke`",
    "consumed": "what it allowed has been done; `counterfoil repair start` undoes an effect",
    "expired": "run the agent's code again: its call asks anew",
}
"""What can be done about an approval that is over, by its state."""

_ANSWERS: Final = frozenset({"approval.granted", "approval.denied", "approval.revoked"})


class Answered(Struct, frozen=True):
    """The approval after an answer. ``state`` is where it stands now; ``repeated``: nothing was written."""

    approval_id: str
    effect_id: str
    stream_id: str
    run_id: str | None
    answer: Answer
    state: str
    repeated: bool = False


def answer_approval(
    approval_id: str,
    answer: Answer,
    *,
    person: Person,
    comment: str = "",
    requesters: Collection[str] = (),
    run_ended: bool = False,
) -> Flow[Answered]:
    """Record a person's answer. ``requesters`` are the key ids of those for whom the run acts.

    Giving the same answer again changes nothing. Raises ``ApprovalNotFound``, ``AnsweredAlready`` for what is decided
    or over, ``ApproverRefused``, or ``ContentUnavailable`` when what was asked cannot be read any more.
    """
    if answer not in get_args(Answer):
        raise InputError(f"an approval is {', '.join(get_args(Answer))}, not {str(answer)[:40]!r}")
    for _ in range(TRIES_MAX):
        approval = yield from approval_now(approval_id)
        if approval is None:
            raise ApprovalNotFound(f"there is no approval {approval_id}", approval_id=approval_id)
        judged = yield from _judged(approval, answer, person, requesters, run_ended)
        if judged == "same":
            return _answered(approval, answer, repeated=True)
        if judged not in ("record", "expire"):
            _refuse(approval, judged)
        try:
            yield from _append(approval, answer, person, comment, expire=judged == "expire")
        except GuardFailed:
            continue
        after = yield from approval_now(approval_id)
        assert after is not None, "an approval is never removed while its stream stands"
        if judged == "expire":
            _refuse(after, "closed")
        return _answered(after, answer)
    raise AnsweredAlready(
        f"approval {approval_id} kept changing while it was answered", hint="look at it and decide again"
    )


def _judged(
    approval: ApprovalStanding,
    answer: Answer,
    person: Person,
    requesters: Collection[str],
    run_ended: bool,
) -> Flow[str]:
    now: int = yield Now()
    asked: list[Event] = yield Read(
        Events(approval.stream_id, after=approval.requested_sequence - 1, limit=1)
    )
    given: list[Event] = yield Read(
        Events(approval.stream_id, approval.requested_sequence, _ANSWERS, approval.run_id)
    )
    return judge_answer(
        approval.found,
        answer,
        before=_answers_of(person, approval.approval_id, given),
        by_requester=person.key.key_id in requesters,
        may_answer=_may_answer(asked[0], answer, person),
        run_ended=run_ended,
        now_ms=now,
    )


def _answers_of(person: Person, approval_id: str, given: Iterable[Event]) -> set[Answer]:
    found: set[Answer] = set()
    for event in given:
        if event.data["approval_id"] == approval_id and event.header.actor["id"] == person.key.key_id:
            answer: Answer = event.type.partition(".")[2]  # type: ignore[assignment]  # one of the three types read
            found.add(answer)
    return found


def _may_answer(asked: Event, answer: Answer, person: Person) -> bool:
    """Whether the request names no assignees, or this person. Nobody grants what cannot be read any more."""
    content = asked.content if answer == "granted" else asked.content_or_none() or {}
    assignees = content.get("assignees")
    return not assignees or any(assignee.get("name") == person.name for assignee in assignees)


def _append(
    approval: ApprovalStanding, answer: Answer, person: Person, comment: str, *, expire: bool
) -> Flow[None]:
    event_id: str = yield NewId("evt")
    now: int = yield Now()
    draft: Draft
    if expire:
        outsider = Outsider(event_id, now, approval.run_id)
        draft = events.expired(outsider, approval.approval_id, approval.effect_id)
    else:
        outsider = Outsider(event_id, now, approval.run_id, person)
        draft = events.answered(
            outsider, answer, approval.approval_id, approval.effect_id, approval.binding, comment, person
        )
    yield Append(UnitDraft((Entry(approval.stream_id, (draft,)),), (approval.unchanged,)))


def _answered(approval: ApprovalStanding, answer: Answer, *, repeated: bool = False) -> Answered:
    return Answered(
        approval.approval_id,
        approval.effect_id,
        approval.stream_id,
        approval.run_id,
        answer,
        approval.state,
        repeated=repeated,
    )


def _refuse(approval: ApprovalStanding, judged: str) -> NoReturn:
    about = {"approval_id": approval.approval_id, "effect_id": approval.effect_id}
    match judged:
        case "requester":
            raise ApproverRefused(
                f"approval {approval.approval_id} was asked for in this person's name, so somebody else must approve",
                hint="who asks and who approves are two people (DESIGN 7)",
                **about,
            )
        case "stranger":
            raise ApproverRefused(
                f"approval {approval.approval_id} waits for the people it names, and this is not one of them",
                hint="`counterfoil approve show` names them",
                **about,
            )
        case "ended":
            raise AnsweredAlready(
                f"the run that asked for approval {approval.approval_id} has ended",
                hint="nothing would use an answer any more",
                state="ended",
                **about,
            )
        case _:
            raise AnsweredAlready(
                f"approval {approval.approval_id} is {approval.state} already",
                hint=_WAYS_ON.get(approval.state, "`counterfoil approve show` tells its story"),
                state=approval.state,
                **about,
            )
