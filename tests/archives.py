"""Small conversations to archive, ledgers to take them in, and how two archives are compared."""

from __future__ import annotations

from pathlib import Path

import counterfoil
from counterfoil.client.features import FEATURES
from counterfoil.core.event import Draft
from counterfoil.core.forms import time_text
from counterfoil.effects.registry import own_tools
from counterfoil.evidence.verify import verify
from counterfoil.flow.requests import Entry, UnitDraft

NAME = "case-8472"
ACTOR = {"type": "system", "id": "counterfoil"}


def converse(ledger, name=NAME, order="O-1042"):
    """A conversation with a message about a person, an effect, a step, and an artifact; its stream id."""
    with own_tools():
        refund = counterfoil.effect(
            "payment.refund",
            version="1",
            touches={"money"},
            key=lambda order, **_: f"refund:{order}",
            doubt=counterfoil.by_review(),
        )(lambda order, amount: {"id": "re_123"})
        with ledger.run(
            "support", conversation=name, message="where is it?", dedupe=name, subject="ann"
        ) as run:
            refund(order=order, amount=4)
            run.step("look", str.title, "grüße 🦊 \x00")
            run.artifact(b"a letter" * 100, name="letter.txt")
    return ledger.stream_of(name)


def erase_part(ledger, stream_id, sequence):
    """Remove the records of one event through the store's audited path, with the certificate that says so."""
    (event,) = ledger.store.read(stream_id, sequence - 1, 1)
    data = {
        "deletion_id": ledger.ports.new_id("del"),
        "certificate": ledger.ports.new_id("ers"),
        "ground": "request",
        "from_sequence": sequence,
        "to_sequence": sequence,
        "contents": len(event.content),
        "objects": 0,
        "copies": "not_covered",
    }
    now = time_text(ledger.ports.now_ms())
    draft = Draft(ledger.ports.new_id("evt"), "deletion.completed", now, ACTOR, data)
    ledger.ports.append(UnitDraft((Entry(stream_id, (draft,)),)))
    parts = [(sequence, part) for part in range(len(event.content))]
    assert ledger.store.remove_content(stream_id, parts, "test") == len(parts)


def erase_key(ledger, stream_id):
    """Record that the stream's key was destroyed, and destroy it; the certificate."""
    key_id = ledger.ports.genesis(stream_id).key
    data = {
        "deletion_id": ledger.ports.new_id("del"),
        "certificate": ledger.ports.new_id("ers"),
        "ground": "request",
        "key": key_id,
        "contents": 1,
        "objects": 0,
        "copies": "not_covered",
    }
    draft = Draft(
        ledger.ports.new_id("evt"), "deletion.completed", time_text(ledger.ports.now_ms()), ACTOR, data
    )
    ledger.ports.append(UnitDraft((Entry(stream_id, (draft,)),)))
    ledger.keyring.store.delete([key_id])
    return data["certificate"]


def verified(ledger):
    """The report of a whole ledger, rows and artifacts too."""
    return verify(ledger.store, ledger.keyring, FEATURES, artifacts=ledger.ports.vault.store)


def files(place: Path) -> dict[str, bytes]:
    """Everything in an archive, by name."""
    if place.is_file():
        return {"": place.read_bytes()}
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def holdings(ledger):
    """All that an import could leave behind: streams, events, rows, keys, objects."""
    store = ledger.store
    streams = store.streams(limit=1000)
    return (
        streams,
        [store.read(stream.stream_id, limit=1000) for stream in streams],
        [store.select(table.name, limit=1000) for feature in FEATURES for table in feature.tables],
        ledger.keyring.store.scan(),
        ledger.ports.vault.store.names(),
    )
