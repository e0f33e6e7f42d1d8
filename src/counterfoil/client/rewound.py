"""Rows of one conversation folded again as far as a sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from counterfoil.core.genesis import Genesis
from counterfoil.evidence.folding import RowFold
from counterfoil.evidence.raw import RawEvent
from counterfoil.keys.keyring import Keyring
from counterfoil.store.contract import Reader
from counterfoil.store.rows import Feature, Row


class _FoldTo(RowFold):
    """Folds one stream as far as a sequence."""

    def __init__(
        self, reader: Reader, features: Sequence[Feature], keyring: Keyring | None, sequence: int
    ) -> None:
        super().__init__(reader, features, lambda _: keyring)
        self._sequence = sequence

    def _events(self, stream_id: str) -> Iterator[tuple[RawEvent, dict[int, bytes]]]:
        for columns, records in super()._events(stream_id):
            if columns[1] > self._sequence:
                return
            yield columns, records


def rows_at(
    reader: Reader,
    features: Sequence[Feature],
    keyring: Keyring | None,
    genesis: Genesis,
    tenant: str,
    sequence: int,
) -> tuple[dict[str, list[Row]], bool]:
    """Its rows by table, and whether all that they are made from could be had."""
    fold = _FoldTo(reader, features, keyring, sequence)
    try:
        fold.fold(genesis, tenant)
        found = {spec.name: [row for _, row in fold.refolded.left(spec.name)] for spec in fold.tables}
        return {name: rows for name, rows in found.items() if rows}, genesis.stream_id not in fold.incomplete
    finally:
        fold.close()
