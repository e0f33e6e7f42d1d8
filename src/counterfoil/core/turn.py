"""The hash chain of one turn in the turn journal (FORMAT 17, seed 000)."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from counterfoil.core.canonical import join_surrogates
from counterfoil.core.forms import is_digest
from counterfoil.errors import InvalidForm

TURN_ROOT: Final = "0" * 64
"""The previous hash of a turn's first event, sequence 0."""

TURN_TYPES: Final = ("INTAKE", "GUARD", "MODEL_CALL", "TOOL_CALL", "APPROVAL", "VERIFY", "COMMIT")
"""The stages of a turn."""

_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def clean_summary(text: str) -> str:
    """The summary as it is hashed and stored: each lone surrogate becomes U+FFFD."""
    return text if text.isascii() else _SURROGATES.sub("�", join_surrogates(text))


def turn_hash(
    previous: str,
    turn_id: str,
    agent_id: str,
    sequence: int,
    kind: str,
    payload_hash: str | None,
    summary: str,
    created_at_ms: int,
) -> str:
    """The hash (64 hex) of one turn event: SHA-256 over its fields joined by ``|`` in UTF-8.

    ``payload_hash`` None is written as the empty string. Only the summary may hold ``|``. Raises InvalidForm.
    """
    if not is_digest(previous) or not (payload_hash is None or is_digest(payload_hash)):
        raise InvalidForm("the previous hash and the payload hash of a turn event are 64 hex")
    if kind not in TURN_TYPES:
        raise InvalidForm(f"the type of a turn event is one of {', '.join(TURN_TYPES)}")
    if sequence < 0:
        raise InvalidForm("the events of a turn are numbered from 0")
    for name, text in (("turn_id", turn_id), ("agent_id", agent_id)):
        if "|" in text:
            raise InvalidForm(
                f"{name} holds a |, which separates the fields of a turn event", hint="rename it"
            )
        if _SURROGATES.search(text):
            raise InvalidForm(f"{name} is not Unicode text", hint="rename it")
    fields = (
        previous,
        turn_id,
        agent_id,
        str(sequence),
        kind,
        payload_hash or "",
        clean_summary(summary),
        str(created_at_ms),
    )
    return hashlib.sha256("|".join(fields).encode("utf-8")).hexdigest()
