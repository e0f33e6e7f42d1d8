"""Packed arrays are what the server reads, element by element."""

from __future__ import annotations

import time

import pytest

from counterfoil.adapters.postgres.arrays import Bigints, Blobs, Smallints, Texts
from counterfoil.adapters.postgres.connect import connect, run
from counterfoil.adapters.postgres.place import parse_place

pytestmark = pytest.mark.postgres


@pytest.fixture
def connection(cluster):
    made = connect(parse_place(cluster.url()), give_up_at=time.monotonic() + 30, writable=True)
    yield made
    made.close()


@pytest.mark.parametrize(
    "kind, type, values",
    [
        (Texts, "text", ["", "a", "NULL", 'with "quotes", {braces} and \\', "Köln 👩‍🚀", None, "\x01"]),
        (Texts, "text", []),
        (Blobs, "bytea", [b"", b"\x00\xff", bytes(3000)]),
        (Blobs, "bytea", []),
        (Bigints, "bigint", [0, -1, 2**63 - 1, -(2**63)]),
        (Bigints, "bigint", []),
        (Smallints, "smallint", [0, -1, 2**15 - 1]),
        (Smallints, "smallint", []),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_array_comes_back_as_it_was_sent(connection, kind, type, values):
    sql = f"SELECT array_agg(v ORDER BY n), count(*) FROM unnest(%s::{type}[]) WITH ORDINALITY AS u(v, n)"
    ((back, count),) = run(connection, sql, [kind(values)]).fetchall()
    assert (back or [], count) == (values, len(values))
