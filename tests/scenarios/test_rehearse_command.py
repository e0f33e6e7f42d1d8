"""`counterfoil rehearse` and `counterfoil diff`: another model or policy on a recorded run, and the two side by side."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.cli.render.line import width as cells
from counterfoil.effects.registry import own_tools
from counterfoil.runtime.agents import own_agents
from tests.scenarios.test_cli_hostile import HOSTILE, check_harmless
from tests.scenarios.test_replay_command import APP, loaded, recorded, shell

__all__ = ["shell"]

MORE = (
    APP
    + """

def other(request):
    return counterfoil.Response("Say no.", input_tokens=4, output_tokens=2, cost="0.01", currency="EUR")


from counterfoil.abc.policy import Ruling


class Never:
    name, revision = "never", "3"

    def evaluate(self, call):
        return Ruling("deny", rules=("never",))

    def snapshot(self):
        return {}


never = Never()
"""
)


def touched(shell):
    return (shell.directory / "touched").read_text()


def rehearsed(shell, *words, app=MORE):
    """Record a run, then rehearse it as another process would; the tools must not be called."""
    run_id = recorded(shell, app)
    before = touched(shell)
    with own_tools(), own_agents():
        loaded(shell, app)
        printed = shell("rehearse", run_id, *words)
    assert "take" not in touched(shell).removeprefix(before)
    assert "send" not in touched(shell).removeprefix(before)
    return run_id, printed


def test_a_rehearsal_from_the_record_is_the_same_and_asks_nobody(shell):
    run_id, printed = rehearsed(shell, "--json")
    found = printed.json
    assert (printed.code, found["rehearsal_of"], found["terminal"]) == (0, run_id, "success")
    assert (found["difference"]["same"], found["counts"]["blocked"]) == (True, [])
    assert shell("diff", run_id, found["run_id"]).code == 0


def test_another_model_is_asked_and_what_it_costs_is_shown(shell):
    run_id, printed = rehearsed(shell, "--model", "clerking:other", "--json")
    found = printed.json
    assert found["counts"]["answers_live"] == 1
    assert found["difference"]["used"]["right"]["cost"] == "0.01"
    kinds = [(pair["left"] or pair["right"])["kind"] for pair in found["difference"]["pairs"]]
    assert kinds == ["request", "response", "end"]
    done = shell("diff", run_id, found["run_id"])
    assert (done.code, "≠  response" in done.out, "0.01 EUR" in done.out) == (4, True, True)
    assert shell("diff", run_id, found["run_id"], "--all").out.count("=  ") == 3


def test_a_policy_is_named_as_an_object(shell):
    _, printed = rehearsed(shell, "--policy", "clerking:never", "--json")
    found = printed.json
    assert (found["error_class"], found["terminal"]) == ("PolicyDenied", "policy_stop")
    assert found["counts"]["calls_denied"] == 1


def test_a_policy_is_named_as_a_file_of_cedar_policies(shell):
    pytest.importorskip("cedarpy")
    (shell.directory / "trial.cedar").write_text(
        '@id("no-mail") permit(principal, action == Action::"stock.take", resource);'
    )
    _, printed = rehearsed(shell, "--policy", "trial.cedar", "--json")
    assert printed.json["error_class"] == "PolicyDenied"


def test_what_was_blocked_is_told(shell):
    app = MORE.replace('    take("pen")', '    take("pen" if said == "Say yes." else "ink")')
    _, printed = rehearsed(shell, "--model", "clerking:other", app=app)
    assert printed.code == 0
    assert "blocked tool stock.take: the rehearsed run did not make it with these arguments" in printed.out
    assert "none was made" in printed.out


@pytest.mark.parametrize(
    "words, code",
    [
        (("--model", "clerking"), 64),
        (("--model", "clerking:nothing"), 64),
        (("--policy", "clerking:other"), 64),
        (("--policy", "none.cedar"), 66),
    ],
)
def test_what_is_named_wrong_is_told_and_nothing_is_recorded(shell, words, code):
    run_id = recorded(shell, MORE)
    with own_tools(), own_agents():
        loaded(shell, MORE)
        assert shell("rehearse", run_id, *words).code == code
    with counterfoil.open(shell.place, read_only=True) as ledger:
        assert len(ledger.conversations()) == 1


def test_runs_that_are_not_there_are_told(shell):
    run_id = recorded(shell)
    assert shell("diff", run_id, "run_00000000000000000000000000").code == 66
    assert shell("rehearse", "run_00000000000000000000000000").code == 66


@pytest.mark.parametrize("width", [40, 100])
def test_hostile_text_in_either_run_is_shown_with_marks(shell, width):
    app = MORE.replace('return "Say yes."', f"return {HOSTILE!r}").replace(
        'take("pen")', f"take({HOSTILE!r})"
    )
    run_id, printed = rehearsed(shell, "--model", "clerking:other", app=app)
    check_harmless(printed.out + printed.err)
    rehearsal = printed.out.split()[0]
    for words in (("diff", run_id, rehearsal, "--all"), ("diff", run_id, rehearsal, "--json")):
        done = shell(*words, width=width)
        check_harmless(done.out + done.err)
        if "--json" not in words:
            assert max(cells(line) for line in done.out.splitlines()) <= max(width, 100)


def test_where_access_is_guarded_a_rehearsal_asks_who_reads_and_what_for(shell):
    run_id = recorded(shell, MORE)
    config = shell.directory / "counterfoil.toml"
    config.write_text(config.read_text() + '\n[access]\npeople = { "ann" = ["auditor"] }\n')
    with own_tools(), own_agents():
        loaded(shell, MORE)
        refused = shell("rehearse", run_id)
        assert (refused.code, "Say" in refused.out + refused.err) == (77, False)
        done = shell("rehearse", run_id, "--as", "ann", "--purpose", "trial", "--json")
    assert (done.code, done.json["difference"]["same"]) == (0, True)


def test_a_rehearsal_is_shown_as_one_and_its_calls_as_not_made(shell):
    run_id, printed = rehearsed(shell)
    shown = " ".join(shell("show", printed.out.split()[0], width=140).out.split())
    assert f"of {run_id}: no effect is made" in shown
    assert shown.count("from the record, not made") == 2
