"""Public fields of the events about custody: what went out, came in, was adopted or moved on (FORMAT 7, 14)."""

from __future__ import annotations

from typing import Any, Literal

Keys = Literal["none", "epoch", "passphrase", "recipient"]


def archive_fields(
    archive: str,
    stream_id: str,
    genesis: str,
    up_to_sequence: int,
    head: str,
    keys: Keys,
    tenant: str | None = None,
) -> dict[str, Any]:
    """Of ``archive.exported`` and ``archive.imported``, one event a stream; digests in hex.

    ``tenant`` is whom the stream stands under here, where its genesis names another.
    """
    fields: dict[str, Any] = {
        "archive": archive,
        "stream_id": stream_id,
        "genesis": genesis,
        "up_to_sequence": up_to_sequence,
        "head": head,
        "keys": keys,
    }
    return fields if tenant is None else fields | {"tenant": tenant}


def adoption_fields(
    from_ledger: str, ledger: str, tenant: str, at_sequence: int, head: str
) -> dict[str, Any]:
    """Of ``stream.adopted``: the home that the stream leaves, where, and the ledger that goes on with it."""
    return {
        "from_ledger": from_ledger,
        "ledger": ledger,
        "tenant": tenant,
        "at_sequence": at_sequence,
        "head": head,
    }
