"""Companions sealed for an append, and opened again: one record for each row, under the stream key (FORMAT 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from counterfoil.companions.rows import COMPANIONS
from counterfoil.companions.table import CHANGES_MAX, Change, encoded_key
from counterfoil.core import canonical
from counterfoil.core.event import Part
from counterfoil.core.genesis import Genesis
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.records import open_record, seal
from counterfoil.errors import ContentDamaged, InvalidForm
from counterfoil.store.rows import Put, Remove, Row, RowChange

PURPOSE: Final = "companion"
MEMBER: Final = "companions"
"""Where the event beside which rows were changed names them: in a content part of its own."""


def row_key(material: KeyMaterial, table: str, key: Sequence[Any]) -> str:
    """What stands for a key in the open: keyed, so that it shows equality inside its stream and nothing else."""
    return material.digest("companion-key", [table], encoded_key(key))


def sealed(
    genesis: Genesis, material: KeyMaterial, event_id: str, changes: Sequence[Change]
) -> tuple[tuple[RowChange, ...], Part]:
    """The row changes, and the content part by which the event commits to them: ``[table, key, commitment or null]``.

    Pure: the same changes beside the same event give the same bytes. Raises InvalidForm for two changes of one row, or
    ContentTooLarge for a row over 4 MiB.
    """
    if len(changes) > CHANGES_MAX:
        raise InvalidForm(
            f"{len(changes)} rows beside one event; at most {CHANGES_MAX}", hint="record several events"
        )
    rows: list[RowChange] = []
    told: list[canonical.JSON] = []
    seen: set[tuple[str, str]] = set()
    for change in changes:
        key = row_key(material, change.table, change.key)
        if (change.table, key) in seen:
            raise InvalidForm(f"a row of {change.table} is changed twice beside one event", argument="rows")
        seen.add((change.table, key))
        if change.row is None:
            rows.append(Remove(COMPANIONS.name, (genesis.stream_id, change.table, key)))
            told.append([change.table, key, None])
            continue
        content = canonical.encode({"event": event_id, "row": dict(change.row), "version": change.version})
        record = seal(material, PURPOSE, [change.table, key], content, mode=genesis.content)
        rows.append(
            Put(
                COMPANIONS.name,
                {
                    "stream_id": genesis.stream_id,
                    "name": change.table,
                    "key": key,
                    "commitment": record.commitment,
                    "record": record.record,
                },
            )
        )
        told.append([change.table, key, record.commitment])
    return tuple(rows), Part({MEMBER: told})


def opened(genesis: Genesis, material: KeyMaterial | None, row: Row) -> Mapping[str, Any]:
    """What a stored row holds: ``event``, ``row`` in its JSON form and ``version``.

    Raises ContentDamaged where the record is not the one that was written under this table and key, KeyMissing where
    it is encrypted and no key is given.
    """
    table, key, record = row["name"], row["key"], row["record"]
    assert isinstance(table, str)
    assert isinstance(key, str)
    if not isinstance(record, bytes):
        raise ContentDamaged("the record of a companion is not there", check="form")
    content = canonical.decode(
        open_record(material, PURPOSE, [table, key], record, str(row["commitment"]), mode=genesis.content)
    )
    if not isinstance(content, dict) or not isinstance(content.get("row"), dict):
        raise ContentDamaged("the record of a companion is not of its form", check="form")
    return content
