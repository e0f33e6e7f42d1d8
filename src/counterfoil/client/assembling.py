"""Putting the parts of an open ledger together: its keyring and its ports, in the content mode it was made with."""

from __future__ import annotations

from counterfoil.abc import Clock, Ids
from counterfoil.client.features import FEATURES
from counterfoil.client.place import Parts
from counterfoil.client.ports import LedgerPorts
from counterfoil.client.streams import system_stream_id
from counterfoil.core.catalogue import Registry
from counterfoil.core.genesis import ContentMode, parse_genesis
from counterfoil.errors import ConfigInvalid, InputError, InvalidForm
from counterfoil.keys.keyring import Keyring


def keys_and_ports(
    parts: Parts, tenant: str, content: ContentMode | None, clock: Clock, ids: Ids, registry: Registry
) -> tuple[Keyring, LedgerPorts, ContentMode]:
    """Keyring and ports for one tenant, in the mode its ledger has. Raises ``ConfigInvalid`` for another one."""
    mode = _content_mode(parts, tenant, content)
    keyring = Keyring(parts.key_store, parts.provider, clock, ids, tenant, mode)
    ports = LedgerPorts(
        parts.store,
        keyring,
        tenant=tenant,
        features=FEATURES,
        registry=registry,
        clock=clock,
        ids=ids,
        content=mode,
        artifacts=parts.artifacts,
        config_stream_id=system_stream_id(parts.store.ledger_id, tenant, "system/config"),
    )
    return keyring, ports, mode


def _content_mode(parts: Parts, tenant: str, wanted: ContentMode | None) -> ContentMode:
    """The ledger's own mode; a new one takes what was asked for, and so does a damaged one that is only read."""
    if wanted not in (None, "sealed", "clear"):
        raise InvalidForm("content is sealed or clear", argument="content")
    stored = parts.store.stream(system_stream_id(parts.store.ledger_id, tenant, "system/config"))
    if stored is None:
        return wanted or "sealed"
    try:
        found = parse_genesis(stored.genesis).content
    except InputError:
        if not parts.read_only:
            raise
        return wanted or "sealed"
    if wanted is not None and wanted != found:
        raise ConfigInvalid(
            f"the content of {parts.place} is {found}, and it was opened as {wanted}",
            hint="the mode is chosen when a ledger is made; leave content out",
        )
    return found
