"""Copying a whole ledger to another place or engine; it keeps its id, and the source is retired (FORMAT 14)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from counterfoil.abc import ArtifactStore, Clock, Ids, KeyProvider
from counterfoil.archive.copying import Copied, copy_companions, copy_streams, differing, streams_of
from counterfoil.artifacts.rows import ARTIFACTS
from counterfoil.client import rebuilding
from counterfoil.client.assembling import keys_and_ports
from counterfoil.client.clock import SystemClock
from counterfoil.client.copying_keys import copy_keys
from counterfoil.client.features import TABLES
from counterfoil.client.ids import UlidIds
from counterfoil.client.place import MEMORY, Parts, open_parts, place_of
from counterfoil.client.streams import SystemStreams, system_stream_id
from counterfoil.core.catalogue import Registry
from counterfoil.core.genesis import ContentMode
from counterfoil.errors import (
    ArtifactDamaged,
    ChainBroken,
    ConfigInvalid,
    InvalidForm,
    KeyStoreMissing,
    LedgerLost,
    LedgerMoved,
    LedgerNotFound,
    StoreBusy,
)
from counterfoil.flow.requests import UnitDraft
from counterfoil.store.contract import Store
from counterfoil.store.unit import Refusal, StoredStream

MOVED: Final = "ledger.moved"
ROTATED: Final = "keys.rotated"
CONFIG: Final = "system/config"
PAGE: Final = 1000
TRIES_MAX: Final = 5

Progress = Callable[[str, int, int | None], None]
"""Told what is being done, how far, of how much."""


class CopyReport(Struct, frozen=True):
    """What a copy came to. ``resumed``: an earlier one had begun it; ``already``: it had ended, and nothing was copied now."""

    ledger: str
    source: str
    target: str
    streams: int
    events: int
    keys: int
    artifacts: int
    companions: int
    resumed: bool
    already: bool = False

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        return asdict(self)


def copy_ledger(
    source: str | Path,
    target: str | Path,
    *,
    artifacts: str | Path | None = None,
    source_artifacts: str | Path | None = None,
    keys: KeyProvider | None = None,
    target_keys: KeyProvider | None = None,
    clock: Clock | None = None,
    ids: Ids | None = None,
    progress: Progress | None = None,
) -> CopyReport:
    """Copy the ledger at ``source`` to ``target``, which must be empty or a copy of it that is not whole yet.

    Others may write to the source until the end; then it is retired with ``ledger.moved`` and refuses every append, what
    was recorded since is brought over, and only then the copy opens. Killed at any point, it is run again and goes on.
    The copy is verified before the source is retired. Run again when it has ended it verifies the copy once more, checks
    that it holds everything that the source does, and changes nothing. ``artifacts`` says where the copy's artifacts lie where the place
    does not. Raises ``InvalidForm`` for a target that holds something else, ``ChainBroken`` where the source is damaged,
    ``KeyStoreMissing`` without its keys, ``LedgerMoved`` where the source goes on at another place, ``StoreBusy`` while
    another copy is at work on either.
    """
    clock, ids = clock or SystemClock(), ids or UlidIds()
    with ExitStack() as stack:
        begun = _opened(source, keys, clock, ids, source_artifacts, create=False)
        stack.callback(_close, begun)
        stack.enter_context(_alone(begun.place))
        # A source is retired only when its copy is there: of a retired one nothing is begun.
        moved = begun.store.standing() == "moved"
        same = SameLedger(ids, begun.store.ledger_id)
        try:
            into = _opened(target, target_keys, clock, same, artifacts, create=not moved)
        except (LedgerNotFound, LedgerLost):
            if moved:
                raise _moved(begun.place) from None
            raise
        stack.callback(_close, into)
        if os.path.realpath(into.place) != os.path.realpath(begun.place):
            stack.enter_context(_alone(into.place))
        return _Copy(begun, into, clock, ids, progress or (lambda *_: None)).run()


def _moved(place: str) -> LedgerMoved:
    return LedgerMoved(
        f"{place} was copied already, and goes on there", hint="copy it from where it went", place=place
    )


@contextmanager
def _alone(place: str) -> Iterator[None]:
    """Be the only copy at work on a directory, for as long as the process lives. A server's schema is not locked.

    Of two on one target the later would take keys away that the copy has minted since the earlier one opened it.
    """
    if "://" in place:
        yield
        return
    held = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise StoreBusy(
            f"another copy is at work on {place}", hint="wait until it has ended", path=place
        ) from error
    finally:
        os.close(held)


class SameLedger:
    """Mints the id of the ledger that is copied where a new ledger asks for one."""

    def __init__(self, ids: Ids, ledger_id: str) -> None:
        self._ids = ids
        self._ledger_id = ledger_id

    def new(self, prefix: str) -> str:
        """The ledger's id for ``ldg``, a minted one for anything else."""
        return self._ledger_id if prefix == "ldg" else self._ids.new(prefix)


