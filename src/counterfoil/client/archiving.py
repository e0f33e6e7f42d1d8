"""Archives of an open ledger: conversations out to a file, and in from one, byte for byte (FORMAT 14 and 15)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from counterfoil.abc.authorizer import Actor
from counterfoil.archive.events import Keys, archive_fields
from counterfoil.artifacts.given_paths import given_path
from counterfoil.client.access import Accessing
from counterfoil.core.event_types import CLASSES
from counterfoil.core.several import several
from counterfoil.errors import AccessRefused, InvalidForm, KeyMissing, KeyWithheld

if TYPE_CHECKING:
    from counterfoil.archive.package import Lock, PackedKey
    from counterfoil.archive.writing import Exported, ExportedStream
    from counterfoil.client.taking import Taken

EXPORTED: Final = "archive.exported"
STREAMS_PER_APPEND: Final = 100

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True)
class KeysBy:
    """How the keys of an export are protected: one of a passphrase, a recipient's public key, or the epoch."""

    passphrase: str | None = field(default=None, repr=False)
    recipient: bytes | None = None
    epoch: bool = False

    @property
    def word(self) -> Keys:
        """As the events say it. Raises InvalidForm unless exactly one is given."""
        given = [self.passphrase is not None, self.recipient is not None, self.epoch]
        if sum(given) != 1:
            raise InvalidForm("keys travel by a passphrase, to a recipient or under the epoch: choose one")
        words: tuple[Keys, ...] = ("passphrase", "recipient", "epoch")
        return words[given.index(True)]


class Archiving(Accessing):
    """Conversations that leave for an archive, and come in from one."""

    def export_archive(
        self,
        conversations: Iterable[str],
        to: str | Path,
        *,
        keys: KeysBy | None = None,
        actor: str | Actor | None = None,
        purpose: str | None = None,
        other_party: str | None = None,
        progress: Progress | None = None,
    ) -> Exported:
        """Write conversations, by name or stream id, into an archive at ``to``: a ZIP if it ends in ``.zip``, else a directory.

        One consistent view, in bounded memory, whatever others write meanwhile. Content goes out as it is stored;
        ``keys`` puts the keys that open it into a package beside the archive (``TO.keys.json``). What is damaged goes
        out as it is and is named in the result. ``archive.exported`` is recorded before the archive gets its name.
        ``actor`` and ``purpose`` say who exports and what for: the authorizer is asked for each conversation, on record,
        before anything is written; with keys for content of every class. Where the ledger has an authorizer of its own
        they are demanded. Raises AccessRefused.
        Raises ``StreamNotFound``, ``InvalidForm`` where something is at ``to`` already, and the StoreErrors of a disk.
        """
        from counterfoil.archive.package import SUFFIX, pack
        from counterfoil.archive.place import new_place, synced, written
        from counterfoil.archive.writing import export

        self.check_writable()
        target = given_path(to, "to")
        names = several(conversations, "conversations")
        stream_ids = [self.stream_named(name) for name in names]
        if not stream_ids:
            raise InvalidForm("an export names a conversation", argument="conversations")
        word: Keys = "none" if keys is None else keys.word
        self._ask(stream_ids, actor, purpose, keyless=keys is None)
        with written(target) as sink, self.store.snapshot() as reader:
            done = export(reader, stream_ids, sink, self._parts.artifacts, self.registry, progress)
            if keys is None:
                self._record_export(done, word, other_party)
                return done
            packed = pack(self._packed(stream_ids), self._lock(keys))
            with new_place(target.with_name(target.name + SUFFIX)) as beside:
                with beside.open("xb") as file:
                    file.write(packed)
                    synced(file)
                beside.chmod(0o600)
                self._record_export(done, word, other_party)
        return done

    def import_archive(
        self,
        path: str | Path,
        *,
        as_tenant: bool = False,
        accept_damaged: bool = False,
        with_keys: bool = True,
        passphrase: Callable[[], str] | None = None,
        private_key: bytes | None = None,
        other_party: str | None = None,
        progress: Progress | None = None,
    ) -> Taken:
        """Take the conversations of an archive in, in one transaction: all of them, or nothing at the first fault.

        They must not exist here. Keys come from the package beside the archive, opened by ``passphrase`` (asked for
        when it is needed), ``private_key`` (X25519, 32 bytes) or the current epoch; ``with_keys=False`` leaves it
        closed: such a conversation is read and verified, and not gone on with. ``as_tenant`` takes in what belongs to
        another tenant. ``accept_damaged`` takes in what was damaged where it came from.
        Raises ``ArchiveInvalid`` with ``line`` and ``offset``, ``ArchiveRefused``, ``StreamExists`` or ``KeyWithheld``.
        """
        from counterfoil.client.taking import Taking

        self.check_writable()
        taking = Taking(
            self._parts, self.ports, self.streams, self.registry, as_tenant=as_tenant, accept=accept_damaged
        )
        source = given_path(path, "path")
        if with_keys:
            taking.open_package(source, passphrase, private_key)
        return taking.take(source, other_party, progress)

    # ---- inside ----

    def _ask(
        self, stream_ids: Sequence[str], actor: str | Actor | None, purpose: str | None, *, keyless: bool
    ) -> None:
        """An export is a decision of access for each conversation; durable before anything goes out."""
        if actor is None:
            if self.authorizer is not None:
                raise AccessRefused(
                    "this ledger asks who exports, and what for",
                    hint="give actor and purpose; on the command line --as NAME --purpose TEXT",
                    rule="access-required",
                )
            return
        access, klass = self.access, None if keyless else CLASSES[-1]
        for stream_id in stream_ids:
            access.decide(access.request("export", actor, purpose or "", stream_id=stream_id, klass=klass))

    def _record_export(self, done: Exported, word: Keys, other_party: str | None) -> None:
        content = {} if other_party is None else {"other_party": other_party}

        def said(stream: ExportedStream) -> tuple[str, dict[str, Any], dict[str, Any]]:
            fields = archive_fields(
                done.sha256, stream.stream_id, stream.genesis_hash, stream.up_to_sequence, stream.head, word
            )
            return EXPORTED, fields, content

        for some in _batches(done.streams):
            self.streams.record("archive", *map(said, some))

    def _packed(self, stream_ids: Sequence[str]) -> list[PackedKey]:
        """The keys of these streams that are at hand; those that are gone stay gone."""
        from counterfoil.archive.package import PackedKey

        found = []
        for stream_id in sorted(set(stream_ids)):
            for row in self.keyring.store.of_stream(stream_id):
                subjects = self.keyring.subjects(row.key_id)
                found.append(PackedKey(row.key_id, stream_id, self.keyring.unwrap(row), subjects))
        if not found:
            raise KeyMissing(
                "none of the keys of these conversations is in the key store", hint="export without keys"
            )
        return found

    def _lock(self, keys: KeysBy) -> Lock:
        from counterfoil.archive.package import by_epoch, by_passphrase, by_recipient

        if keys.passphrase is not None:
            return by_passphrase(keys.passphrase)
        if keys.recipient is not None:
            return by_recipient(keys.recipient)
        epoch = self.keyring.epoch()
        if not epoch:
            raise KeyWithheld("a clear ledger has no epoch", hint="use a passphrase or a recipient")
        return by_epoch(self.keyring.provider, epoch)


def _batches(streams: Sequence[ExportedStream]) -> Iterator[Sequence[ExportedStream]]:
    for start in range(0, len(streams), STREAMS_PER_APPEND):
        yield streams[start : start + STREAMS_PER_APPEND]
