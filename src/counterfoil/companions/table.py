"""A table that an application declares, and the changes of its rows that an append is to make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from counterfoil.core import canonical
from counterfoil.core.forms import is_label
from counterfoil.core.values import to_json
from counterfoil.errors import InvalidForm

CHANGES_MAX: Final = 1000
"""Changes of companions beside one event."""


class Change(Struct, frozen=True):
    """A row put (``row`` in its JSON form) or removed (None), to be given to ``run.record(…, rows=[…])``."""

    table: str
    version: int
    key: tuple[Any, ...]
    row: Mapping[str, Any] | None


class CompanionTable(Struct, frozen=True):
    """A declared table: its name, the members of a row that make its key, the version of what its rows hold.

    >>> orders = CompanionTable("orders", ("order",))
    >>> orders.put({"order": "O-1042", "lines": 2}).key
    ('O-1042',)
    """

    name: str
    key: tuple[str, ...]
    version: int = 1

    def put(self, row: Mapping[str, Any]) -> Change:
        """Insert a row, or replace the one with its key. Raises InvalidForm where its key is not whole.

        Values are what content may hold (FORMAT 2); the key is made of text and integers.
        """
        if not isinstance(row, Mapping):
            raise InvalidForm(
                f"a row of {self.name} is a mapping of names to values, not {type(row).__name__}",
                argument="row",
            )
        encoded = to_json(dict(row), self.name)
        assert isinstance(encoded, dict), "a mapping stays one"
        lacking = [name for name in self.key if name not in row]
        if lacking:
            raise InvalidForm(
                f"a row of {self.name} needs its key; {', '.join(lacking)} is missing", argument="row"
            )
        return Change(self.name, self.version, self.checked([row[name] for name in self.key]), encoded)

    def remove(self, *key: Any) -> Change:
        """Remove the row with this key; nothing happens where there is none."""
        return Change(self.name, self.version, self.checked(key), None)

    def checked(self, key: Sequence[Any]) -> tuple[Any, ...]:
        """The key, if it has as many values as declared and each is text or an integer. Raises InvalidForm."""
        if len(key) != len(self.key):
            raise InvalidForm(
                f"the key of {self.name} is ({', '.join(self.key)}); {len(key)} values were given",
                argument="key",
            )
        for name, value in zip(self.key, key, strict=True):
            if type(value) not in (str, int):
                raise InvalidForm(
                    f"the key {name} of {self.name} is text or an integer, not {type(value).__name__}",
                    argument=name,
                )
        return tuple(key)


def declared(name: str, key: Sequence[str] | str, version: int) -> CompanionTable:
    """The declaration, checked. Raises InvalidForm naming what is wrong with it."""
    names = (key,) if isinstance(key, str) else tuple(key)
    if not is_label(name):
        raise InvalidForm("the name of a table is a label: 1 to 128 of A-Za-z0-9_.:/+-", argument="name")
    if not names or len(set(names)) != len(names) or not all(names):
        raise InvalidForm(
            f"the key of {name} names different members of its rows, one at least", argument="key"
        )
    if type(version) is not int or version < 1:
        raise InvalidForm(f"the version of {name} is an integer from 1 on", argument="version")
    return CompanionTable(name, names, version)


def encoded_key(key: Sequence[Any]) -> bytes:
    """What the keyed digest of a key is made of: the canonical list of its values."""
    return canonical.encode(list(key))
