"""Putting the bytes of an artifact where they belong: under which key they lie, and which equal ones lie there already."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from counterfoil.artifacts.rows import ARTIFACTS
from counterfoil.core.artifact import INTERNAL, PUBLIC, check_class
from counterfoil.core.keyed import KeyMaterial
from counterfoil.errors import InvalidForm
from counterfoil.flow.requests import PutArtifact, Stored

if TYPE_CHECKING:
    from counterfoil.client.ports import LedgerPorts


def put_artifact(ports: LedgerPorts, request: PutArtifact, config_stream_id: str) -> Stored:
    """Store an artifact's bytes under the key that its class asks for (FORMAT 10). Raises InvalidForm."""
    klass = check_class(request.klass)
    if klass in {PUBLIC, INTERNAL} and request.subject is not None:
        raise InvalidForm(
            f"what is about a person is not {klass}",
            hint="classify it as confidential, personal or secret",
            argument="classification",
        )
    if klass == PUBLIC:
        return ports.vault.put(request.source, None)
    if klass == INTERNAL:
        material = ports.material(config_stream_id)
    elif request.subject is None:
        material = ports.material(request.stream_id)
    else:
        material = ports.subject_key(request.stream_id, request.subject)
    return ports.vault.put(request.source, material, partial(_known, ports, request.stream_id, material))


def _known(ports: LedgerPorts, stream_id: str, material: KeyMaterial, address: str) -> str | None:
    """The object that holds these bytes already, as rows say; by the owner that rows know the key by."""
    own = material.key_id == ports.genesis(stream_id).key
    prefix = (stream_id if own else material.key_id, address)
    found = ports.store.select(ARTIFACTS.name, "by_address", prefix, limit=1)
    return str(found[0]["sha256"]) if found and found[0]["state"] == "stored" else None
