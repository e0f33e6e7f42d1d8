"""What the importers need of a ledger: find or open a conversation, and record drafts that are not there yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from counterfoil.core.event import Draft
    from counterfoil.core.keyed import KeyMaterial


class Placed(Protocol):
    """What became of one draft."""

    @property
    def sequence(self) -> int:
        """Where the event stands in its stream."""
        ...

    @property
    def added(self) -> bool:
        """Whether this append put it there."""
        ...


class ImportedConversation(Protocol):
    """A conversation that an import writes to."""

    @property
    def stream_id(self) -> str:
        """``str_…``."""
        ...

    @property
    def material(self) -> KeyMaterial:
        """The stream key's material: derived ids, tags and hidden names are made with it (FORMAT 1 and 3)."""
        ...


Parent = tuple[str, str | None]
"""What started a sub-agent's conversation: the stream, and the event of the call where the file holds it."""

C = TypeVar("C", bound=ImportedConversation)


class ImportTarget(Protocol[C]):
    """A ledger as an import sees it. Everything an import records is history: no admission it brings waits for a run.

    A draft of an import is told by ``"source"`` in its content: an object that names the format and the line.
    """

    def conversation(self, name: str, agent: str, parent: Parent | None = None) -> C:
        """The conversation of this name, opened with ``agent`` and ``origin`` ``import`` if there is none.

        ``parent`` says which conversation, and which event of it, started the one to be opened.

        ``name`` is text from outside behind the format's name (``pi:6f3c…``), so that no file can name a conversation
        of the application. It is content of ``conversation.opened`` and an index value in rows, nothing else.
        """
        ...

    def append(self, conversation: C, drafts: Sequence[Draft]) -> Sequence[Placed]:
        """Record, in order and in one unit, those drafts whose event id the stream does not hold; one answer for each.

        A draft whose id is there already adds nothing, whatever its content: what was imported first stands, also
        when a later version maps a record otherwise or a copy of the file lies elsewhere. So ids are looked up
        first, and looked up again when another import was quicker (``PartialDuplicate``, ``EventIdReused``).
        """
        ...

    def now_ms(self) -> int:
        """The store's clock, which dates ``transcript.imported``."""
        ...
