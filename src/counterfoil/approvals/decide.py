"""The rules about approvals, pure: what an approval is good for now, and whether an answer counts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from msgspec import Struct

from counterfoil.approvals.events import Answer
from counterfoil.approvals.state import OPEN, PENDING

Use = Literal["wait", "use", "used", "mismatch", "expire", "refused"]


class Found(Struct, frozen=True):
    """An approval as far as the rules care. ``expires_at_ms`` is on the store's clock."""

    state: str
    scope: str = "once"
    expires_at_ms: int | None = None

    def lapsed(self, now_ms: int) -> bool:
        """Whether its time is over although nobody has recorded that."""
        return self.state in OPEN and self.expires_at_ms is not None and now_ms >= self.expires_at_ms


def judge_use(found: Found, *, same_call: bool, now_ms: int) -> Use:
    """What a call may do with the approval that was asked for it (DESIGN 7, case S13).

    Expiry is judged when somebody looks. A call with other arguments is refused while the approval is open.
    """
    if found.lapsed(now_ms):
        return "expire"
    if found.state in OPEN and not same_call:
        return "mismatch"
    if found.state in PENDING:
        return "wait"
    if found.state == "granted":
        return "use"
    return "used" if found.state == "consumed" else "refused"


Judged = Literal["record", "same", "closed", "ended", "expire", "requester", "stranger"]


def judge_answer(
    found: Found,
    answer: Answer,
    *,
    before: Collection[Answer],
    by_requester: bool,
    may_answer: bool,
    run_ended: bool,
    now_ms: int,
) -> Judged:
    """Whether an answer counts. ``before`` are the answers this person has given already.

    The same answer again changes nothing; any other one to what is decided is refused (case S14). Who asked may not
    approve. Taking a grant back is open to everybody, because it only stops.
    """
    if answer in before and (answer != "granted" or found.state in OPEN | {"consumed"}):
        return "same"
    if found.lapsed(now_ms):
        return "expire"
    if run_ended and answer != "revoked":
        return "ended"
    if answer == "revoked":
        reusable = found.scope == "run" and found.state == "consumed"
        return "record" if found.state in OPEN or reusable else "closed"
    if found.state not in PENDING:
        return "closed"
    if answer == "granted" and by_requester:
        return "requester"
    return "record" if may_answer else "stranger"
