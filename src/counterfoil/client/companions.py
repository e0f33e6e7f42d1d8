"""The companions of a ledger: tables that an application declares, and their rows read back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from counterfoil.client.handle import Handle
from counterfoil.companions.read import Companion
from counterfoil.companions.rows import COMPANIONS
from counterfoil.companions.seal import opened, row_key
from counterfoil.companions.table import CompanionTable, declared
from counterfoil.core.event_types import DEFAULT_CLASS
from counterfoil.errors import (
    ContentDamaged,
    InputError,
    InvalidForm,
    KeyDamaged,
    KeyMissing,
    KeyStoreMissing,
    KeyWithheld,
    StreamNotFound,
)
from counterfoil.store.rows import Key, Row

PAGE_ROWS: Final = 200


class Companions(Handle):
    """Rows beside the events: they are truth, not rebuilt, and written only with ``run.record(…, rows=[…])``."""

    def declare_table(self, name: str, key: Sequence[str] | str, version: int = 1) -> CompanionTable:
        """Declare a table of companions: ``key`` names the members of a row that make its key.

        ``version`` is kept with each row; raise it when what the rows hold changes. Saying the same again is allowed;
        another key or version under the same name raises ``InvalidForm``.
        """
        table = declared(name, key, version)
        known = self._companion_tables.setdefault(name, table)
        if known != table:
            raise InvalidForm(
                f"the table {name} is declared already, with another key or version",
                hint="one program has one declaration of a table",
                argument="name",
            )
        return known

    def companion(self, conversation: str, table: str, *key: Any) -> Companion | None:
        """The row of a declared table with this key in one conversation, or None. Raises ``StreamNotFound``."""
        spec = self._companion_table(table)
        stream_id = self._stream_with(conversation)
        material = self.ports.material(stream_id)
        place = (stream_id, table, row_key(material, table, spec.checked(key)))
        row = self.store.get(COMPANIONS.name, place)
        return None if row is None else self._companion(row)

    def companions(self, conversation: str, table: str | None = None) -> Iterator[Companion]:
        """The rows of one table in a conversation (None: of all), a page in memory at a time.

        They come in the order of their keyed keys, which means nothing. A row that cannot be opened is handed out with
        its ``state``, and the next ones follow. Tables need not be declared for reading.
        """
        stream_id = self._stream_with(conversation)
        prefix = (stream_id,) if table is None else (stream_id, table)
        after: Key | None = None
        while page := self.store.select(COMPANIONS.name, None, prefix, after, PAGE_ROWS):
            for row in page:
                yield self._companion(row)
            after = tuple(page[-1][name] for name in COMPANIONS.key)

    def _companion_table(self, name: str) -> CompanionTable:
        found = self._companion_tables.get(name)
        if found is None:
            raise InvalidForm(
                f"no table {name!r} is declared", hint="ledger.declare_table(name, key=…)", argument="table"
            )
        return found

    def _stream_with(self, name: str) -> str:
        found = self._find(name)
        if found is None:
            raise StreamNotFound(
                f"there is no conversation {name!r} for tenant {self.tenant} in {self.place}",
                hint="`counterfoil ls` lists them",
            )
        return found

    def _companion(self, row: Row) -> Companion:
        stream_id, table, key = str(row["stream_id"]), str(row["name"]), str(row["key"])
        told = (stream_id, table, key, str(row["commitment"]))
        hidden = self.ports.hidden(DEFAULT_CLASS, stream_id)
        if hidden is not None:
            return Companion(*told, "withheld", None, hidden)
        genesis = self.ports.genesis(stream_id)
        try:
            material = None if genesis.content == "clear" else self.keyring.stream_material(genesis)
            return Companion(*told, "present", opened(genesis, material, row))
        except KeyMissing as error:
            from counterfoil.evidence.content import Certificates

            certificate = Certificates(self.store, stream_id).cover(genesis.key)
            if certificate is not None:
                return Companion(*told, "erased", None, f"erased under certificate {certificate}")
            return Companion(*told, "missing", None, error.message)
        except (KeyWithheld, KeyStoreMissing) as error:
            return Companion(*told, "withheld", None, error.message)
        except (ContentDamaged, KeyDamaged, InputError) as error:
            return Companion(*told, "damaged", None, error.message)
