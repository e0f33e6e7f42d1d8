"""KeyStoreContract: every sentence of the key store contract as a test, for any implementation."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from counterfoil.abc.keys import KeyRow, KeyStore, SubjectRow
from counterfoil.errors import EpochMoved, InternalError, StoreClosed
from counterfoil.testing.manual import SequentialIds

TENANT = "default"
DEADLINE_S = 60.0
THREADS = 8


class KeyStoreContract(ABC):
    """Run by pytest on an implementation that overrides :meth:`open_key_store`.

    It is called again with the same directory where a test closes and reopens; what a store keeps in memory
    only says so with ``lasting = False``.
    """

    lasting = True
    keys: KeyStore
    ids: SequentialIds
    directory: Path

    @abstractmethod
    def open_key_store(self, directory: Path) -> KeyStore:
        """Open the key store in ``directory``, making it the first time."""

    @pytest.fixture(autouse=True)
    def _opened_key_store(self, tmp_path: Path) -> Iterator[None]:
        self.ids = SequentialIds()
        self.directory = tmp_path
        self.keys = self.open_key_store(tmp_path)
        self.kek: str = self.ids.new("kek")
        self.keys.replace(TENANT, self.kek, [], [])
        yield
        self.keys.close()

    def row(self, stream_id: str = "str_a", kek_id: str | None = None, wrapped: bytes = b"wrapped") -> KeyRow:
        """A row nobody has put yet, under the current epoch unless told otherwise."""
        kek = self.kek if kek_id is None else kek_id
        return KeyRow(self.ids.new("dk"), stream_id, kek, wrapped, b"check of 16 byte")

    def link(self, row: KeyRow, lookup: bytes = b"ann", box: bytes = b"box") -> SubjectRow:
        """A link of this key to a subject."""
        return SubjectRow(row.key_id, row.kek_id, lookup, box)

    def everything(self) -> tuple[object, ...]:
        """All that can be read of a small key store."""
        return dict(self.keys.epochs()), self.keys.scan(limit=10_000), self.keys.scan_subjects(limit=10_000)

    # ---- putting and getting ----

    def test_a_new_key_store_is_empty_and_has_an_id_of_its_own(self) -> None:
        assert self.everything() == ({TENANT: self.kek}, [], [])
        assert len(self.keys.store_id) >= 16
        assert self.keys.store_id == self.keys.store_id

    def test_a_row_comes_back_as_it_was_put(self) -> None:
        rows = [self.row(wrapped=bytes(range(256))), self.row(wrapped=b""), self.row("str_b", kek_id="")]
        self.keys.put(rows)
        assert [self.keys.get(row.key_id) for row in rows] == rows

    def test_a_key_that_was_never_put_is_not_there(self) -> None:
        self.keys.put([self.row()])
        assert self.keys.get(self.ids.new("dk")) is None

    def test_the_keys_of_a_stream_come_by_key_id(self) -> None:
        rows = [self.row("str_a"), self.row("str_b"), self.row("str_a")]
        self.keys.put(rows[::-1])
        assert self.keys.of_stream("str_a") == [rows[0], rows[2]]
        assert self.keys.of_stream("str_c") == []

    def test_a_key_id_that_exists_is_refused_and_nothing_of_the_put_is_kept(self) -> None:
        first, second = self.row(), self.row()
        self.keys.put([first])
        before = self.everything()
        with pytest.raises(InternalError):
            self.keys.put([second, replace(first, wrapped=b"other")], [self.link(second)])
        assert self.everything() == before

    def test_a_link_to_a_key_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(InternalError):
            self.keys.put([], [self.link(self.row())])
        assert self.keys.scan_subjects() == []

    def test_rows_are_scanned_by_key_id_page_by_page(self) -> None:
        rows = [self.row() for _ in range(7)]
        self.keys.put(rows[::-1])
        assert self.keys.scan(limit=3) == rows[:3]
        assert self.keys.scan(after=rows[2].key_id, limit=3) == rows[3:6]
        assert self.keys.scan(after=rows[6].key_id) == []

    # ---- subjects ----

    def test_a_subject_is_found_in_its_stream_only(self) -> None:
        first, second = self.row("str_a"), self.row("str_b")
        self.keys.put([first, second], [self.link(first), self.link(second, b"bob")])
        assert self.keys.find_subject(b"ann", "str_a") == first
        assert self.keys.find_subject(b"ann", "str_b") is None
        assert self.keys.find_subject(b"bob", "str_b") == second
        assert self.keys.find_subject(b"eve", "str_a") is None

    def test_the_link_put_first_is_the_one_that_is_found(self) -> None:
        smaller, greater = self.row(), self.row()
        self.keys.put([greater], [self.link(greater)])
        self.keys.put([smaller], [self.link(smaller)])
        assert self.keys.find_subject(b"ann", "str_a") == greater

    def test_a_key_may_be_linked_to_several_subjects_and_later(self) -> None:
        row = self.row()
        links = [
            self.link(row, lookup, box) for lookup, box in ((b"ann", b"1"), (b"bob", b"2"), (b"eve", b"3"))
        ]
        self.keys.put([row], links[:1])
        self.keys.put([], links[1:])
        assert self.keys.subjects_of(row.key_id) == links
        assert self.keys.find_subject(b"eve", "str_a") == row
        assert self.keys.subjects_of(self.ids.new("dk")) == []

    def test_links_are_scanned_in_the_order_they_were_put_page_by_page(self) -> None:
        rows = [self.row() for _ in range(5)]
        links = [self.link(row, bytes([number])) for number, row in enumerate(rows)]
        self.keys.put(rows, links)
        first = self.keys.scan_subjects(limit=2)
        rest = self.keys.scan_subjects(after=first[-1][0])
        assert [link for _, link in (*first, *rest)] == links
        positions = [position for position, _ in (*first, *rest)]
        assert positions == sorted(set(positions))

    # ---- epochs ----

    def test_each_tenant_has_an_epoch_of_its_own(self) -> None:
        other = self.ids.new("kek")
        self.keys.replace("north", other, [], [])
        assert self.keys.epochs() == {TENANT: self.kek, "north": other}
        self.keys.put([self.row(), self.row(kek_id=other), self.row(kek_id="")])

    def test_a_row_under_a_kek_that_is_nobodys_current_one_is_refused(self) -> None:
        with pytest.raises(EpochMoved):
            self.keys.put([self.row(), self.row(kek_id=self.ids.new("kek"))])
        row = self.row()
        with pytest.raises(EpochMoved):
            self.keys.put([row], [replace(self.link(row), kek_id=self.ids.new("kek"))])
        assert self.keys.scan() == []

    def test_a_row_under_the_kek_before_a_rotation_is_refused(self) -> None:
        self.keys.replace(TENANT, self.ids.new("kek"), [], [])
        with pytest.raises(EpochMoved):
            self.keys.put([self.row()])

    def rotated(
        self, rows: list[KeyRow], links: list[SubjectRow]
    ) -> tuple[str, list[KeyRow], list[SubjectRow]]:
        """The same rows and links under a new KEK, with other bytes."""
        after = self.ids.new("kek")
        return (
            after,
            [replace(row, kek_id=after, wrapped=row.wrapped + b" again") for row in rows],
            [replace(link, kek_id=after, lookup=link.lookup + b"'", box=link.box + b"'") for link in links],
        )

    def test_replacing_rewraps_rows_and_links_and_moves_the_epoch(self) -> None:
        rows = [self.row(), self.row(), self.row("str_b")]
        links = [self.link(rows[1], b"ann"), self.link(rows[1], b"bob"), self.link(rows[2], b"ann")]
        self.keys.put(rows, links)
        after, new_rows, new_links = self.rotated(rows, links)
        self.keys.replace(TENANT, after, iter(new_rows), iter(new_links))
        assert self.keys.epochs() == {TENANT: after}
        assert self.keys.scan() == new_rows
        assert [link for _, link in self.keys.scan_subjects()] == new_links
        assert self.keys.find_subject(b"ann", "str_a") is None
        assert self.keys.find_subject(b"ann'", "str_a") == new_rows[1]

    def test_replacing_leaves_the_rows_of_other_tenants_alone(self) -> None:
        other = self.ids.new("kek")
        self.keys.replace("north", other, [], [])
        mine, theirs = self.row(), self.row(kek_id=other)
        self.keys.put([mine, theirs])
        after, new_rows, _ = self.rotated([mine], [])
        self.keys.replace(TENANT, after, new_rows, [])
        assert self.keys.get(theirs.key_id) == theirs
        assert self.keys.epochs() == {TENANT: after, "north": other}

    def test_replacing_is_refused_whole_when_a_key_would_stay_behind(self) -> None:
        rows = [self.row(), self.row()]
        self.keys.put(rows, [self.link(rows[0])])
        before = self.everything()
        after, new_rows, new_links = self.rotated(rows[:1], [self.link(rows[0])])
        with pytest.raises(EpochMoved):
            self.keys.replace(TENANT, after, new_rows, new_links)
        assert self.everything() == before

    def test_replacing_is_refused_whole_when_a_link_was_added_meanwhile(self) -> None:
        row = self.row()
        self.keys.put([row], [self.link(row)])
        after, new_rows, new_links = self.rotated([row], [self.link(row)])
        self.keys.put([], [self.link(row, b"bob")])
        before = self.everything()
        with pytest.raises(EpochMoved):
            self.keys.replace(TENANT, after, new_rows, new_links)
        assert self.everything() == before

    def test_an_epoch_that_is_not_greater_than_the_current_one_is_refused(self) -> None:
        row = self.row()
        self.keys.put([row])
        smaller, (after, new_rows, _) = self.ids.new("kek"), self.rotated([row], [])
        self.keys.replace(TENANT, after, new_rows, [])
        before = self.everything()
        for epoch in (self.kek, smaller, after):
            with pytest.raises(EpochMoved):
                self.keys.replace(TENANT, epoch, [replace(row, kek_id=epoch)], [])
        assert self.everything() == before

    def test_an_epoch_of_another_tenant_is_refused(self) -> None:
        before = self.everything()
        with pytest.raises(EpochMoved, match="another tenant") as refused:
            self.keys.replace("north", self.kek, [], [])
        assert refused.value.fields["kek_id"] == self.kek
        assert self.everything() == before

    def test_replacing_does_not_bring_back_a_key_that_was_destroyed_meanwhile(self) -> None:
        rows = [self.row(), self.row()]
        links = [self.link(row) for row in rows]
        self.keys.put(rows, links)
        after, new_rows, new_links = self.rotated(rows, links)
        self.keys.delete([rows[0].key_id])
        self.keys.replace(TENANT, after, new_rows, new_links)
        assert self.keys.scan() == new_rows[1:]
        assert [link for _, link in self.keys.scan_subjects()] == new_links[1:]

    # ---- destroying ----

    def test_a_destroyed_key_is_gone_with_its_links_and_the_others_stay(self) -> None:
        rows = [self.row() for _ in range(4)]
        links = [self.link(row, bytes([number])) for number, row in enumerate(rows)]
        self.keys.put(rows, links)
        doomed = [rows[1].key_id, rows[3].key_id, rows[1].key_id, self.ids.new("dk")]
        assert self.keys.delete(iter(doomed)) == 2
        assert self.keys.scan() == [rows[0], rows[2]]
        assert [link for _, link in self.keys.scan_subjects()] == [links[0], links[2]]
        assert self.keys.delete([]) == 0

    # ---- many at once, closing ----

    def test_keys_put_by_many_threads_are_all_there(self) -> None:
        rows = [[self.row() for _ in range(5)] for _ in range(THREADS)]
        threads = [threading.Thread(target=self.put_all, args=(mine,)) for mine in rows]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert self.keys.scan() == [row for mine in rows for row in mine]

    def put_all(self, rows: list[KeyRow]) -> None:
        """Put these rows one by one."""
        for row in rows:
            self.keys.put([row])

    def test_everything_is_there_again_after_closing_and_opening(self) -> None:
        if not self.lasting:
            pytest.skip("this key store lasts as long as the object")
        row = self.row()
        self.keys.put([row], [self.link(row)])
        before, store_id = self.everything(), self.keys.store_id
        self.keys.close()
        self.keys = self.open_key_store(self.directory)
        assert self.everything() == before
        assert self.keys.store_id == store_id

    def test_closing_twice_is_no_error_and_a_closed_key_store_says_so(self) -> None:
        self.keys.close()
        self.keys.close()
        with pytest.raises(StoreClosed):
            self.keys.get("dk_none")
        with pytest.raises(StoreClosed):
            self.keys.put([self.row()])