def _opened(
    place: str | Path,
    keys: KeyProvider | None,
    clock: Clock,
    ids: Ids,
    artifacts: str | Path | None,
    *,
    create: bool,
) -> Parts:
    if str(place) == MEMORY:
        raise InvalidForm(
            "a ledger in memory ends with its process: it is neither copied nor a copy", argument="place"
        )
    parts = open_parts(
        place, tables=TABLES, create=create, read_only=False, clock=clock, ids=ids, provider=keys
    )
    if parts.keys_missing:
        _close(parts)
        raise KeyStoreMissing(
            f"the key store of {place} is not found; a copy without keys could never be written to",
            hint="put keys.db and kek/ back first",
            place=str(place),
        )
    return parts if artifacts is None else replace(parts, artifacts=place_of(artifacts, read_only=False))


def _close(parts: Parts) -> None:
    parts.store.close()
    parts.key_store.close()
    if parts.artifacts is not None:
        parts.artifacts.close()


class _Copy:
    def __init__(self, source: Parts, target: Parts, clock: Clock, ids: Ids, progress: Progress) -> None:
        self._from = source
        self._to = target
        self._clock = clock
        self._ids = ids
        self._progress = progress
        self._registry = Registry()

    def run(self) -> CopyReport:
        source, target = self._from.store, self._to.store
        if self._has_ended():
            return self._confirmed()
        self._demand_objects()
        resumed = self._begin()
        target.despite("copying")
        if source.standing() != "moved":
            copied = copy_streams(source, target, progress=self._told("copying"))
        keys = self._keys()
        objects = self._objects()
        if source.standing() != "moved":
            self._verify()
            self._retire()
        self._demand_chosen()
        copied = copy_streams(source, target, last=self._last, progress=self._told("copying"))
        companions = copy_companions(source, target)
        # What came while keys and artifacts were copied: nothing comes any more.
        keys += self._keys()
        objects += self._objects()
        wrong = differing(source, target, self._last)
        if wrong is not None:
            raise ChainBroken(
                f"{wrong} is not in the copy as it is in {self._from.place}",
                hint="the source is retired and whole; empty the target and run the copy again",
                stream_id=wrong,
            )
        self._finish()
        return CopyReport(
            target.ledger_id,
            self._from.place,
            self._to.place,
            copied.streams,
            copied.events,
            keys,
            objects,
            companions,
            resumed,
        )

    def _keys(self) -> int:
        """Bring the keys over; not into a copy that has opened, which mints keys that the source does not know."""
        if self._to.store.standing() != "copying":
            raise StoreBusy(
                f"another copy has ended {self._to.place} meanwhile",
                hint="run the same command again: it says how it stands",
                path=self._to.place,
            )
        return copy_keys(self._from, self._to)

    def _has_ended(self) -> bool:
        """Whether the source went to this very place, and goes on there."""
        source, target = self._from.store, self._to.store
        same = target.ledger_id == source.ledger_id and self._from.place != self._to.place
        went = source.standing() == "moved" and target.standing() not in ("copying", "restored")
        return same and went and _holds(target)

    def _confirmed(self) -> CopyReport:
        """Nothing is copied twice: what lies there verifies, and still holds all that the source does."""
        copied = Copied()
        for stream in streams_of(self._from.store):
            end = self._last(stream)
            if not self._goes_on(stream, end):
                raise ChainBroken(
                    f"{self._to.place} is no copy of {self._from.place} any more: {stream.stream_id} is not there as it was",
                    hint="the source is retired and whole; run `counterfoil verify` on both",
                    stream_id=stream.stream_id,
                )
            copied.streams += 1
            copied.events += end
        self._verify()
        ledger, source, target = self._to.store.ledger_id, self._from.place, self._to.place
        return CopyReport(
            ledger, source, target, copied.streams, copied.events, 0, 0, 0, resumed=False, already=True
        )

    def _goes_on(self, stream: StoredStream, end: int) -> bool:
        """Whether the target's stream begins with all of the source's; events may have been added since."""
        there = self._to.store.stream(stream.stream_id)
        if there is None or (there.genesis, there.tenant) != (stream.genesis, stream.tenant):
            return False
        if end == 0:
            return True
        last, copy = [
            store.read(stream.stream_id, end - 1, 1, content=False)
            for store in (self._from.store, self._to.store)
        ]
        return [event.hash for event in copy] == [event.hash for event in last]

    def _told(self, words: str) -> Callable[[int, int | None], None]:
        return lambda done, total: self._progress(words, done, total)

    def _begin(self) -> bool:
        """Mark the target as a copy under way; whether it was one already. Raises what says that it is no place for one."""
        source, target = self._from.store, self._to.store
        if source.standing() not in ("open", "moved"):
            raise ConfigInvalid(f"{self._from.place} stands as {source.standing()}; copy it when it is open")
        standing = target.standing()
        same = target.ledger_id == source.ledger_id
        if self._from.place == self._to.place or not same or (standing != "copying" and _holds(target)):
            raise InvalidForm(
                f"{self._to.place} is not empty: a ledger is copied to a place where nothing is",
                hint="name another place, or export conversations and import them there",
                argument="target",
            )
        if source.standing() == "moved":
            if standing != "copying":
                raise _moved(self._from.place)
            self._demand_chosen()
        if standing == "copying":
            return True
        target.stand("copying")
        return False

    def _last(self, stream: StoredStream) -> int:
        """All but the fact that the source is retired, which is the source's alone."""
        sequence = stream.head.sequence
        if stream.kind != CONFIG or not sequence:
            return sequence
        (event,) = self._from.store.read(stream.stream_id, sequence - 1, 1, content=False)
        return sequence - 1 if event.event_type == MOVED else sequence

    def _tenants(self) -> list[str]:
        return sorted({stream.tenant for stream in streams_of(self._from.store) if stream.kind == CONFIG})

    def _retire(self) -> None:
        """``ledger.moved`` in the settings of the first tenant, and the standing that refuses every append."""
        source = self._from.store
        (tenant, *_) = self._tenants() or ["default"]
        _, ports, mode = keys_and_ports(self._from, tenant, None, self._clock, self._ids, self._registry)
        streams = SystemStreams(ports, mode)
        # A place can be renamed, and is another one seen from another directory; the key store there says which it is.
        where = {"where": self._to.place, "key_store": self._to.key_store.store_id}
        said = (MOVED, {"to_ledger": source.ledger_id}, where)
        source.stand("moved", ports.ready(UnitDraft((streams.entry("config", said),))))

    def _demand_chosen(self) -> None:
        """Two copies of one source may be under way; only the one that it was retired for ever opens."""
        where = self._went()
        if where.get("key_store", self._to.key_store.store_id) != self._to.key_store.store_id:
            raise LedgerMoved(
                f"{self._from.place} was copied to {where.get('where')}, and goes on there",
                hint=f"{self._to.place} is another copy, which was never whole and never opens: remove it",
                place=self._from.place,
            )

    def _went(self) -> Mapping[str, Any]:
        """What the source recorded when it was retired; the first word counts, should there be two."""
        source = self._from.store
        for tenant in self._tenants() or ["default"]:
            _, ports, _ = keys_and_ports(self._from, tenant, None, self._clock, self._ids, self._registry)
            config = system_stream_id(source.ledger_id, tenant, CONFIG)
            for event in source.read(config, 0, 1, frozenset({MOVED})) if source.stream(config) else ():
                content: Mapping[str, Any] = ports.event(event).content
                return content
        return {}

    def _verify(self) -> None:
        from counterfoil.evidence.verify import verify

        report = verify(
            self._to.store,
            level="digests",
            rows=False,
            artifacts=self._to.artifacts,
            progress=lambda n: self._progress("verifying", n, None),
        )
        if report.exit_code == 1:
            kinds = ", ".join(report.kinds)
            raise ChainBroken(
                f"the copy of {self._from.place} does not verify: {kinds}",
                hint="nothing was retired by this; run `counterfoil verify` on the source, and say where its artifacts lie "
                "if not beside it: --from-artifacts DIR",
                place=self._to.place,
            )

    def _finish(self) -> None:
        """Make the rows, name the new key store in the record, and open the copy; the last two in one transaction."""
        target = self._to.store
        target.despite("copying")
        tenants = self._tenants()
        for number, tenant in enumerate(tenants):
            _, ports, mode = keys_and_ports(self._to, tenant, None, self._clock, self._ids, self._registry)
            if not number:
                config = system_stream_id(target.ledger_id, tenant, CONFIG)
                ports.keyring.index_key(config)
                rebuilding.rebuild(ports, mode, lambda n: self._progress("making rows", n, None))
            self._name_key_store(ports, mode, last=number == len(tenants) - 1)
        if not tenants:
            target.stand("open")

    def _name_key_store(self, ports: Any, mode: ContentMode, *, last: bool) -> None:
        streams = SystemStreams(ports, mode)
        if mode == "clear" or not streams.exists("keys"):
            if last:
                self._to.store.stand("open")
            return
        number = 0
        for page in _pages(self._to.store, streams.id_of("keys")):
            number = page
        held = {"key_store": ports.keyring.store.store_id, "kek": ports.keyring.epoch()}
        fields = {"epoch_from": number, "epoch_to": number + 1, "keys": 0}
        unit = ports.ready(UnitDraft((streams.entry("keys", (ROTATED, fields, held)),)))
        if last:
            self._to.store.stand("open", unit)
        else:
            (outcome,) = self._to.store.append([unit]).result(60)
            if isinstance(outcome, Refusal):
                raise outcome.error

    # ---- artifacts ---------------------------------------------------------------------------------------------------

    def _demand_objects(self) -> None:
        """A ledger that names artifacts is not copied without them: the source would be retired, and they forgotten."""
        if self._from.artifacts is None and self._from.store.select(ARTIFACTS.name, limit=1):
            raise ConfigInvalid(
                f"{self._from.place} names artifacts, and nobody has said where they lie",
                hint="name their directory: --from-artifacts DIR, or `artifacts` in counterfoil.toml",
            )

    def _objects(self) -> int:
        if self._from.artifacts is None:
            return 0
        return copy_objects(self._from.artifacts, self._place_for_objects, self._told("artifacts"))

    def _place_for_objects(self) -> ArtifactStore:
        if self._to.artifacts is None:
            raise ConfigInvalid(
                f"{self._from.place} has artifacts, and {self._to.place} has no place for them",
                hint="name a directory that all its users share: --artifacts DIR",
            )
        return self._to.artifacts


