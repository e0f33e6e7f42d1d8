"""The health of a ledger in one list of findings: what it stands on, its keys, and what waits (DESIGN 11)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from counterfoil.adapters.filesystem.place import writable
from counterfoil.artifacts.rows import ARTIFACTS
from counterfoil.client.finding import Finding
from counterfoil.client.place import MEMORY
from counterfoil.client.place_checks import kek_modes, of_directory
from counterfoil.client.ports import LedgerPorts
from counterfoil.client.rebuilding import stale_tables
from counterfoil.client.searching import Searching
from counterfoil.client.waiting_checks import waiting
from counterfoil.errors import CounterfoilError
from counterfoil.store.standing import refusal

SKEW_MOST_MS: Final = 2_000
"""A difference of clocks from which leases and times mislead."""


STREAMS_MAX: Final = 1_000
"""Streams whose events are counted; with more, the count is a lower bound."""


class Doctoring(Searching):
    """Looking at a ledger's health."""

    def doctor(self) -> list[Finding]:
        """What every check came to. Reads only, with a bounded number of rows, also without keys.

        A check that the store fails is ``unknown`` for what it would have read, and the others go on.
        """
        from counterfoil.keys.file_provider import FileKeyProvider

        found = [engine(self), schema(self.ports), keys(self), epoch(self)]
        found += [skew(self.ports), future(self.ports)]
        if isinstance(self._parts.provider, FileKeyProvider):
            found.append(kek_modes(self._parts.provider.directory))
        if self.place != MEMORY and "://" not in self.place:
            found += of_directory(Path(self.place))
        try:
            found += waiting(self.ports)
        except CounterfoilError as error:
            found.append(Finding("what waits", "work", "unknown", None, "", error.message, error.hint or ""))
        found += artifact_folder(self)
        return [*found, search_lag(self), feed_lag(self.ports), unsealed_tail(self.ports)]


def engine(ledger: Doctoring) -> Finding:
    """What the store can keep, and whether it takes anything at all."""
    can = ledger.store.capabilities
    closed = refusal(ledger.store.standing(), ledger.place)
    if closed is not None:
        return Finding("store", "store", "warn", can.engine, "", closed.message, closed.hint or "")
    if ledger.place != MEMORY and "://" not in ledger.place and not writable(Path(ledger.place)):
        means = "this user can read it, and record nothing: the directory cannot be written"
        do = "give this user write permission there, if it is to record"
        return Finding("store", "store", "warn", can.engine, "", means, do)
    means = "durable" if can.durable else "forgotten with its handle"
    shared = "shared by processes" if can.shared else "of one process"
    return Finding("store", "store", "ok", can.engine or "unnamed", "", f"{means}, {shared}")


def schema(ports: LedgerPorts) -> Finding:
    """The store's schema, and whether derived tables are of this build. One of another schema does not open at all."""
    stale = len(stale_tables(ports.store))
    if stale:
        means = "derived tables to be made again from the events"
        return Finding("schema", "store", "warn", stale, "count", means, "counterfoil rebuild")
    number = _schema_of(ports.store.capabilities.engine)
    return Finding("schema", "store", "ok", number, "count", "store and derived tables are of this build")


def _schema_of(engine: str) -> int | None:
    """The one schema that this build opens on an engine; memory has none."""
    if engine == "sqlite":
        from counterfoil.adapters.sqlite.schema import SCHEMA

        return SCHEMA
    if engine.startswith("postgres"):
        from counterfoil.adapters.postgres.schema import SCHEMA as ON_SERVER

        return ON_SERVER
    return None


def keys(ledger: Doctoring) -> Finding:
    """Whether content can be opened, and whether this key store may be written with."""
    if ledger._keys_missing:  # noqa: SLF001 - the mixin's own handle
        means = "the key store is not found: headers can be read, content and names cannot"
        return Finding("keys", "keys", "bad", None, "", means, "put keys.db and kek/ back from their backup")
    withheld = ledger._withheld  # noqa: SLF001 - the mixin's own handle
    if withheld is not None:
        return Finding("keys", "keys", "bad", None, "", withheld.message, withheld.hint or "")
    return Finding("keys", "keys", "ok", None, "", "at hand")


def epoch(ledger: Doctoring) -> Finding:
    """The key-encryption key in use, and whether the ledger has been rotated past it."""
    from counterfoil.client.custody import older_epoch

    if ledger._keys_missing:  # noqa: SLF001 - the mixin's own handle
        return Finding("epoch", "keys", "unknown", None, "", "not to be known without the key store")
    try:
        held = ledger.keyring.store.epochs().get(ledger.tenant)
        stale = older_epoch(ledger.ports, ledger.streams.id_of("keys"), ledger.place)
    except CounterfoilError as error:
        return Finding("epoch", "keys", "unknown", None, "", error.message, error.hint or "")
    if stale is not None:
        return Finding("epoch", "keys", "bad", held, "", stale.message, stale.hint or "")
    return Finding("epoch", "keys", "ok", held, "", "the newest that the ledger knows of")


