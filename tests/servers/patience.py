"""Deadlines of a store on a server, shortened for a moment: a slow machine must not fail what comes before and after."""

from __future__ import annotations

import contextlib
import time

from counterfoil.adapters.postgres import engine as engines
from counterfoil.adapters.postgres.connect import Patience

RUN_OUT_S = 1e6


@contextlib.contextmanager
def hasty(store, wait_s=1.0, answer_s=0.4):
    """Inside, calls of this handle give up soon; outside they wait as long as it was opened for."""
    engine, readers = store._engine, store._readers
    before, short = engine._patience, Patience(wait_s, answer_s)

    def set_to(patience):
        engine._patience = readers._patience = patience
        open_ = [engine._connection, *readers._idle]
        for connection in open_:
            if connection is not None:
                connection.answer_s = patience.answer_s

    set_to(short)
    try:
        yield
    finally:
        set_to(before)


class Hourglass:
    """The engine's clock for deadlines. It runs out when told, so that a deadline passes without a wait."""

    def __init__(self):
        self._ahead_s = 0.0

    def monotonic(self):
        return time.monotonic() + self._ahead_s

    def run_out(self):
        """Every deadline of a call under way has passed."""
        self._ahead_s += RUN_OUT_S


@contextlib.contextmanager
def hourglass():
    """The engines' deadlines pass when the test says so."""
    made, real = Hourglass(), engines.time
    engines.time = made
    try:
        yield made
    finally:
        engines.time = real
