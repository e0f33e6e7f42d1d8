"""Making a ledger's derived rows again from its events, for all tenants (DESIGN 2.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from counterfoil.client.features import FEATURES
from counterfoil.client.ports import LedgerPorts
from counterfoil.core.genesis import ContentMode
from counterfoil.keys.keyring import Keyring
from counterfoil.store.contract import Store

if TYPE_CHECKING:
    from counterfoil.evidence.rebuild import Rebuilt


def stale_tables(store: Store) -> frozenset[str]:
    """Tables that an adapter has made anew or over in a ledger with events, and whose rows must follow from these."""
    found: frozenset[str] = getattr(store, "stale_tables", frozenset())
    return found


def rebuild(
    ports: LedgerPorts, content: ContentMode, progress: Callable[[int], None] | None = None
) -> Rebuilt:
    """See ``Ledger.rebuild``."""
    from counterfoil.evidence.rebuild import rebuild as rebuild_all

    own, keyrings = ports.keyring, {ports.tenant: ports.keyring}

    def keyring_of(tenant: str) -> Keyring:
        found = keyrings.get(tenant)
        if found is None:
            found = Keyring(own.store, own.provider, ports.clock, ports.ids, tenant, content)
            keyrings[tenant] = found
        return found

    return rebuild_all(
        ports.store,
        FEATURES,
        keyring_of,
        registry=ports.registry,
        stale=stale_tables(ports.store),
        progress=progress,
    )