def artifact_folder(ledger: Doctoring) -> list[Finding]:
    """Whether the folder beside the ledger is there that its events name artifacts of; nothing without such a folder."""
    from counterfoil.adapters.filesystem.artifacts import FileArtifacts

    store = ledger._parts.artifacts  # noqa: SLF001 - the mixin's own handle
    if not isinstance(store, FileArtifacts):
        return []
    name, tenant = "artifacts", (ledger.tenant,)
    try:
        some = ledger.store.select(ARTIFACTS.name, "by_tenant", tenant, limit=1)
    except CounterfoilError as error:
        return [Finding(name, "store", "unknown", None, "", error.message, error.hint or "")]
    if some and not store.directory.is_dir():
        means = "events name artifacts, and their folder is not there"
        return [Finding(name, "store", "bad", None, "", means, "put artifacts/ back from its backup")]
    means = "their folder is there" if some else "none is recorded"
    return [Finding(name, "store", "ok", None, "", means)]


def skew(ports: LedgerPorts) -> Finding:
    """The store's clock against this process's; on a server the two may differ."""
    before = ports.clock.now_ms()
    store_ms = ports.now_ms()
    after = ports.clock.now_ms()
    # What lies between the two readings of this clock is the way there and back, and no skew.
    away = store_ms - after if store_ms > after else min(store_ms - before, 0)
    if abs(away) >= SKEW_MOST_MS:
        means = "the store's clock against this process's: times and waits mislead"
        return Finding("clock skew", "store", "warn", away, "ms", means, "set the clocks by one source")
    return Finding("clock skew", "store", "ok", away, "ms", "the store's clock against this process's")


def future(ports: LedgerPorts) -> Finding:
    """Whether the newest event is dated after now: a clock was set back, or was ahead."""
    name = "newest event"
    try:
        events = ports.store.recent(1).events
    except CounterfoilError as error:
        return Finding(name, "store", "unknown", None, "", error.message, error.hint or "")
    if not events:
        return Finding(name, "store", "ok", None, "", "nothing is recorded yet")
    age = ports.now_ms() - events[-1].recorded_at_ms
    if age <= -SKEW_MOST_MS:
        means = "recorded after now: a clock was set back, or was ahead"
        return Finding(name, "store", "warn", age, "ms", means, "check the clock of the machine")
    return Finding(name, "store", "ok", age, "ms", "since it was recorded")


def search_lag(ledger: Doctoring) -> Finding:
    """How far the search index is behind, and whether its file can be searched at all."""
    name = "search lag"
    if ledger.search_place == "off":
        return Finding(name, "store", "ok", None, "", "search is off")
    try:
        lag = ledger.search_lag()
    except CounterfoilError as error:
        return Finding(name, "store", "warn", None, "", error.message, error.hint or "")
    if lag is None:
        return Finding(name, "store", "ok", None, "", "none yet: the first search makes it")
    if lag.caught_up:
        return Finding(name, "store", "ok", 0, "ms", "the index has reached the end of the ledger")
    means = "the next search brings the index up to date"
    return Finding(name, "store", "ok", lag.ms, "ms", means)


def feed_lag(ports: LedgerPorts) -> Finding:
    """Whether a reader of the feed sees everything that is recorded; a server holds back behind what is not committed."""
    name = "feed lag"
    try:
        newest = ports.store.recent(1)
        behind = ports.store.feed(newest.cursor, 1)
    except CounterfoilError as error:
        return Finding(name, "store", "unknown", None, "", error.message, error.hint or "")
    if behind.lag:
        return Finding(name, "store", "warn", None, "", behind.lag, "end the transaction that holds it back")
    return Finding(name, "store", "ok", 0, "ms", "all that is recorded can be followed")


def unsealed_tail(ports: LedgerPorts) -> Finding:
    """How many events no seal covers. This version makes no seals, so that is all of them."""
    name = "unsealed tail"
    try:
        streams = ports.store.streams(ports.tenant, limit=STREAMS_MAX)
    except CounterfoilError as error:
        return Finding(name, "store", "unknown", None, "", error.message, error.hint or "")
    events = sum(
        one.head.sequence for one in streams if type(one.head.sequence) is int and one.head.sequence > 0
    )
    more = len(streams) >= STREAMS_MAX
    means = "events without a seal: this version makes none, so nothing shows a cut or a rollback"
    return Finding(name, "store", "ok", events, "count", means, at_least=more)
