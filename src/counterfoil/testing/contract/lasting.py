"""What outlives a handle: closing and opening again, and two handles on one ledger."""

from __future__ import annotations

import threading

from counterfoil.errors import Fenced, WrongSequence
from counterfoil.store.rows import Put
from counterfoil.store.unit import Checkpoint, Receipt, Refusal, at
from counterfoil.testing.contract.case import DEADLINE_S, SHELF, ContractCase, everything, parcel

TTL_MS = 30_000
APPENDS = 30


class LastingContract(ContractCase):
    """For adapters with the capabilities ``durable`` and ``shared``."""

    def test_everything_is_there_again_after_closing_and_opening(self) -> None:
        self.need("durable")
        stream = self.new_stream(2)
        self.append(
            stream.unit(stream.event(), rows=(parcel("p1"), Put(SHELF.name, {"hall": "x", "number": 1})))
        )
        lease = self.store.claim(stream.stream_id, "owner", TTL_MS, 0).lease
        checkpoint = Checkpoint(stream.stream_id, "totals", 1, 3, "0" * 64, b"record")
        self.store.save_checkpoint(checkpoint)
        before, ledger_id, cursor = everything(self.store), self.store.ledger_id, self.store.feed().cursor
        self.reopen()
        assert everything(self.store) == before
        assert self.store.ledger_id == ledger_id
        assert self.store.checkpoint(stream.stream_id, "totals", 1) == checkpoint
        assert self.store.feed(cursor).events == ()
        assert self.store.renew(lease, 2 * TTL_MS).token == 1

    def test_appending_goes_on_after_closing_and_opening(self) -> None:
        self.need("durable")
        stream = self.new_stream(2)
        event = stream.event()
        receipt = self.append(stream.unit(event))
        self.reopen()
        assert self.append(stream.unit(event)) == Receipt(receipt.positions, duplicate=True)
        assert self.append(stream.unit(stream.event())).positions[0].sequence == 4

    def test_two_handles_see_each_others_appends(self) -> None:
        self.need("shared")
        stream = self.new_stream()
        other = self.open_another()
        try:
            for sequence in range(1, 7):
                handle = (self.store, other)[sequence % 2]
                (outcome,) = handle.append([stream.unit(stream.event(), expected=at(sequence - 1))]).result(
                    DEADLINE_S
                )
                assert isinstance(outcome, Receipt)
            assert everything(self.store) == everything(other)
        finally:
            other.close()

    def test_two_handles_fence_and_refuse_each_other(self) -> None:
        self.need("shared")
        stream = self.new_stream()
        other = self.open_another()
        try:
            old = self.store.claim(stream.stream_id, "here", TTL_MS, 0).lease
            self.append(stream.unit(stream.event(), token=old.token))
            self.clock.advance(TTL_MS)
            other.claim(stream.stream_id, "there", TTL_MS, 1, stream.unit(stream.event(), token=2))
            self.refused(stream.unit(stream.event(), token=old.token), Fenced)
            self.refused(stream.unit(stream.event(), expected=at(1)), WrongSequence)
        finally:
            other.close()

    def test_two_handles_appending_at_once_make_one_chain(self) -> None:
        self.need("shared")
        stream = self.new_stream()
        other = self.open_another()
        units = [stream.unit(event) for event in stream.events(2 * APPENDS)]
        refusals: list[Refusal] = []

        def append_there() -> None:
            for unit in units[APPENDS:]:
                (outcome,) = other.append([unit]).result(DEADLINE_S)
                refusals.extend([outcome] if isinstance(outcome, Refusal) else [])

        thread = threading.Thread(target=append_there)
        thread.start()
        for unit in units[:APPENDS]:
            self.append(unit)
        thread.join(DEADLINE_S)
        other.close()
        assert refusals == []
        events = self.store.read(stream.stream_id)
        assert [event.sequence for event in events] == list(range(1, 2 * APPENDS + 1))