def _holds(store: Store) -> bool:
    return bool(store.streams(limit=1))


def _pages(store: Store, stream_id: str) -> Iterator[int]:
    """The epoch that each ``keys.rotated`` of a stream counts to."""
    from counterfoil.core.event import read_header

    after = 0
    while events := store.read(stream_id, after, PAGE, frozenset({ROTATED}), content=False):
        after = events[-1].sequence
        for event in events:
            yield int(read_header(event.header).data["epoch_to"])


def copy_objects(
    source: ArtifactStore,
    place: Callable[[], ArtifactStore],
    progress: Callable[[int, int | None], None] = lambda *_: None,
) -> int:
    """Copy every object that the target has not in its full size, each held to its name; how many."""
    copied, after = 0, ""
    while names := source.names(after, PAGE):
        after = names[-1]
        target = place()
        for name in names:
            if target.size(name) == source.size(name):
                continue
            with target.upload() as upload:
                for piece in source.read(name):
                    upload.write(piece)
                if upload.commit() != name:
                    target.delete(name)
                    raise ArtifactDamaged(
                        f"artifact {name[:12]}… has not the digest that names it",
                        hint="run `counterfoil artifacts verify` on the source",
                        sha256=name,
                        check="digest",
                    )
            copied += 1
            progress(copied, None)
    return copied
