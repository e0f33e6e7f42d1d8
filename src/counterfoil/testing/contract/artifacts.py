"""ArtifactStoreContract: every sentence of the artifact store contract as a test, for any implementation."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from counterfoil.abc.artifacts import ArtifactStore
from counterfoil.errors import ArtifactUnavailable, InvalidForm, StoreClosed

DEADLINE_S = 60.0
THREADS = 8
BIG = bytes(range(256)) * 12_000
"""About 3 MB: several pieces in any implementation."""

HOSTILE = (
    "",
    "..",
    "../x",
    "A" * 64,
    "g" * 64,
    "a" * 63,
    "a" * 65,
    "a" * 63 + "/",
    "a" * 64 + "\x00",
    "\u0661" * 64,
)


def name_of(data: bytes) -> str:
    """The name that these bytes have in every store."""
    return hashlib.sha256(data).hexdigest()


class ArtifactStoreContract(ABC):
    """Run by pytest on an implementation that overrides :meth:`open_artifacts`.

    It is called again with the same directory where a test closes and reopens; what a store keeps in memory only says
    so with ``lasting = False``.
    """

    lasting = True
    artifacts: ArtifactStore
    directory: Path

    @abstractmethod
    def open_artifacts(self, directory: Path) -> ArtifactStore:
        """Open the artifact store in ``directory``, making it the first time."""

    @pytest.fixture(autouse=True)
    def _opened_artifacts(self, tmp_path: Path) -> Iterator[None]:
        self.directory = tmp_path
        self.artifacts = self.open_artifacts(tmp_path)
        yield
        self.artifacts.close()

    def put(self, *pieces: bytes) -> str:
        """Store one object."""
        with self.artifacts.upload() as upload:
            for piece in pieces:
                upload.write(piece)
            return upload.commit()

    def got(self, name: str) -> bytes:
        """The whole object."""
        return b"".join(self.artifacts.read(name))

    # ---- storing and reading ----

    def test_an_empty_store_holds_nothing(self) -> None:
        assert self.artifacts.names() == []
        assert self.artifacts.size(name_of(b"")) is None

    @pytest.mark.parametrize(
        "data", [b"", b"x", b"one chunk", BIG], ids=["nothing", "a byte", "some", "much"]
    )
    def test_an_object_comes_back_as_it_was_stored(self, data: bytes) -> None:
        name = self.put(data)
        assert (name, self.got(name), self.artifacts.size(name)) == (name_of(data), data, len(data))

    def test_the_name_is_that_of_all_pieces_together(self) -> None:
        assert self.put(b"a", b"", b"bc") == name_of(b"abc") == self.put(b"abc")
        assert self.got(name_of(b"abc")) == b"abc"

    def test_pieces_are_bounded_however_large_the_object_is(self) -> None:
        pieces = list(self.artifacts.read(self.put(BIG)))
        assert max(map(len, pieces)) <= 1024 * 1024
        assert len(pieces) > 1

    def test_equal_objects_are_stored_once(self) -> None:
        assert self.put(b"same") == self.put(b"same")
        assert self.artifacts.names() == [name_of(b"same")]

    def test_a_missing_object_is_said_to_be_missing_and_never_empty(self) -> None:
        self.put(b"another")
        with pytest.raises(ArtifactUnavailable) as refusal:
            self.got(name_of(b"this"))
        assert (refusal.value.state, refusal.value.sha256) == ("missing", name_of(b"this"))

    @pytest.mark.parametrize("name", HOSTILE)
    def test_a_name_that_is_not_64_hex_is_refused(self, name: str) -> None:
        for call in (self.got, self.artifacts.size, self.artifacts.delete):
            with pytest.raises(InvalidForm):
                call(name)

    # ---- uploads ----

    def test_nothing_is_seen_before_the_commit(self) -> None:
        with self.artifacts.upload() as upload:
            upload.write(b"under way")
            assert self.artifacts.names() == []
            assert self.artifacts.size(name_of(b"under way")) is None
            name = upload.commit()
        assert self.artifacts.names() == [name]

    def test_an_upload_left_without_commit_leaves_nothing(self) -> None:
        def broken_source() -> None:
            with self.artifacts.upload() as upload:
                upload.write(b"half of it")
                raise ValueError("the source broke")

        with pytest.raises(ValueError, match="the source broke"):
            broken_source()
        assert self.artifacts.names() == []
        assert self.artifacts.sweep(0) == 0

    def test_an_upload_that_has_ended_takes_nothing_more(self) -> None:
        committed, discarded = self.artifacts.upload(), self.artifacts.upload()
        committed.write(b"done")
        committed.commit()
        discarded.discard()
        for upload in (committed, discarded):
            with pytest.raises(StoreClosed):
                upload.write(b"more")
            with pytest.raises(StoreClosed):
                upload.commit()
            upload.discard()
        assert self.got(name_of(b"done")) == b"done"

    def test_uploads_side_by_side_do_not_meet(self) -> None:
        first, second = self.artifacts.upload(), self.artifacts.upload()
        first.write(b"first ")
        second.write(b"second ")
        first.write(b"object")
        second.write(b"object")
        assert [first.commit(), second.commit()] == [name_of(b"first object"), name_of(b"second object")]

    def test_many_threads_store_the_same_and_different_objects(self) -> None:
        def work(number: int) -> None:
            for turn in range(5):
                assert self.got(self.put(b"shared")) == b"shared"
                own = f"{number} {turn}".encode()
                assert self.got(self.put(own)) == own

        with ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(work, number) for number in range(THREADS)]:
                done.result(DEADLINE_S)
        assert len(self.artifacts.names()) == 1 + 5 * THREADS

    # ---- names and deleting ----

    def test_names_come_in_order_page_by_page(self) -> None:
        names = sorted(self.put(str(number).encode()) for number in range(20))
        assert self.artifacts.names() == names
        assert self.artifacts.names(limit=7) == names[:7]
        assert self.artifacts.names(after=names[6], limit=7) == names[7:14]
        assert self.artifacts.names(after=names[-1]) == []

    def test_a_deleted_object_is_gone_and_the_others_stay(self) -> None:
        gone, kept = self.put(b"gone"), self.put(b"kept")
        assert self.artifacts.delete(gone)
        assert not self.artifacts.delete(gone)
        assert (self.artifacts.names(), self.artifacts.size(gone)) == ([kept], None)

    def test_a_deleted_object_may_be_stored_again(self) -> None:
        self.artifacts.delete(self.put(b"again"))
        assert self.got(self.put(b"again")) == b"again"

    # ---- handles ----

    def test_objects_outlive_their_handle(self) -> None:
        if not self.lasting:
            pytest.skip("kept in memory only")
        name = self.put(b"lasting")
        self.artifacts.close()
        self.artifacts = self.open_artifacts(self.directory)
        assert self.got(name) == b"lasting"

    def test_a_second_handle_sees_what_the_first_has_stored(self) -> None:
        if not self.lasting:
            pytest.skip("kept in memory only")
        other = self.open_artifacts(self.directory)
        name = self.put(b"shared")
        assert b"".join(other.read(name)) == b"shared"
        other.close()

    def test_a_closed_store_says_so(self) -> None:
        name = self.put(b"x")
        self.artifacts.close()
        self.artifacts.close()
        for call in (
            self.artifacts.upload,
            self.artifacts.names,
            lambda: self.got(name),
            lambda: self.artifacts.size(name),
            lambda: self.artifacts.delete(name),
            lambda: self.artifacts.sweep(0),
        ):
            with pytest.raises(StoreClosed):
                call()
