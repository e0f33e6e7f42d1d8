"""Which features derive rows from an event of each type."""

from __future__ import annotations

from collections.abc import Sequence

from counterfoil.store.rows import Feature, RowsOf, StandsIn


def rows_by_type(features: Sequence[Feature]) -> dict[str, tuple[RowsOf, ...]]:
    """What derives rows from an event, by its type."""
    found: dict[str, tuple[RowsOf, ...]] = {}
    for feature in features:
        for event_type in feature.event_types:
            found[event_type] = (*found.get(event_type, ()), feature.rows)
    return found


def stand_ins_by_type(features: Sequence[Feature]) -> dict[str, tuple[StandsIn, ...]]:
    """What stands in for content that rows are made of and that is gone, by event type."""
    found: dict[str, tuple[StandsIn, ...]] = {}
    for feature in features:
        for event_type in feature.event_types if feature.stands_in is not None else ():
            assert feature.stands_in is not None
            found[event_type] = (*found.get(event_type, ()), feature.stands_in)
    return found
