"""The demo's provider books on disk, knows keys unless it is mute, and is read the same when it is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterfoil.demo.provider import Book, read_book


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "book.db"


def test_the_same_key_gets_the_first_receipt_again(path: Path):
    book = Book(path, deduplicates=True)
    first = book.carry_out("refunds", "k", {"amount": "1.00"})
    assert book.carry_out("refunds", "k", {"amount": "1.00"}) == first
    assert len(read_book(path, "refunds")) == 1


def test_a_mute_provider_pays_twice(path: Path):
    book = Book(path, deduplicates=False)
    book.carry_out("refunds", "k", {"amount": "1.00"})
    book.carry_out("refunds", "k", {"amount": "1.00"})
    assert [receipt["id"] for receipt in read_book(path, "refunds")] == ["re_1", "re_2"]


def test_a_key_of_one_kind_is_unknown_to_another(path: Path):
    book = Book(path, deduplicates=True)
    book.carry_out("refunds", "k", {"amount": "1.00"})
    assert book.find("messages", "k") is None
