"""Case S17: whatever cancels a stream, what its reader already saw is on record, and the run never looks completed."""

from __future__ import annotations

import asyncio
import hashlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import counterfoil
from counterfoil.core import canonical

CHUNKS = [f"chunk {number} " for number in range(200)]
SEEN = 150


def delivered(ledger: counterfoil.Ledger) -> list[str]:
    """The chunks that the record keeps of a stream that did not end, checked against count and digest."""
    (event,) = ledger.events("case", types=["provider.failed"])
    kept = event.content["partial"]
    chunks, at = [], 0
    for length in kept["chunks"]:
        chunks.append(kept["text"][at : at + length])
        at += length
    assert event.data["chunks"] == len(chunks)
    assert kept["sha256"] == hashlib.sha256(canonical.encode(chunks)).hexdigest()
    return chunks


def terminal(ledger: counterfoil.Ledger) -> str | None:
    """How the run ended, by its row and by its event."""
    (row,) = ledger.runs("case")
    ends = [event.data["terminal"] for event in ledger.events("case", types=["run.finished"])]
    assert ends == ([] if row["terminal"] is None else [row["terminal"]])
    return row["terminal"]


def model(request: counterfoil.Request):
    yield from CHUNKS


async def amodel(request: counterfoil.Request):
    for chunk in CHUNKS:
        yield chunk


async def amodel_that_waits(request: counterfoil.Request):
    for chunk in CHUNKS[:SEEN]:
        yield chunk
    await asyncio.Event().wait()


# ---- the task is cancelled -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cancels", [1, 2, 3])
def test_a_cancelled_task_keeps_what_was_delivered_however_often_it_is_cancelled(tmp_path, cancels):
    async def main() -> None:
        reached = asyncio.Event()

        async def work() -> None:
            async with ledger.run("agent", conversation="case") as run:
                got = 0
                async for _ in run.astream(amodel_that_waits, "q"):
                    got += 1
                    if got == SEEN:
                        reached.set()

        task = asyncio.create_task(work())
        await reached.wait()
        for _ in range(cancels):
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with counterfoil.open(tmp_path / "shop") as ledger:
        asyncio.run(main())
        assert delivered(ledger) == CHUNKS[:SEEN]
        assert terminal(ledger) == "cancelled"


def test_a_task_that_is_cancelled_while_its_reader_is_busy_keeps_what_was_delivered(tmp_path):
    async def main() -> None:
        reached = asyncio.Event()

        async def work() -> None:
            async with ledger.run("agent", conversation="case") as run:
                got = 0
                async for _ in run.astream(amodel, "q"):
                    got += 1
                    if got == SEEN:
                        reached.set()
                        await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with counterfoil.open(tmp_path / "shop") as ledger:
        asyncio.run(main())
        assert delivered(ledger) == CHUNKS[:SEEN]
        assert terminal(ledger) == "cancelled"


# ---- the client goes away ------------------------------------------------------------------------------------------


def test_a_generator_that_is_closed_keeps_what_was_delivered(tmp_path):
    def answer():
        with ledger.run("agent", conversation="case") as run:
            yield from run.stream(model, "q")

    with counterfoil.open(tmp_path / "shop") as ledger:
        body = answer()
        assert [next(body) for _ in range(SEEN)] == CHUNKS[:SEEN]
        body.close()
        assert delivered(ledger) == CHUNKS[:SEEN]
        assert terminal(ledger) == "cancelled"


def test_an_async_generator_that_is_closed_keeps_what_was_delivered(tmp_path):
    async def answer():
        async with ledger.run("agent", conversation="case") as run:
            async for chunk in run.astream(amodel, "q"):
                yield chunk

    async def main() -> None:
        body = answer()
        assert [await anext(body) for _ in range(SEEN)] == CHUNKS[:SEEN]
        await body.aclose()

    with counterfoil.open(tmp_path / "shop") as ledger:
        asyncio.run(main())
        assert delivered(ledger) == CHUNKS[:SEEN]
        assert terminal(ledger) == "cancelled"


# ---- the process is told to go, or is gone ---------------------------------------------------------------------------

WORKER = f"""
import asyncio, sys, time
import counterfoil

def chunks(request):
    for number in range(200):
        if number == {SEEN}:
            print("there", flush=True)
            time.sleep(600)
        yield f"chunk {{number}} "

async def achunks(request):
    for number in range(200):
        if number == {SEEN}:
            print("there", flush=True)
            await asyncio.sleep(600)
        yield f"chunk {{number}} "

async def main(ledger):
    async with ledger.run("agent", conversation="case", dedupe="1") as run:
        async for _ in run.astream(achunks, "q", name="m"):
            pass

with counterfoil.open(sys.argv[1]) as ledger:
    if sys.argv[2] == "tasks":
        asyncio.run(main(ledger))
    else:
        with ledger.run("agent", conversation="case", dedupe="1") as run:
            for _ in run.stream(chunks, "q", name="m"):
                pass
"""


def signalled(place: Path, how: str, number: signal.Signals) -> None:
    """A worker that is sent a signal once its reader has seen 150 chunks and waits for the next."""
    words = [sys.executable, "-c", WORKER, str(place), how]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"there\n"
        worker.send_signal(number)
        worker.wait(60)


@pytest.mark.parametrize("how", ["threads", "tasks"])
def test_a_worker_that_is_told_to_go_keeps_what_was_delivered(tmp_path, how):
    signalled(tmp_path / "shop", how, signal.SIGTERM)
    with counterfoil.open(tmp_path / "shop") as ledger:
        assert delivered(ledger) == CHUNKS[:SEEN]
        assert terminal(ledger) == "shutdown"


def test_a_killed_worker_leaves_an_open_run_that_asks_again(tmp_path):
    signalled(tmp_path / "shop", "threads", signal.SIGKILL)
    with counterfoil.open(tmp_path / "shop") as ledger:
        assert terminal(ledger) is None
        assert ledger.conversations()[0].state == "interrupted"
        with ledger.run("agent", conversation="case", dedupe="1") as again:
            assert list(again.stream(model, "q", name="m")) == CHUNKS
        attempts = [event.header.attempt for event in ledger.events("case", types=["provider.requested"])]
        assert attempts == [1, 2]
        assert terminal(ledger) == "success"
