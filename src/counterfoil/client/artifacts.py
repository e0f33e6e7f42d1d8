"""The artifacts of a ledger: listing, finding, reading and checking them, and keeping some outside a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, Unpack

from counterfoil.abc import ArtifactStore
from counterfoil.artifacts import events
from counterfoil.artifacts.handle import Artifact
from counterfoil.artifacts.keep import (
    Given,
    How,
    handle_of_event,
    handle_of_stored,
    reference_of_stored,
    wanted,
)
from counterfoil.artifacts.rows import ARTIFACTS
from counterfoil.artifacts.vault import State, Vault
from counterfoil.client.handle import Handle
from counterfoil.client.ports import LedgerPorts
from counterfoil.core.artifact import SCHEME, Reference, reference_of
from counterfoil.core.bounds import check_limit, check_texts
from counterfoil.errors import ArtifactNotFound, InvalidForm
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Entry, PutArtifact, UnitDraft
from counterfoil.store.rows import Key, Row

PAGE_ROWS: Final = 500
PREFIX_HEX_MIN: Final = 6
ACTOR: Final = {"type": "system", "id": "counterfoil"}


def artifact_rows(
    ports: LedgerPorts,
    *,
    stream_id: str | None = None,
    run_id: str | None = None,
    spilled: bool = True,
    after: tuple[str, str] | None = None,
    limit: int | None = None,
) -> list[Row]:
    """Rows of artifacts in the order they were stored; ``after`` is (stream id, object) of the last one seen."""
    check_limit(limit)
    check_texts("what artifacts are found by", (stream_id, run_id))
    found: list[Row] = []
    if limit == 0:
        return found
    for row in _pages(ports, stream_id, run_id, after):
        fits = (
            row["tenant"] == ports.tenant
            and stream_id in (None, row["stream_id"])
            and (spilled or row["kind"] != "spill")
        )
        if fits:
            found.append(row)
        if limit is not None and len(found) >= limit:
            break
    return found


def _pages(
    ports: LedgerPorts, stream_id: str | None, run_id: str | None, seen: tuple[str, str] | None
) -> Iterator[Row]:
    index, prefix = "by_tenant", (ports.tenant,)
    if run_id is not None:
        index, prefix = "by_run", (run_id,)
    elif stream_id is not None:
        index, prefix = "by_stream", (stream_id,)
    start = None if seen is None else ports.store.get(ARTIFACTS.name, seen)
    after: Key | None = None if start is None else ARTIFACTS.place_in(index, start)
    while page := ports.store.select(ARTIFACTS.name, index, prefix, after, PAGE_ROWS):
        yield from page
        after = ARTIFACTS.place_in(index, page[-1])


def recorded(ports: LedgerPorts, row: Row) -> Event:
    """The event that stored it."""
    found = ports.store.read(str(row["stream_id"]), int(row["sequence"] or 1) - 1, 1)
    return ports.event(found[0])


class Artifacts:
    """What :attr:`Ledger.artifacts` is: the artifacts of one ledger and tenant."""

    def __init__(self, handle: Handle, stream_of: Callable[[str], str]) -> None:
        self._handle = handle
        self._ports = handle.ports
        self._stream_of = stream_of

    @property
    def store(self) -> ArtifactStore:
        """The store behind, for tools that look at objects themselves. Raises ConfigInvalid where there is none."""
        return self.vault.store

    @property
    def vault(self) -> Vault:
        """Encrypts on the way in and checks on the way out; its ``authorize`` is asked before bytes are handed out."""
        return self._ports.vault

    def rows(self, conversation: str | None = None, **filters: Any) -> list[Row]:
        """Rows, oldest first: of a conversation, or all. ``filters`` are ``run_id spilled after limit``."""
        stream_id = None if conversation is None else self._stream_of(conversation)
        return artifact_rows(self._ports, stream_id=stream_id, **filters)

    def find(self, name: str, conversation: str | None = None) -> Artifact:
        """The handle of an artifact by its SHA-256, by the beginning of it (6 hex at least) or its ``storage_ref``.

        Raises ArtifactNotFound, or InvalidForm where the beginning fits several.
        """
        row = self.row(name, conversation)
        return handle_of_event(self._ports, recorded(self._ports, row))

    def bound(self, handle: Artifact) -> Artifact:
        """A handle that was read back from a record, able to open its bytes in this ledger."""
        return replace(handle, _pieces=self._ports.artifact_pieces)

    def row(self, name: str, conversation: str | None = None) -> Row:
        """As :meth:`find`, the row."""
        prefix = name.removeprefix(SCHEME).removesuffix("…")
        if len(prefix) < PREFIX_HEX_MIN or not set(prefix) <= set("0123456789abcdef"):
            raise InvalidForm(
                f"an artifact is named by its SHA-256, or by {PREFIX_HEX_MIN} hex or more of its beginning",
                argument="name",
            )
        found = {str(row["sha256"]): row for row in self._named(prefix, conversation)}
        if not found:
            raise ArtifactNotFound(f"no event of this ledger names an artifact {prefix}")
        if len(found) > 1:
            raise InvalidForm(
                f"{len(found)} artifacts begin with {prefix}: give more of the name", argument="name"
            )
        return found.popitem()[1]

    def _named(self, prefix: str, conversation: str | None) -> list[Row]:
        tenant = self._ports.tenant
        after: Key | None = None
        if len(prefix) < 64:
            after = (tenant, prefix, "", "")
        where = (tenant,) if after is not None else (tenant, prefix)
        stream_id = None if conversation is None else self._stream_of(conversation)
        found: list[Row] = []
        while page := self._ports.store.select(ARTIFACTS.name, "by_object", where, after, PAGE_ROWS):
            fitting = [row for row in page if str(row["sha256"]).startswith(prefix)]
            found += [row for row in fitting if stream_id in (None, row["stream_id"])]
            if len(fitting) < len(page):
                break
            after = ARTIFACTS.place_in("by_object", page[-1])
        return found

    def reference(self, row: Row) -> Reference:
        """The reference behind a row, as its event names it."""
        event = recorded(self._ports, row)
        member = next(one for one in event.header.artifact_refs if one["sha256"] == row["sha256"])
        return reference_of(member, self._ports.genesis(event.stream_id).key)

    def look(self, row: Row) -> State:
        """What became of an artifact: ``present missing withheld damaged``; reads it whole."""
        return self.vault.look(self.reference(row))

    def keep(self, conversation: str, source: Given, **how: Unpack[How]) -> Artifact:
        """Keep bytes in a conversation outside any run, such as what comes with a message that starts one.

        Each call records an ``artifact.stored``; equal bytes are stored once. Raises as ``run.artifact`` does.
        """
        self._handle.check_writable()
        ports = self._ports
        stream_id = self._stream_of(conversation)
        asked = wanted(source, **how)
        subject = asked.subject
        done = ports.put_artifact(PutArtifact(stream_id, asked.source, asked.klass, asked.subject))
        draft = events.stored(
            ports.new_id("evt"),
            ports.now_ms(),
            ACTOR,
            reference_of_stored(asked, done),
            asked.facts(done.size),
            ports.genesis(stream_id).key,
            key=None if subject is None else ports.subject_key(stream_id, subject),
        )
        ports.append(UnitDraft((Entry(stream_id, (draft,)),)))
        return handle_of_stored(ports, asked, done)

    def sweep(self, older_than_s: float = 86_400.0) -> int:
        """Remove what uploads that were killed left behind a day ago or longer; how many."""
        self._handle.check_writable()
        return self.store.sweep(older_than_s)


class Keeping(Handle):
    """The artifacts of a ledger."""

    @property
    def artifacts(self) -> Artifacts:
        """Artifacts: list, find, read and check them, and keep some outside a run."""
        return Artifacts(self, self.stream_named)
