"""An open ledger as its features share it: the parts below, whether it can be written, and how it ends."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from msgspec.structs import replace

from counterfoil.abc import Authorizer, Clock, Host, Ids, Policy
from counterfoil.client import rebuilding
from counterfoil.client.assembling import keys_and_ports
from counterfoil.client.custody import older_epoch, revived_key
from counterfoil.client.place import Parts
from counterfoil.client.ports import LedgerPorts
from counterfoil.client.streams import SystemStreams
from counterfoil.companions.table import CompanionTable
from counterfoil.core.catalogue import Registry
from counterfoil.core.genesis import ContentMode
from counterfoil.core.ids import is_id
from counterfoil.core.upcast import Upcasts
from counterfoil.errors import (
    InputError,
    KeyStoreMissing,
    KeyStoreStale,
    KeyWithheld,
    StoreReadOnly,
    StreamNotFound,
)
from counterfoil.flow.drive import drive
from counterfoil.keys.keyring import Keyring
from counterfoil.runtime.heartbeat import Heartbeat
from counterfoil.runtime.look import find_conversation
from counterfoil.runtime.owner import make_owner
from counterfoil.runtime.trees import Trees
from counterfoil.store.contract import Store
from counterfoil.store.standing import refusal


class Handle:
    """What every feature of a ledger stands on. Features are classes of methods beside it, one module each.

    ``store``, ``ports`` and ``keyring`` are the parts below, for tools that look at the ledger itself.
    """

    keyring: Keyring
    ports: LedgerPorts
    content: ContentMode
    keeps_turns: bool = False
    """Whether the end of a run records its turn's head as ``turn.committed``."""

    def __init__(
        self,
        parts: Parts,
        *,
        tenant: str,
        content: ContentMode | None,
        clock: Clock,
        ids: Ids,
        policy: Policy | None = None,
        host: Host | None = None,
    ) -> None:
        # A ledger that nobody may append to is opened for reading, and says why when it is written to.
        self._closed = refusal(parts.store.standing(), parts.place)
        parts = parts if self._closed is None else replace(parts, read_only=True)
        self._parts = parts
        self.host: Host = host or Host()
        self.policy: Policy | None = policy
        self.place: str = parts.place
        self.tenant = tenant
        self.store: Store = parts.store
        self.registry: Registry = Registry()
        self.upcasts: Upcasts = Upcasts()
        self._companion_tables: dict[str, CompanionTable] = {}
        self.owner: str = make_owner()
        self._heartbeat = Heartbeat()
        self._trees = Trees()
        self.keyring, self.ports, self.content = keys_and_ports(
            parts, tenant, content, clock, ids, self.registry
        )
        self.streams: SystemStreams = SystemStreams(self.ports, self.content)
        self._keys_missing = parts.keys_missing or not self._opens()
        self._withheld: KeyWithheld | None = None
        self._stale: KeyStoreStale | None = None
        self._begin()

    def __repr__(self) -> str:
        return f"<Ledger {self.id} at {self.place}>"

    @property
    def id(self) -> str:
        """``ldg_…``, fixed when the ledger was made."""
        return self.store.ledger_id

    @property
    def created(self) -> bool:
        """Whether opening made the ledger."""
        return self._parts.created

    @property
    def keys_withheld(self) -> str:
        """Why the key store that is there opens nothing, such as a missing ``kek/``; empty where it does."""
        return "" if self._withheld is None else self._withheld.message

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written with this handle."""
        return self._parts.read_only or self._keys_missing or self._stale is not None

    @property
    def authorizer(self) -> Authorizer | None:
        """Who decides what is shown; None is :class:`counterfoil.access.EmbeddedAuthorizer`, which asks no roles."""
        gate = self.ports.gate
        return None if gate is None else gate.authorizer

    @authorizer.setter
    def authorizer(self, given: Authorizer | None) -> None:
        if given is None:
            self.ports.gate = None
            return
        from counterfoil.client.gating import Gate

        self.ports.gate = Gate(self, given)

    def close(self) -> None:
        """Finish what is queued and release the files; idempotent. Open runs keep their leases until they expire."""
        self._heartbeat.stop()
        self.store.close()
        self._parts.key_store.close()
        if self._parts.artifacts is not None:
            self._parts.artifacts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- inside ----

    def check_writable(self) -> None:
        """Raise ``KeyStoreMissing``, ``KeyStoreStale`` or ``StoreReadOnly`` when this handle cannot write."""
        if self._closed is not None:
            raise type(self._closed)(self._closed.message, hint=self._closed.hint, **self._closed.fields)
        if self._keys_missing:
            raise KeyStoreMissing(
                f"the key store of {self.place} is not found, so nothing can be written",
                hint="put keys.db and kek/ back beside ledger.db, from their own backup; nothing new is made silently",
                place=self.place,
            )
        if self._stale is not None:
            raise KeyStoreStale(self._stale.message, hint=self._stale.hint, **self._stale.fields)
        if self._parts.read_only:
            raise StoreReadOnly(
                f"{self.place} was opened for reading", hint="open it without read_only", place=self.place
            )

    def stream_named(self, name: str) -> str:
        """Stream id of a conversation by its name or its own id. Raises ``StreamNotFound``."""
        found = self._find(name)
        if found is None:
            raise StreamNotFound(
                f"there is no conversation {name!r} for tenant {self.tenant} in {self.place}",
                hint="`counterfoil ls` lists them",
            )
        return found

    def _find(self, name: str) -> str | None:
        if is_id(name, "str"):
            # By its column: a stream is shown also where its genesis cannot be read (DESIGN 2.9).
            stored = self.store.stream(name)
            return name if stored is not None and stored.tenant == self.tenant else None
        return drive(find_conversation(self.ports, name), self.ports) if self._has_index() else None

    def _has_index(self) -> bool:
        if self._withheld is not None:
            raise KeyWithheld(
                f"names cannot be looked up: {self._withheld.message}",
                hint=f"{self._withheld.hint}, or name the conversation by its stream id; `counterfoil ls` shows it",
                **self._withheld.fields,
            ) from self._withheld
        if self._keys_missing:
            raise KeyStoreMissing(
                f"the key store of {self.place} is not found, so names cannot be looked up",
                hint="name the conversation by its stream id; `counterfoil ls` shows it",
                place=self.place,
            )
        return not self._parts.read_only or self.streams.exists("config")

    def _opens(self) -> bool:
        """Whether the key store at hand is this ledger's: it holds the key of the tenant's first stream."""
        if self._parts.keys_missing:
            return False
        if not self.streams.exists("config"):
            return True
        try:
            key_id = self.ports.genesis(self.streams.id_of("config")).key
        except InputError:
            if not self._parts.read_only:
                raise
            return True
        return self.keyring.store.get(key_id) is not None

    def _begin(self) -> None:
        """What every ledger has before its first conversation: the stream of settings, the index key, whole rows."""
        if self._keys_missing:
            return
        config = self.streams.id_of("config")
        if not self.streams.exists("config"):
            if self._parts.read_only:
                return
            self.keyring.index_key(config)
            self.streams.begin()
        try:
            self.keyring.index_key(config)
        except KeyWithheld as withheld:
            if not self._parts.read_only:
                raise
            # Reading goes on without content and without names, as it does without a key store (DESIGN 2.9).
            self._withheld = withheld
        if self._parts.read_only:
            return
        self._stale = older_epoch(self.ports, self.streams.id_of("keys"), self.place)
        if self._stale is None:
            if rebuilding.stale_tables(self.store):
                rebuilding.rebuild(self.ports, self.content)
            self._stale = revived_key(self.ports, self.place)
