"""Errors of stored bytes that are not what was written."""

from __future__ import annotations

from counterfoil.errors.base import IntegrityError


class ContentDamaged(IntegrityError):
    """A sealed record fails its digest, tag, commitment or unpacking (FORMAT 6)."""

    code = "content_damaged"


class KeyDamaged(IntegrityError):
    """A data key does not pass its check (FORMAT 12)."""

    code = "key_damaged"


class ChainBroken(IntegrityError):
    """An append met a head that its own stream does not support."""

    code = "chain_broken"
