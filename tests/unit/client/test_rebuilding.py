"""Rebuilding the rows of a ledger, as its caller sees it."""

from __future__ import annotations

import pytest

import counterfoil


class Enough(Exception):
    """The caller's own reason to stop."""


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_what_progress_raises_is_the_callers_own_error_and_changes_nothing(tmp_path, engine):
    place = ":memory:" if engine == "memory" else tmp_path / "ledger"
    with counterfoil.open(place) as ledger:
        with ledger.run("agent", conversation="c", message="hello"):
            pass
        before, enough = ledger.runs(), Enough("stop")

        def progress(_):
            raise enough

        with pytest.raises(Enough) as raised:
            ledger.rebuild(progress)
        assert raised.value is enough
        assert ledger.runs() == before
        assert ledger.rebuild().events > 0
