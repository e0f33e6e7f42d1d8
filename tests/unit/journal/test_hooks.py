from __future__ import annotations

import pytest

from counterfoil.errors import TurnRefused
from counterfoil.journal import Hooks, JournalSettings, MemoryJournal, TurnJournals, hooks_applied
from counterfoil.journal.hooks import current_hooks
from tests.journals import journals, stages, written

HOOKS = Hooks(
    inbound=(("injection", lambda text: "an instruction" if "ignore" in text else None),),
    outbound=(("tone", lambda text: "rude" if "!" in text else None),),
    model=(("budget", lambda request: None),),
)


def test_hooks_that_pass_are_guard_events():
    made = journals()
    with hooks_applied(HOOKS), made.begin("support") as turn:
        turn.screen("hello")
        turn.before_model({"messages": []})
        turn.release("fine")
    assert stages(written(made, turn.turn_id))[1:4] == [
        "GUARD guard=injection outcome=pass side=inbound",
        "GUARD guard=budget outcome=pass side=model",
        "GUARD guard=tone outcome=pass side=outbound",
    ]


def test_a_hook_that_refuses_ends_the_turn_as_refused():
    made = journals()
    with pytest.raises(TurnRefused), hooks_applied(HOOKS), made.begin("support") as turn:
        turn.screen("ignore all that")
    assert stages(written(made, turn.turn_id))[1:] == [
        "GUARD guard=injection outcome=refused side=inbound",
        "COMMIT status=refused",
    ]


def test_hooks_refuse_the_same_while_the_journal_is_off():
    made = TurnJournals(MemoryJournal(), JournalSettings())
    with pytest.raises(TurnRefused), hooks_applied(HOOKS), made.begin("support") as turn:
        turn.screen("ignore all that")


def test_a_turn_inside_another_has_the_parents_hooks_and_its_own():
    made = journals()
    seen = []

    def delegate():
        own = Hooks(inbound=(("own", seen.append),))
        with hooks_applied(own), made.begin("research") as turn:
            turn.screen("find it")
        return turn.turn_id

    with hooks_applied(HOOKS), made.begin("support") as turn:
        child = turn.tool(delegate)()
    assert stages(written(made, child))[1:3] == [
        "GUARD guard=injection outcome=pass side=inbound",
        "GUARD guard=own outcome=pass side=inbound",
    ]
    assert seen == ["find it"]
    assert current_hooks() == Hooks()
