"""Whether the key store at hand is as new as the ledger: a restored copy must not be written with (FORMAT 12)."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from counterfoil.client.ports import LedgerPorts
from counterfoil.errors import CounterfoilError, KeyStoreStale
from counterfoil.flow.requests import Events
from counterfoil.keys.rows import DESTROYED
from counterfoil.store.rows import Key

ROTATED: Final = frozenset({"keys.rotated"})
PAGE_ROWS: Final = 500


def older_epoch(ports: LedgerPorts, keys_stream_id: str, place: str) -> KeyStoreStale | None:
    """Why nothing may be written with this key store: it is of an epoch that the ledger has left behind.

    What is written under it could be opened only as long as the old key-encryption key is kept. A newer epoch than the
    ledger's is a rotation that was not yet recorded.
    """
    recorded, held = _recorded_epoch(ports, keys_stream_id), ports.keyring.store.epochs().get(ports.tenant)
    if recorded is None or held is None or held >= recorded:
        return None
    return KeyStoreStale(
        f"the key store of {place} is of epoch {held}, but the ledger has reached {recorded}: it is an old copy",
        hint="put the newest backup of the key store back; reading goes on",
        place=place,
        held=held,
        recorded=recorded,
    )


def revived_key(ports: LedgerPorts, place: str) -> KeyStoreStale | None:
    """Why nothing may be written with this key store: it holds a key that a certificate says was destroyed."""
    after: Key | None = None
    while page := ports.store.select(DESTROYED.name, "by_tenant", (ports.tenant,), after, PAGE_ROWS):
        for row in page:
            key_id, certificate = str(row["key_id"]), str(row["certificate"])
            if ports.keyring.store.get(key_id) is not None:
                return KeyStoreStale(
                    f"the key store of {place} holds {key_id}, which certificate {certificate} says was destroyed",
                    hint="put the newest backup of the key store back, or destroy the key in this copy again and rotate it",
                    place=place,
                    key_id=key_id,
                    certificate=certificate,
                )
        after = (ports.tenant, str(page[-1]["key_id"]))
    return None


def _recorded_epoch(ports: LedgerPorts, keys_stream_id: str) -> str | None:
    """The key-encryption key that the ledger says its tenant was last rotated to, as far as that can be read."""
    recorded = None
    # What cannot be read there is for verify to name, and no reason to refuse what else there is.
    with suppress(CounterfoilError):
        for event in ports.events(Events(keys_stream_id, types=ROTATED)):
            recorded = (event.content_or_none() or {}).get("kek", recorded)
    return recorded if isinstance(recorded, str) else None
