"""Standing: in which nobody appends, told to every handle, and set together with the fact that says why."""

from __future__ import annotations

import pytest

from counterfoil.errors import (
    ConflictError,
    CopyUnfinished,
    CounterfoilError,
    LedgerMoved,
    LossNotAccepted,
    WrongSequence,
)
from counterfoil.store.standing import Standing
from counterfoil.store.unit import Refusal, at
from counterfoil.testing.contract.case import DEADLINE_S, ContractCase, everything
from counterfoil.testing.events import SampleStream

REFUSED: dict[Standing, type[ConflictError]] = {
    "copying": CopyUnfinished,
    "moved": LedgerMoved,
    "restored": LossNotAccepted,
}


class StandingContract(ContractCase):
    """``Store.standing``, ``stand`` and ``despite``."""

    def told(self, stream: SampleStream) -> CounterfoilError | None:
        """What one append comes to: None if it lands."""
        try:
            (outcome,) = self.store.append([stream.unit(stream.event())]).result(DEADLINE_S)
        except ConflictError as error:
            return error
        return outcome.error if isinstance(outcome, Refusal) else None

    def test_a_ledger_is_open_until_somebody_says_otherwise(self) -> None:
        assert self.store.standing() == "open"

    @pytest.mark.parametrize("standing", REFUSED)
    def test_in_any_other_standing_nothing_is_written_and_everything_is_read(
        self, standing: Standing
    ) -> None:
        stream = self.new_stream(2)
        self.store.stand(standing)
        before = everything(self.store)
        assert self.store.standing() == standing
        assert type(self.told(stream)) is REFUSED[standing]
        with pytest.raises(REFUSED[standing]):
            self.store.claim(stream.stream_id, "owner", 1000, 0)
        with pytest.raises(REFUSED[standing]):
            self.store.rebuild_rows(None, [])
        with pytest.raises(REFUSED[standing]):
            self.store.load([])
        assert everything(self.store) == before
        self.store.stand("open")
        assert self.told(stream) is None

    def test_the_standing_comes_with_the_unit_that_says_why(self) -> None:
        stream = self.new_stream(1)
        receipt = self.store.stand("moved", stream.unit(stream.event()))
        assert receipt is not None
        assert receipt.positions[0].sequence == 2
        assert self.store.standing() == "moved"

    def test_a_unit_that_is_refused_leaves_the_standing_as_it_was(self) -> None:
        stream = self.new_stream(1)
        with pytest.raises(WrongSequence):
            self.store.stand("moved", stream.unit(stream.event(), expected=at(7)))
        assert self.store.standing() == "open"
        assert self.told(stream) is None

    def test_whoever_copies_or_restores_writes_all_the_same(self) -> None:
        stream = self.new_stream(1)
        self.store.stand("copying")
        self.store.despite("copying")
        assert self.told(stream) is None

    def test_another_handle_is_refused_at_its_next_append(self) -> None:
        self.need("shared")
        stream = self.new_stream(1)
        with_another = self.open_another()
        try:
            assert self.told(stream) is None
            with_another.stand("moved")
            assert type(self.told(stream)) is LedgerMoved
            with_another.stand("open")
            assert self.told(stream) is None
        finally:
            with_another.close()

    def test_the_standing_outlives_its_handle(self) -> None:
        self.need("durable")
        stream = self.new_stream(1)
        self.store.stand("restored")
        self.reopen()
        assert self.store.standing() == "restored"
        assert type(self.told(stream)) is LossNotAccepted
