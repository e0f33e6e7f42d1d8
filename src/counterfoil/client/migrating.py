"""Taking a runtime store of schema 1 over into a ledger: one stream and one ``runtime.baseline`` for each conversation.

All of it is one transaction of the database. What must be durable before it, keys and artifacts, has ids and names that
follow from the key store and the old ids, so a migration that was killed is simply run again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import asdict

from counterfoil.abc import ArtifactStore, Clock, Ids, KeyProvider, KeyStore
from counterfoil.artifacts.spill import JSON_FORM, KIND, TAG
from counterfoil.artifacts.vault import Vault
from counterfoil.client.streams import ACTOR, system_stream_id
from counterfoil.core.artifact import Reference
from counterfoil.core.canonical import JSON, decode, encode
from counterfoil.core.catalogue import Registry
from counterfoil.core.event import Draft, Part, prepare
from counterfoil.core.forms import time_text
from counterfoil.core.genesis import ContentMode, Genesis, make_genesis
from counterfoil.core.ids import make_id
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.limits import SPILL_BYTES
from counterfoil.flow.requests import Stored
from counterfoil.keys.keyring import Keyring
from counterfoil.runtime.baseline import SCHEMA_FROM, WHOLE_BYTES, Old, content_of, deriving, messages_json
from counterfoil.store.takeover import OldStore, Takeover
from counterfoil.store.unit import NONE, StreamAppend

HELD_BYTES: Final = 32 * 1024 * 1024
"""Messages of one conversation that are held in memory; more are written piece by piece."""

CLASS: Final = "confidential"


class Migration(Struct):
    """What a migration came to; zero of everything where none was due. ``progress`` is told conversations done and all."""

    conversations: int = 0
    messages: int = 0
    runs: int = 0
    open_runs: int = 0
    waiting_inputs: int = 0
    damaged_rows: int = 0
    damaged_conversations: list[str] = field(default_factory=list)
    """Ids of the streams of conversations that held damaged rows."""
    progress: Callable[[int, int], None] | None = None

    @property
    def done(self) -> bool:
        """Whether a runtime store was taken over."""
        return self.conversations > 0

    def to_json(self) -> dict[str, Any]:
        """The counts as plain values."""
        found = asdict(self)
        del found["progress"]
        return found


class Upgrading(Struct, frozen=True):
    """What opening a place needs to take over a runtime store that lies there."""

    tenant: str
    content: ContentMode
    registry: Registry
    report: Migration
    artifacts: ArtifactStore | None = None
    """Where artifacts lie, if not in the ledger's own directory."""

    def takeover(
        self, key_store: KeyStore, provider: KeyProvider, artifacts: ArtifactStore, clock: Clock, ids: Ids
    ) -> Takeover:
        """The maker of streams over these parts."""
        keyring = Keyring(key_store, provider, clock, ids, self.tenant, self.content)
        ledger_id = _ledger_id(key_store.store_id)
        maker = _Maker(self, keyring, Vault(artifacts, keyring.material), ledger_id)
        return Takeover(ledger_id, maker.streams)


def _ledger_id(store_id: str) -> str:
    """The ledger's id follows from the key store's, so that a migration that is run again makes the same ledger."""
    digest = hashlib.sha256(f"counterfoil/taken-over/v1\x00{store_id}".encode()).digest()
    return make_id("ldg", 0, int.from_bytes(digest[:10]))


