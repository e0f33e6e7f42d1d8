"""Errors of stored bytes that are not what was written."""

from __future__ import annotations

from counterfoil.errors.base import IntegrityError


class ContentDamaged(IntegrityError):
    """A sealed record fails its digest, tag, commitment or unpacking (FORMAT 6)."""

    code = "content_damaged"


class ArtifactDamaged(IntegrityError):
    """The bytes of an artifact are not those that were stored, or not those that were asked for (FORMAT 10)."""

    code = "artifact_damaged"
    default_hint = (
        "restore the object from a backup of artifacts/; `counterfoil artifacts verify` names every such one"
    )


class KeyDamaged(IntegrityError):
    """A data key does not pass its check (FORMAT 12)."""

    code = "key_damaged"


class RowsDiffer(IntegrityError):
    """A derived row does not agree with the events it is made of; nothing was done on its word."""

    code = "rows_differ"
    default_hint = (
        "run `counterfoil verify`, then `counterfoil rebuild`, which makes the rows again from the events"
    )


class ChainBroken(IntegrityError):
    """An append met a head that its own stream does not support."""

    code = "chain_broken"
