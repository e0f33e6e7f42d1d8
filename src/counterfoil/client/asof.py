"""A conversation as it was at any sequence: its rows folded again from the events up to there, nothing recorded."""

from __future__ import annotations

from counterfoil.client.projecting import Projecting
from counterfoil.client.projector import View
from counterfoil.effects.rows import EFFECTS
from counterfoil.errors import InvalidForm
from counterfoil.runtime.rows import RUNS
from counterfoil.store.rows import Row


class Past:
    """What was known at one sequence of a conversation. ``tables`` names the rows by table."""

    def __init__(
        self,
        conversation: str,
        sequence: int,
        head_sequence: int,
        tables: dict[str, list[Row]],
        whole: bool,
        views: dict[str, View],
        known: frozenset[str],
    ) -> None:
        self.conversation: str = conversation
        self.sequence: int = sequence
        self.head_sequence: int = head_sequence
        self.tables: dict[str, list[Row]] = tables
        self.whole: bool = whole
        """False where a row follows from content that cannot be had: it is then left as far as headers tell."""
        self.projections: dict[str, View] = views
        self._known = known

    def __repr__(self) -> str:
        return f"<Past of {self.conversation} at {self.sequence}>"

    def rows(self, table: str) -> list[Row]:
        """The rows of one table, by key. Raises InvalidForm for a table that there is not."""
        if table not in self._known:
            raise InvalidForm(
                f"there is no table of rows {table!r}",
                hint=f"these are: {', '.join(sorted(self._known))}",
                argument="table",
            )
        return self.tables.get(table, [])

    @property
    def runs(self) -> list[Row]:
        """Rows of runs, oldest first."""
        return sorted(self.rows(RUNS), key=lambda row: _number(row["started_sequence"]))

    @property
    def effects(self) -> list[Row]:
        """Rows of effects, in the order they were intended."""
        return sorted(self.rows(EFFECTS.name), key=lambda row: _number(row["first_sequence"]))

    def projection(self, name: str) -> View:
        """A declared projection as of this sequence. Raises InvalidForm for one that is not declared."""
        found = self.projections.get(name)
        if found is None:
            raise InvalidForm(f"no projection {name!r} over conversations is declared", argument="name")
        return found


class Rewinding(Projecting):
    """Looking back."""

    def at(self, conversation: str, sequence: int) -> Past:
        """Runs, effects, reviews, slots and every other row, and declared projections, as of an event of a conversation.

        ``sequence`` 0 is before the first event; one beyond the head raises ``InvalidForm``. Nothing is changed or
        recorded. Rows that follow from events of other conversations are not in it.
        """
        from counterfoil.client.features import FEATURES
        from counterfoil.client.rewound import rows_at

        stream_id = self._projected(conversation)
        head = self.store.head(stream_id)
        last = 0 if head is None else head.sequence
        if type(sequence) is not int or not 0 <= sequence <= last:
            raise InvalidForm(
                f"a sequence of {stream_id} is from 0 to {last}",
                hint="`counterfoil show` counts them",
                argument="at",
            )
        genesis = self.ports.genesis(stream_id)
        with self.store.snapshot() as reader:
            keyring = None if self._keys_missing else self.keyring
            tables, whole = rows_at(reader, FEATURES, keyring, genesis, self.tenant, sequence)
        views = {
            projection.name: self.projector.view_at(projection, stream_id, sequence)
            for projection in self.projector.projections.values()
            if projection.over == "conversation"
        }
        known = frozenset(spec.name for feature in FEATURES for spec in feature.tables)
        return Past(stream_id, sequence, last, tables, whole, views, known)


def _number(cell: object) -> int:
    return cell if isinstance(cell, int) else 0
