"""Restore: a backup becomes a ledger that is read, and goes on when a named person has accepted what is lost (DESIGN 4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from counterfoil.abc import Clock, Ids, KeyProvider
from counterfoil.archive.copying import streams_of
from counterfoil.archive.place import new_place, sync_directory
from counterfoil.artifacts.given_paths import given_path
from counterfoil.client import rebuilding
from counterfoil.client.assembling import keys_and_ports
from counterfoil.client.backup import Manifest, unpack
from counterfoil.client.clock import SystemClock
from counterfoil.client.features import TABLES
from counterfoil.client.ids import UlidIds
from counterfoil.client.lookback import RESTORED
from counterfoil.client.place import Parts, open_parts
from counterfoil.client.streams import SystemStreams
from counterfoil.core.catalogue import Registry
from counterfoil.core.forms import time_text
from counterfoil.errors import ArchiveInvalid, ConfigInvalid, InvalidForm, KeyStoreMissing, KeyWithheld
from counterfoil.flow.requests import UnitDraft
from counterfoil.runtime.rows import CONVERSATIONS
from counterfoil.store.unit import Refusal, StoredStream

LOOK_BACK_DAYS: Final = 30
"""How long effects are asked for before they are sent, unless another number is given: longer than queues redeliver."""
NOTE: Final = "restored.json"
"""Beside the restored ledger until its loss is accepted: what the backup said of itself."""

Progress = Callable[[str, int, int | None], None]


class Restored(Struct, frozen=True):
    """A restored ledger: where it is, and what the backup held."""

    place: str
    ledger: str
    taken_at: str
    streams: int
    events: int
    standing: str = "restored"

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        return asdict(self)


def restore_backup(
    backup: str | Path,
    to: str | Path,
    *,
    keys: KeyProvider | None = None,
    clock: Clock | None = None,
    ids: Ids | None = None,
    progress: Progress | None = None,
) -> Restored:
    """Make the ledger of a backup in the directory ``to``, which is not there; it can be read, and not written.

    Everything is held to its digest and verified, and the ledger appears whole or not at all. What was recorded after
    the backup is lost: :func:`accept_loss` says so on record and opens it. Raises ``ArchiveInvalid``, ``InvalidForm``,
    ``ChainBroken`` and the StoreErrors of a disk.
    """
    clock, ids, told = clock or SystemClock(), ids or UlidIds(), progress or (lambda *_: None)
    target = given_path(to, "to")
    with new_place(target) as partial:
        partial.mkdir(mode=0o700)
        told("unpacking", 0, None)
        manifest = unpack(given_path(backup, "backup"), partial)
        parts = _opened(partial, keys, clock, ids)
        try:
            if parts.store.ledger_id != manifest.ledger:
                raise ArchiveInvalid(
                    "the backup's ledger is not the one that its manifest names", line=None, offset=None
                )
            if parts.store.standing() != "open":
                raise ConfigInvalid(
                    f"the ledger of this backup stood as {parts.store.standing()} when it was taken",
                    hint="restore a backup of the ledger that went on",
                )
            _prepare(parts, clock, ids, told)
            parts.store.stand("restored")
        finally:
            _close(parts)
        _note(partial, manifest)
        sync_directory(partial)
    return Restored(str(target), manifest.ledger, manifest.taken_at, manifest.streams, manifest.events)


def accept_loss(
    place: str | Path,
    *,
    by: str,
    reason: str,
    look_back_days: float = LOOK_BACK_DAYS,
    keys: KeyProvider | None = None,
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> Restored:
    """Record ``ledger.restored`` in the name of a person, and let the restored ledger go on.

    For ``look_back_days`` every effect is asked for at its provider before it is sent: what was done in the lost stretch
    is found and recorded, not done again. Raises ``InvalidForm`` for a ledger that was not restored.
    """
    if not by.strip() or not reason.strip():
        raise InvalidForm("by and reason say who and why; neither may be empty", argument="by")
    if not 0 <= look_back_days <= 3650:
        raise InvalidForm("looking back takes 0 to 3650 days", argument="look_back_days")
    clock, ids = clock or SystemClock(), ids or UlidIds()
    parts = _opened(place, keys, clock, ids)
    try:
        if parts.store.standing() != "restored":
            raise InvalidForm(
                f"{place} was not restored from a backup, or its loss was accepted", argument="place"
            )
        parts.store.despite("restored")
        manifest = _noted(parts)
        until = datetime.fromtimestamp(parts.store.now_ms() / 1000, UTC) + timedelta(days=look_back_days)
        fields = {
            "taken_at": manifest.taken_at,
            "streams": manifest.streams,
            "events": manifest.events,
            "look_back_until": time_text(int(until.timestamp() * 1000)),
        }
        tenants = sorted({s.tenant for s in _streams(parts) if s.kind == "system/config"}) or ["default"]
        units = []
        for tenant in tenants:
            _, ports, mode = keys_and_ports(parts, tenant, None, clock, ids, Registry())
            streams = SystemStreams(ports, mode)
            units.append(
                ports.ready(
                    UnitDraft((streams.entry("config", (RESTORED, fields, {"by": by, "reason": reason})),))
                )
            )
        for unit in units[:-1]:
            (outcome,) = parts.store.append([unit]).result(60)
            if isinstance(outcome, Refusal):
                raise outcome.error
        parts.store.stand("open", units[-1])
    finally:
        _close(parts)
    (Path(place).expanduser() / NOTE).unlink(missing_ok=True)
    return Restored(str(place), manifest.ledger, manifest.taken_at, manifest.streams, manifest.events, "open")


def _opened(place: str | Path, keys: KeyProvider | None, clock: Clock, ids: Ids) -> Parts:
    parts = open_parts(
        place, tables=TABLES, create=False, read_only=False, clock=clock, ids=ids, provider=keys
    )
    if parts.keys_missing:
        _close(parts)
        raise KeyStoreMissing(
            f"the key store of {place} is not found", hint="restore the whole backup", place=str(place)
        )
    return parts


def _prepare(parts: Parts, clock: Clock, ids: Ids, told: Progress) -> None:
    """Make derived rows where the backup came without them."""
    if parts.store.select(CONVERSATIONS, limit=1) or not parts.store.streams(limit=1):
        return
    stream = next((stream for stream in _streams(parts) if stream.kind == "system/config"), None)
    if stream is None:
        return
    _, ports, mode = keys_and_ports(parts, stream.tenant, None, clock, ids, Registry())
    try:
        ports.keyring.index_key(stream.stream_id)
        rebuilding.rebuild(ports, mode, lambda n: told("making rows", n, None))
    except KeyWithheld:
        # The key-encryption keys lie elsewhere and are not at hand: rows come with the first opening that has them.
        return


def _streams(parts: Parts) -> Iterator[StoredStream]:
    return streams_of(parts.store)


def _note(directory: Path, manifest: Manifest) -> None:
    text = {
        "ledger": manifest.ledger,
        "taken_at": manifest.taken_at,
        "streams": manifest.streams,
        "events": manifest.events,
    }
    (directory / NOTE).write_text(json.dumps(text, sort_keys=True) + "\n")


def _noted(parts: Parts) -> Manifest:
    """What the backup said of itself; where the note was lost, what can be counted."""
    try:
        told = json.loads((Path(parts.place) / NOTE).read_text())
        return Manifest(told["ledger"], told["taken_at"], int(told["streams"]), int(told["events"]), {})
    except (OSError, ValueError, KeyError):
        heads = [stream.head.sequence for stream in _streams(parts)]
        newest = parts.store.recent(1).events
        at_ms = newest[0].recorded_at_ms if newest else 0
        return Manifest(parts.store.ledger_id, time_text(at_ms), len(heads), sum(heads), {})


def _close(parts: Parts) -> None:
    parts.store.close()
    parts.key_store.close()
    if parts.artifacts is not None:
        parts.artifacts.close()
