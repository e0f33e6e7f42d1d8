"""What artifacts cost: nothing where there are none, and bounded memory where they are large."""

from __future__ import annotations

import sys
import tracemalloc
from collections import Counter

import counterfoil
from counterfoil.core.event import prepare
from counterfoil.flow.requests import Entry, UnitDraft

PIECE = bytes(range(256)) * 1024
PIECES = 160
"""Pieces of 256 KiB: 40 MiB."""

PEAK_BYTES_MAX = 6 * 1024 * 1024


def calls(fn):
    """How often each function is called while ``fn`` runs, by module and name."""
    found = Counter()

    def note(frame, what, argument):
        if what == "call":
            found[f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}"] += 1
        elif what == "c_call":
            found[getattr(argument, "__qualname__", repr(argument))] += 1

    sys.setprofile(note)
    try:
        fn()
    finally:
        sys.setprofile(None)
    return found


def theirs(found):
    """Those of the calls that are about artifacts."""
    return [name for name in found if "counterfoil.artifacts" in name or "spill" in name or "vault" in name]


def test_an_event_without_artifacts_is_prepared_with_the_same_calls_whether_they_are_looked_for_or_not(
    ledger,
):
    with ledger.run("a", conversation="c") as run:
        scope = run._scope
        ports, material = scope.ports, scope.ports.material(run.conversation)
        draft = scope.draft(
            "step.started", {"kind": "code", "name": "s", "memo": "0" * 32}, {"input": ["x" * 300] * 3}
        )
        genesis = ports.genesis(run.conversation)

        def make(spill):
            return calls(lambda: prepare(genesis, material, draft, ports.registry, spill=spill))

        make(True)
        assert make(True) == make(False)


def test_appending_an_event_without_artifacts_calls_nothing_of_theirs(ledger):
    with ledger.run("a", conversation="c") as run:
        scope = run._scope
        draft = scope.draft(
            "step.started", {"kind": "code", "name": "s", "memo": "0" * 32}, {"input": "x" * 3_000}
        )
        unit = UnitDraft((Entry(run.conversation, (draft,), token=scope.token),))
        found = calls(lambda: scope.ports.append(unit))
    assert theirs(found) == []


def test_an_effect_without_artifacts_calls_nothing_of_theirs_beyond_its_declaration(ledger):
    @counterfoil.effect("cost.pay", version="1", touches={"money"}, doubt=counterfoil.by_review())
    def pay(order: str) -> str:
        return order

    with ledger.run("a", conversation="c"):
        pay("o-1")
        found = calls(lambda: pay("o-2"))
    assert theirs(found) == []


def test_a_large_artifact_streams_in_and_out_in_bounded_memory(tmp_path):
    with counterfoil.open(tmp_path / "ledger") as ledger, ledger.run("a", conversation="c") as run:
        run.artifact(b"warm").read()
        tracemalloc.start()
        try:
            kept = run.artifact((PIECE for _ in range(PIECES)), name="large")
            size = sum(map(len, kept.pieces()))
            kept.save(tmp_path / "copy")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert size == kept.size == PIECES * len(PIECE) == (tmp_path / "copy").stat().st_size
        assert peak < PEAK_BYTES_MAX