class _Maker:
    """Makes the streams."""

    def __init__(self, upgrading: Upgrading, keyring: Keyring, vault: Vault, ledger_id: str) -> None:
        self._upgrading = upgrading
        self._report = upgrading.report
        self._keyring = keyring
        self._vault = vault
        self._ledger_id = ledger_id

    def streams(self, store: OldStore, now_ms: int) -> Iterator[StreamAppend]:
        """See :class:`counterfoil.store.takeover.Takeover`."""
        report = self._report
        self._keyring.index_key(system_stream_id(self._ledger_id, self._upgrading.tenant, "system/config"))
        total = sum(1 for _ in store.conversations())
        for conversation in store.conversations():
            yield self._stream(store, conversation, now_ms)
            report.conversations += 1
            if report.progress is not None:
                report.progress(report.conversations, total)

    def _stream(self, store: OldStore, conversation: str | bytes, now_ms: int) -> StreamAppend:
        old = Old(deriving(self._keyring.index), now_ms)
        row, head = store.conversation(conversation), store.head(conversation)
        size = store.size(conversation)
        name = conversation if isinstance(conversation, str) else conversation.hex()
        created = Old(old.derive, now_ms).time_ms((row or {}).get("created_at"))
        stream_id = old.derive("str", name, created)
        genesis, material = self._genesis(stream_id)
        for run in store.runs(conversation):
            old.add_run(run)
        run_ids = {str(run["was"]): str(run["run_id"]) for run in old.runs if isinstance(run, dict)}
        for admission in store.admissions(conversation):
            old.add_admission(admission, run_ids)
        messages, references = self._messages(store, conversation, old, material, size.message_bytes)
        updated = old.time_ms((row or {}).get("updated_at"))
        content = content_of(old, conversation, row, head)
        whole = encode(content)
        if len(whole) > WHOLE_BYTES:
            there, member = self._named(self._vault.put(whole, material), material)
            content = {**old.bounded(content), "whole": there}
            references = (*references, member)
        content["messages"] = messages
        data: dict[str, JSON] = {
            "as_of": time_text(updated),
            "schema_from": SCHEMA_FROM,
            "messages": size.messages,
            "runs": size.runs,
        }
        draft = Draft(
            old.derive("evt", name, now_ms),
            "runtime.baseline",
            time_text(now_ms),
            ACTOR,
            data,
            (Part(content),),
            artifact_refs=references,
        )
        self._count(old, stream_id, size.messages, size.runs)
        prepared = prepare(genesis, material, draft, self._upgrading.registry)
        return StreamAppend(stream_id, (prepared,), NONE, create=genesis)

    def _genesis(self, stream_id: str) -> tuple[Genesis, KeyMaterial]:
        """The genesis under the stream's own key: the one that an earlier attempt made, or a new one."""
        made = self._keyring.store.of_stream(stream_id)
        material = self._keyring.material(made[0].key_id) if made else self._keyring.new_stream_key(stream_id)
        genesis = make_genesis(
            ledger=self._ledger_id,
            tenant=self._upgrading.tenant,
            stream_id=stream_id,
            kind="conversation",
            key=material.key_id,
            content=self._upgrading.content,
        )
        return genesis, material

    def _messages(
        self, store: OldStore, conversation: str | bytes, old: Old, material: KeyMaterial, size: int
    ) -> tuple[JSON, tuple[dict[str, str], ...]]:
        """The messages in the event, or as an artifact that it names; the artifact is durable when this returns."""
        if size <= SPILL_BYTES // 2:
            held = b"".join(messages_json(old, store.messages(conversation)))
            if len(held) <= SPILL_BYTES:
                return decode(held), ()
            stored = self._vault.put(held, material)
        else:
            pieces = messages_json(old, store.messages(conversation))
            stored = self._vault.put(b"".join(pieces) if size <= HELD_BYTES else _Pieces(pieces), material)
        there, member = self._named(stored, material)
        return there, (member,)

    @staticmethod
    def _named(stored: Stored, material: KeyMaterial) -> tuple[JSON, dict[str, str]]:
        """A stored value as it stands in content, and its entry in the header."""
        reference = Reference(KIND, CLASS, stored.sha256, stored.address, material.key_id)
        there = {TAG: {"sha256": stored.sha256, "form": JSON_FORM, "bytes": stored.size}}
        return there, reference.member(material.key_id)

    def _count(self, old: Old, stream_id: str, messages: int, runs: int) -> None:
        report = self._report
        report.messages += messages
        report.runs += runs
        report.open_runs += old.open_runs
        report.waiting_inputs += old.waiting
        report.damaged_rows += old.damaged
        if old.damaged:
            report.damaged_conversations.append(stream_id)


class _Pieces:
    """A source that is read piece by piece."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces
