"""Whether the journal is written and how much a list returns: the ADR's three settings with its defaults (seed 000)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import asdict

from counterfoil.errors import ConfigInvalid
from counterfoil.journal.contract import MAX_LIST


class JournalSettings(Struct, frozen=True):
    """``enabled`` writes the journal; ``max_list`` bounds one listing; ``strict`` makes a missing journal fail the start."""

    enabled: bool = False
    max_list: int = MAX_LIST
    strict: bool = False

    @classmethod
    def read(cls, members: Mapping[str, Any]) -> Self:
        """Settings from a table of a configuration file, names with ``_`` or ``-``. Raises ``ConfigInvalid``."""
        known = asdict(cls())
        given = {name.replace("-", "_"): value for name, value in members.items()}
        for name, value in given.items():
            if name not in known:
                raise ConfigInvalid(
                    f"the turn journal has no setting {name}", hint=f"it has {', '.join(known)}", member=name
                )
            if type(value) is not type(known[name]):
                wanted = "a whole number" if name == "max_list" else "true or false"
                raise ConfigInvalid(f"the turn journal's {name} is {wanted}", member=name)
        settings = cls(**given)
        if settings.max_list < 1:
            raise ConfigInvalid("the turn journal's max_list is at least 1", member="max_list")
        return settings
