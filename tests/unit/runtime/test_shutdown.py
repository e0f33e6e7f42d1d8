"""SIGTERM ends the open runs as ``shutdown``, and then the process (DESIGN 11). Each test is a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

import counterfoil
from tests.running import facts

pytestmark = pytest.mark.processes


@pytest.fixture
def run_script(tmp_path):
    """Runs a program that ends by a signal it sends itself; returns how it ended and the ledger it leaves."""
    opened = []

    def run(body):
        script = tmp_path / "program.py"
        place = tmp_path / "ledger"
        head = f"import asyncio, os, signal, counterfoil\nledger = counterfoil.open({str(place)!r})\n"
        script.write_text(head + textwrap.dedent(body))
        command = [sys.executable, script]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        opened.append(counterfoil.open(place, create=False))
        return done, opened[-1]

    yield run
    for ledger in opened:
        ledger.close()


def test_a_sync_run_ends_as_shutdown_and_the_program_may_clean_up(run_script):
    done, ledger = run_script(
        """
        try:
            with ledger.run("a", conversation="c"):
                os.kill(os.getpid(), signal.SIGTERM)
                raise AssertionError("went on after SIGTERM")
        finally:
            print("cleaned up")
        """,
    )
    assert (done.returncode, done.stdout) == (143, "cleaned up\n"), done.stderr
    assert facts(ledger, "c", "run.finished")[0]["terminal"] == "shutdown"


def test_async_runs_end_as_shutdown_before_the_process_does(run_script):
    done, ledger = run_script(
        """
        inside = []

        async def agent(name, all_inside):
            async with ledger.run("a", conversation=name):
                inside.append(name)
                if len(inside) == 2:
                    all_inside.set()
                await asyncio.Event().wait()

        async def main():
            all_inside = asyncio.Event()
            agents = [asyncio.create_task(agent(name, all_inside)) for name in ("c", "d")]
            await all_inside.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait(agents)
            await asyncio.Event().wait()

        asyncio.run(main())
        """,
    )
    assert done.returncode == -signal.SIGTERM, done.stderr
    for name in ("c", "d"):
        assert facts(ledger, name, "run.finished")[0]["terminal"] == "shutdown"


def test_an_interrupt_of_asyncio_run_ends_its_runs_as_interrupted(run_script):
    # A program that is started in the background of a shell ignores interrupts, and so would this one.
    done, ledger = run_script(
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)

        async def main():
            async with ledger.run("a", conversation="c"):
                asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
                await asyncio.Event().wait()

        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            print("interrupted")
        """,
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
    assert facts(ledger, "c", "run.finished")[0]["terminal"] == "interrupted"


def test_a_program_with_a_handler_of_its_own_decides_itself(run_script):
    done, ledger = run_script(
        """
        signal.signal(signal.SIGTERM, lambda number, frame: print("mine"))
        with ledger.run("a", conversation="c"):
            os.kill(os.getpid(), signal.SIGTERM)
        """,
    )
    assert (done.returncode, done.stdout) == (0, "mine\n"), done.stderr
    assert facts(ledger, "c", "run.finished")[0]["terminal"] == "success"


@pytest.mark.parametrize("handler", ["lambda number, frame: sys.exit(7)", "signal.SIG_DFL"])
def test_a_worker_whose_program_is_told_to_go_leaves_in_the_middle_of_a_run(run_script, handler):
    done, ledger = run_script(
        f"""
        import sys
        from datetime import UTC, datetime

        @counterfoil.agent("a")
        def agent(run):
            os.kill(os.getpid(), signal.SIGTERM)

        signal.signal(signal.SIGTERM, {handler})
        ledger.schedule("a", conversation="c", at=datetime.now(UTC))
        ledger.worker().work()
        """,
    )
    assert done.returncode == (7 if "exit" in handler else 143), done.stderr
    assert facts(ledger, "c", "run.finished")[0]["terminal"] == "shutdown"


def test_the_signal_is_as_it_was_when_no_run_is_open(run_script):
    done, _ = run_script(
        """
        with ledger.run("a", conversation="c"):
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        """,
    )
    assert done.returncode == 0, done.stderr
