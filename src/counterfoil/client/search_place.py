"""Where a ledger's search index lies, and its file: looked at when the ledger is opened, closed when it is closed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from counterfoil.client.handle import Handle
from counterfoil.client.place import MEMORY
from counterfoil.errors import SearchUnavailable

if TYPE_CHECKING:
    from counterfoil.search.file import SearchFile

SEARCH_NAME: Final = "search.db"

SearchPlace = Literal["on", "off"] | Path
"""``on``: in the ledger's directory, or in the home directory for a ledger on a server; a path; or ``off``."""


class SearchPlaced(Handle):
    """The file of a ledger's search index."""

    search_place: SearchPlace = "on"
    _search_file: SearchFile | None = None

    def search_file(self) -> SearchFile:
        """The handle on the index; its file is made with its first use. Raises ``SearchUnavailable`` where search is off."""
        from counterfoil.search.file import SearchFile

        if self.search_place == "off":
            raise SearchUnavailable(
                f"{self.place} was opened without search", hint='open it without search="off"'
            )
        if self._search_file is None:
            self._search_file = SearchFile(self.search_path(), self.id)
        return self._search_file

    def check_search(self) -> None:
        """Raise ``SearchUnavailable`` or ``SearchUnusable`` where search could not answer; nothing where it is off."""
        if self.search_place != "off":
            self.search_file().check()

    def search_path(self) -> Path | None:
        """Where the index lies; None for one in memory."""
        if isinstance(self.search_place, Path):
            return self.search_place
        if self.place == MEMORY:
            return None
        if "://" in self.place:
            from counterfoil.client.postgres import HOME

            return Path.home() / HOME / self.id / SEARCH_NAME
        return Path(self.place) / SEARCH_NAME

    def close(self) -> None:
        """See ``Handle.close``."""
        if self._search_file is not None:
            self._search_file.close()
        super().close()
