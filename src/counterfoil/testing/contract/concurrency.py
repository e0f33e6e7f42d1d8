"""Many threads at once: no fork, no gap, one winner of every race."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from counterfoil.core.event import read_header
from counterfoil.errors import ConflictError, Fenced, GuardFailed, LeaseHeld, WrongSequence
from counterfoil.store.rows import Absent, Patch, Put, RowIs
from counterfoil.store.unit import NONE, Outcome, Receipt, Refusal, Unit, at
from counterfoil.testing.contract.case import DEADLINE_S, GATE, PARCEL, ContractCase, parcel
from counterfoil.testing.events import SampleStream

THREADS = 16
APPENDS = 12
TASKS = 64
PASSES_MAX = 20_000
TTL_MS = 30_000

Result = TypeVar("Result")


class ConcurrencyContract(ContractCase):
    """Any number of threads and tasks may use one store."""

    def together(self, calls: Sequence[Callable[[], Result]]) -> list[Result]:
        """The results of these calls, begun at the same moment in a thread each."""
        gate = threading.Barrier(len(calls))

        def run(call: Callable[[], Result]) -> Result:
            gate.wait(DEADLINE_S)
            return call()

        with ThreadPoolExecutor(len(calls)) as pool:
            return [future.result(DEADLINE_S) for future in [pool.submit(run, call) for call in calls]]

    def race(self, units: Sequence[Unit]) -> list[Outcome]:
        """The outcomes of these units, appended at the same moment."""
        return self.together([lambda unit=unit: self.outcomes(unit)[0] for unit in units])  # type: ignore[misc]  # the default binds the unit

    def check_chain(self, stream: SampleStream, count: int) -> None:
        """The stream holds ``count`` events, 1, 2, 3, …, each naming the hash before it."""
        events = self.store.read(stream.stream_id, limit=10 * count)
        assert [event.sequence for event in events] == list(range(1, count + 1))
        hashes = [stream.genesis.hash, *(event.hash for event in events)]
        named = [read_header(event.header).previous_event_hash for event in events]
        assert named == [previous.hex() for previous in hashes[:-1]]
        head = self.store.head(stream.stream_id)
        assert head is not None
        assert (head.sequence, head.hash) == (count, hashes[-1])

    def check_one_winner(self, outcomes: Sequence[Outcome], kind: type[ConflictError]) -> None:
        """One unit was recorded, every other one was refused in this way."""
        assert sum(isinstance(outcome, Receipt) for outcome in outcomes) == 1
        assert {type(outcome.error) for outcome in outcomes if isinstance(outcome, Refusal)} <= {kind}

    def test_many_threads_on_one_stream_make_one_chain(self) -> None:
        stream = self.new_stream()
        units = [[stream.unit(event) for event in stream.events(APPENDS)] for _ in range(THREADS)]

        def append_all(mine: list[Unit]) -> list[int]:
            return [self.append(unit).positions[0].sequence for unit in mine]

        answers = self.together([lambda mine=mine: append_all(mine) for mine in units])  # type: ignore[misc]  # as above
        assert all(answer == sorted(answer) for answer in answers)
        assert sorted(sequence for answer in answers for sequence in answer) == list(
            range(1, THREADS * APPENDS + 1)
        )
        self.check_chain(stream, THREADS * APPENDS)

    def test_many_threads_that_do_not_wait_for_their_answers_make_one_chain(self) -> None:
        stream = self.new_stream()
        units = [[stream.unit(event) for event in stream.events(APPENDS)] for _ in range(THREADS)]
        futures = self.together([lambda mine=mine: [self.store.append([u]) for u in mine] for mine in units])  # type: ignore[misc]  # as above
        for future in [future for mine in futures for future in mine]:
            assert isinstance(future.result(DEADLINE_S)[0], Receipt)
        self.check_chain(stream, THREADS * APPENDS)

    def test_many_threads_on_many_streams_make_one_chain_each(self) -> None:
        streams = [self.new_stream() for _ in range(THREADS)]
        self.race(
            [Unit(tuple(stream.adding(stream.event()) for stream in order)) for order in rotations(streams)]
        )
        for stream in streams:
            self.check_chain(stream, THREADS)

    def test_tasks_on_one_stream_make_one_chain(self) -> None:
        from counterfoil.store.aio import AsyncAppender

        stream = self.new_stream()
        units = [stream.unit(event) for event in stream.events(TASKS)]

        async def append_all() -> list[list[Outcome]]:
            appender = AsyncAppender(self.store)
            return await asyncio.wait_for(
                asyncio.gather(*(appender.append([unit]) for unit in units)), DEADLINE_S
            )

        outcomes = [outcome for answer in asyncio.run(append_all()) for outcome in answer]
        assert all(isinstance(outcome, Receipt) for outcome in outcomes)
        self.check_chain(stream, TASKS)

    def test_of_many_who_decided_on_the_same_head_one_wins(self) -> None:
        stream = self.new_stream(3)
        outcomes = self.race([stream.unit(event, expected=at(3)) for event in stream.events(THREADS)])
        self.check_one_winner(outcomes, WrongSequence)
        self.check_chain(stream, 4)

    def test_of_many_who_create_one_stream_one_wins(self) -> None:
        stream = SampleStream(self.ids)
        outcomes = self.race(
            [stream.unit(event, create=True, expected=NONE) for event in stream.events(THREADS)]
        )
        self.check_one_winner(outcomes, WrongSequence)
        self.check_chain(stream, 1)

    def test_the_same_unit_from_many_threads_lands_once(self) -> None:
        stream = self.new_stream()
        outcomes = self.race([stream.unit(*stream.events(2))] * THREADS)
        receipts = [outcome for outcome in outcomes if isinstance(outcome, Receipt)]
        assert len({receipt.positions for receipt in receipts}) == 1
        assert [receipt.duplicate for receipt in receipts].count(False) == 1
        assert len(receipts) == THREADS
        self.check_chain(stream, 2)

    def test_of_many_who_guard_by_absence_one_wins(self) -> None:
        streams = [self.new_stream() for _ in range(THREADS)]
        guard = Absent(PARCEL.name, ("p1",))
        outcomes = self.race([s.unit(s.event(), rows=(parcel("p1"),), guards=(guard,)) for s in streams])
        self.check_one_winner(outcomes, GuardFailed)

    def test_of_many_who_guard_by_the_same_version_one_wins(self) -> None:
        stream = self.new_stream()
        self.append(stream.unit(stream.event(), rows=(parcel("p1"),)))
        guard = RowIs(PARCEL.name, ("p1",), frozenset({"packed"}), 1)
        patch = Patch(PARCEL.name, ("p1",), {"weight": 9})
        outcomes = self.race(
            [stream.unit(event, rows=(patch,), guards=(guard,)) for event in stream.events(THREADS)]
        )
        self.check_one_winner(outcomes, GuardFailed)

    def test_nothing_that_was_guarded_by_a_watched_row_lands_after_its_change_is_answered(self) -> None:
        lanes = [self.new_stream() for _ in range(4)]
        began = threading.Semaphore(0)

        def pass_while_open(stream: SampleStream) -> int:
            """Units recorded until the gate was shut."""
            for count in range(PASSES_MAX):
                (outcome,) = self.outcomes(stream.unit(stream.event(), guards=(Absent(GATE.name, ("g1",)),)))
                began.release()
                if isinstance(outcome, Refusal):
                    assert isinstance(outcome.error, GuardFailed)
                    return count
            return PASSES_MAX

        with ThreadPoolExecutor(len(lanes)) as pool:
            passing = [pool.submit(pass_while_open, stream) for stream in lanes]
            assert all(began.acquire(timeout=DEADLINE_S) for _ in range(2 * len(lanes)))
            shutting = self.new_stream()
            shut = Put(GATE.name, {"gate_id": "g1", "state": "shut"})
            self.append(shutting.unit(shutting.event(), rows=(shut,)))
            heads = [self.store.head(stream.stream_id) for stream in lanes]
            passed = [future.result(DEADLINE_S) for future in passing]
        assert [head and head.sequence for head in heads] == passed

    def test_every_patch_of_one_row_counts(self) -> None:
        stream = self.new_stream()
        self.append(stream.unit(stream.event(), rows=(parcel("p1"),)))
        patch = Patch(PARCEL.name, ("p1",), {"state": "sent"})
        self.race([stream.unit(event, rows=(patch,)) for event in stream.events(THREADS)])
        row = self.store.get(PARCEL.name, ("p1",))
        assert row is not None
        assert row["row_version"] == 1 + THREADS

    def test_of_many_who_claim_one_lease_one_wins(self) -> None:
        stream = self.new_stream()

        def claim(number: int) -> ConflictError | int:
            unit = stream.unit(stream.event(), token=1)
            try:
                return self.store.claim(stream.stream_id, f"owner {number}", TTL_MS, 0, unit).lease.token
            except (Fenced, LeaseHeld) as error:
                return error

        answers = self.together([lambda number=number: claim(number) for number in range(THREADS)])  # type: ignore[misc]  # as above
        assert [answer for answer in answers if isinstance(answer, int)] == [1]
        self.check_chain(stream, 1)


def rotations(streams: Sequence[SampleStream]) -> list[list[SampleStream]]:
    """The streams begun at each place: units that lock them in different orders must not block one another."""
    return [[*streams[start:], *streams[:start]] for start in range(len(streams))]
