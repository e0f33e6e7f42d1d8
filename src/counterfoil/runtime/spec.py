"""What a caller asks of ``ledger.run``, checked once before anything is written."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, get_args

from msgspec import Struct, field

from counterfoil.core import canonical
from counterfoil.core.catalogue import CLASSES
from counterfoil.core.forms import is_label
from counterfoil.core.values import to_json
from counterfoil.errors import InvalidForm
from counterfoil.runtime.budgets.limits import Budget, Limit, limits_of
from counterfoil.runtime.events import WhileRunning, WhileSuspended

DEDUPE_CHARACTERS_MAX = 4096
"""Longest dedupe key or conversation name: a key is an id, not a document."""

SECONDS_MAX = 10 * 366 * 86_400
"""Longest wait or deadline: about ten years, which no clock or timer overflows on."""


class RunSpec(Struct, frozen=True):
    """One request for a run. ``message`` is in its JSON form; the rest is as the caller gave it.

    ``admission_id`` names an input that was taken in before and still waits (in place of ``dedupe``); ``run_id``
    a run to go on with; ``place`` the ledger, as commands in hints may name it; ``rehearsal_of`` the run that this one
    rehearses.
    """

    agent: str
    conversation: str | None = None
    message: Any = None
    dedupe: str | None = None
    agent_version: str | None = None
    classification: str = "confidential"
    subject: str | None = None
    principal: str | None = None
    title: str | None = None
    while_running: WhileRunning | None = None
    while_suspended: WhileSuspended | None = None
    configuration: Mapping[str, Any] = field(default_factory=dict)
    admission_id: str | None = None
    run_id: str | None = None
    wait_s: float = 0.0
    deadline_s: float | None = None
    owner: str | None = None
    policy_revision: str | None = None
    budget: tuple[Limit, ...] = ()
    place: str | None = None
    rehearsal_of: str | None = None

    @property
    def message_bytes(self) -> bytes:
        """Canonical form of the message, for digests."""
        return canonical.encode(self.message)


def make_spec(
    agent: str,
    *,
    message: Any = None,
    configuration: Mapping[str, Any] | None = None,
    budget: Budget | Mapping[str, Any] | None = None,
    **given: Any,
) -> RunSpec:
    """Check and encode what the caller gave. Raises an InputError naming the argument; nothing is written."""
    if configuration is not None and not isinstance(configuration, Mapping):
        raise InvalidForm("configuration is a mapping of names to values", argument="configuration")
    spec = RunSpec(
        agent,
        message=to_json(message, "message"),
        configuration=to_json(dict(configuration or {}), "configuration"),
        budget=limits_of(budget),
        **given,
    )
    _label("agent", spec.agent)
    if spec.agent_version is not None:
        _label("agent_version", spec.agent_version)
    _one_of("classification", spec.classification, CLASSES)
    if spec.while_running is not None:
        _one_of("while_running", spec.while_running, get_args(WhileRunning))
    if spec.while_suspended is not None:
        _one_of("while_suspended", spec.while_suspended, get_args(WhileSuspended))
    for name, value in (("resume", spec.run_id), ("admission", spec.admission_id), ("owner", spec.owner)):
        check_text(name, value)
    for name in ("conversation", "dedupe", "subject", "principal", "title"):
        check_text(name, getattr(spec, name))
    check_seconds("wait_s", spec.wait_s, least="from 0")
    if spec.deadline_s is not None:
        check_seconds("deadline_s", spec.deadline_s, least="above 0")
    return spec


def _label(name: str, value: Any) -> None:
    if not is_label(value):
        raise InvalidForm(
            f"{name} must be a label, because it stands in the open: 1 to 128 of A-Za-z0-9_.:/+-",
            hint='write it as "refund-agent"; what people call it can be the title of the conversation',
            argument=name,
        )


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidForm(f"{name} is one of {', '.join(allowed)}", argument=name)


def check_text(name: str, value: Any) -> None:
    """Refuse an argument that is neither None nor text of a moderate length."""
    if value is None:
        return
    if not isinstance(value, str) or not value or len(value) > DEDUPE_CHARACTERS_MAX:
        raise InvalidForm(f"{name} is text of 1 to {DEDUPE_CHARACTERS_MAX} characters", argument=name)


def check_seconds(name: str, value: Any, *, least: Literal["from 0", "above 0"]) -> None:
    """Refuse what is no number of seconds; NaN and infinities are none."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    enough = number and (value > 0 if least == "above 0" else value >= 0)
    if not enough or value > SECONDS_MAX:
        raise InvalidForm(f"{name} is a number of seconds {least} to {SECONDS_MAX}", argument=name)


def instant_ms(name: str, value: datetime) -> int:
    """Milliseconds since the epoch of a time with a zone. Raises ``InvalidForm`` for anything else."""
    given: Any = value
    if not isinstance(given, datetime) or given.utcoffset() is None:
        raise InvalidForm(
            f"{name} is a datetime with a time zone", hint="datetime(…, tzinfo=UTC)", argument=name
        )
    return round(given.timestamp() * 1000)


@lru_cache(maxsize=4)
def _worker(pid: int) -> dict[str, Any]:
    return {"host": platform.node(), "process": pid}


def worker() -> dict[str, Any]:
    """Host and process, for the content of ``run.started`` and ``run.claimed``."""
    return _worker(os.getpid())
