"""`counterfoil replay`: a recorded run's code runs again on its record, touches nothing, and is told apart from other code."""

from __future__ import annotations

import asyncio
import importlib
import sys

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.runtime.agents import own_agents
from tests.command import Shell

APP = """
import pathlib

import counterfoil

BOOK = pathlib.Path(__file__).with_name("touched")


def touched(what):
    with BOOK.open("a") as book:
        book.write(what + "\\n")


@counterfoil.effect("stock.take", version="1", touches={"data"}, doubt=counterfoil.by_review())
def take(item: str):
    touched("take")
    return {"taken": item}


@counterfoil.effect("mail.send", version="1", touches={"messages"}, doubt=counterfoil.by_review())
def send(to: str):
    touched("send")
    return "sent"


def model(request):
    touched("model")
    return "Say yes."


def look(item):
    touched("look")
    return len(item)


@counterfoil.agent("clerk")
def clerk(run):
    said = run.ask(model, run.message, kind="small").text
    run.step("look", look, "pen")
    take("pen")
    send("ines@example.com")
    run.finish(said)
"""


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    (tmp_path / "counterfoil.toml").write_text('app = "clerking"')
    with own_tools(), own_agents():
        yield shell
    sys.modules.pop("clerking", None)


def loaded(shell, app=APP):
    """The application as it stands now, as a new process would import it."""
    (shell.directory / "clerking.py").write_text(app)
    sys.modules.pop("clerking", None)
    importlib.invalidate_caches()
    sys.path.insert(0, str(shell.directory))
    sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
    try:
        return importlib.import_module("clerking")
    finally:
        sys.dont_write_bytecode = kept
        sys.path.remove(str(shell.directory))


def recorded(shell, app=APP):
    module = loaded(shell, app)
    with (
        counterfoil.open(shell.place) as ledger,
        ledger.run("clerk", conversation="c", message="May I?") as run,
    ):
        module.clerk(run)
    return run.id


def replayed(shell, change, by, app=APP):
    """Record a run, change the code, replay; what was touched and recorded meanwhile must be nothing."""
    run_id = recorded(shell, app)
    before = state(shell)
    with own_tools(), own_agents():
        assert change in app
        loaded(shell, app.replace(change, by))
        printed = shell("replay", run_id, "--json")
    assert state(shell) == before
    return printed


def state(shell):
    with counterfoil.open(shell.place, read_only=True) as ledger:
        events = [event.event_id for event in ledger.events("c")]
    return events, (shell.directory / "touched").read_text()


def test_the_same_code_behaves_the_same_and_touches_nothing(shell):
    printed = replayed(shell, "yes", "yes")
    assert (printed.code, printed.json["same"], printed.json["asked"]) == (0, True, 4)


def test_another_order_of_tools_is_shown_with_both_sides(shell):
    both = '    take("pen")\n    send("ines@example.com")\n'
    printed = replayed(shell, both, '    send("ines@example.com")\n    take("pen")\n')
    assert printed.code == 4
    found = printed.json
    assert (found["at"], found["recorded"]["name"], found["replayed"]["name"]) == (
        2,
        "stock.take",
        "mail.send",
    )


def test_another_model_is_shown(shell):
    printed = replayed(shell, 'kind="small"', 'kind="large"')
    assert printed.code == 4
    found = printed.json
    assert (found["at"], found["recorded"]["kind"], found["replayed"]["kind"]) == (0, "model", "model")
    assert found["recorded"]["digest"] != found["replayed"]["digest"]


@pytest.mark.parametrize(
    "extra", ['take("ink")', 'run.step("more", look, "ink")', 'run.ask(model, "Really?")']
)
def test_one_thing_more_is_stopped_before_it_is_done(shell, extra):
    printed = replayed(shell, "    run.finish(said)", f"    {extra}\n    run.finish(said)")
    assert printed.code == 4
    assert (printed.json["at"], printed.json["recorded"]) == (4, None)


def test_code_that_swallows_being_stopped_is_told_apart_all_the_same(shell):
    swallowing = '    try:\n        take("ink")\n    except Exception:\n        pass\n    run.finish(said)'
    printed = replayed(shell, "    run.finish(said)", swallowing)
    assert (printed.code, printed.json["at"]) == (4, 4)


def test_one_thing_less_is_shown(shell):
    printed = replayed(shell, '    send("ines@example.com")\n', "")
    assert (printed.code, printed.json["at"], printed.json["replayed"]) == (4, 3, None)


def test_other_arguments_are_shown(shell):
    printed = replayed(shell, 'take("pen")', 'take("ink")')
    assert (printed.code, printed.json["at"]) == (4, 2)
    assert printed.json["difference"] == "the code asks for the same with other arguments"


def test_another_answer_is_shown(shell):
    printed = replayed(shell, "run.finish(said)", "run.finish(said.upper())")
    assert (printed.code, printed.json["at"], printed.json["recorded"]["kind"]) == (4, None, "end")


def test_effects_inside_a_step_belong_to_the_step(shell):
    app = APP.replace('    touched("look")\n', '    touched("look")\n    take("inside")\n')
    assert replayed(shell, "yes", "yes", app).json["same"] is True


def test_a_run_that_failed_fails_the_same_way(shell):
    app = APP.replace("    run.finish(said)", "    raise ValueError(said)")
    module = loaded(shell, app)
    with (
        counterfoil.open(shell.place) as ledger,
        pytest.raises(ValueError, match="Say yes"),
        ledger.run("clerk", conversation="c", message="May I?") as run,
    ):
        module.clerk(run)
    assert shell("replay", run.id).code == 0


def test_an_async_agent_is_replayed_too(shell):
    app = APP.replace("def clerk(run)", "async def clerk(run)").replace("run.ask(", "(await run.aask(")
    app = app.replace('kind="small").text', 'kind="small")).text')
    app = app.replace('run.step("look"', 'await run.astep("look"').replace(
        '    take("pen")', '    await take("pen")'
    )
    app = (
        app.replace('    send("ines', '    await send("ines')
        .replace("def take", "async def take")
        .replace("def send", "async def send")
    )
    module = loaded(shell, app)

    async def work():
        with counterfoil.open(shell.place) as ledger:
            async with ledger.run("clerk", conversation="c", message="May I?") as run:
                await module.clerk(run)
        return run.id

    printed = shell("replay", asyncio.run(work()), "--json")
    assert (printed.code, printed.json["same"]) == (0, True)


def test_an_agent_that_nobody_registered_is_a_typed_error(shell):
    run_id = recorded(shell)
    with own_agents():
        (shell.directory / "clerking.py").write_text("")
        sys.modules.pop("clerking", None)
        printed = shell("replay", run_id)
    assert printed.code == 66
    assert "agent clerk" in printed.err


def test_a_run_that_is_not_there_is_a_typed_error(shell):
    recorded(shell)
    assert shell("replay", "run_00000000000000000000000000").code == 66


def test_hostile_names_reach_no_terminal(shell):
    app = APP.replace('run.step("look"', 'run.step("look\\x1b[2J\\u202e"')
    run_id = recorded(shell, app)
    with own_tools(), own_agents():
        loaded(shell, app.replace('look, "pen"', 'look, "ink"'))
        printed = shell("replay", run_id)
    assert printed.code == 4
    assert "\x1b" not in printed.out
    assert "\u202e" not in printed.out


def test_steps_side_by_side_are_compared_whatever_they_do_inside(shell):
    app = APP.replace(
        '    run.step("look", look, "pen")\n',
        """
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(4) as pool:
        both = [pool.submit(run.bind(send), f"x{number}") for number in range(4)]
        both += [pool.submit(run.bind(run.step), "look", look, f"y{number}") for number in range(4)]
        [one.result() for one in both]
""",
    ).replace('    touched("look")\n', '    touched("look")\n    take(item)\n')
    assert replayed(shell, "yes", "yes", app).json["same"] is True


def test_a_run_that_was_cancelled_is_compared_as_far_as_it_came(shell):
    module = loaded(shell, APP.replace("    take(", '    run.cancel("enough")\n    take('))
    with (
        counterfoil.open(shell.place) as ledger,
        pytest.raises(counterfoil.errors.RunStopped),
        ledger.run("clerk", conversation="c", message="May I?") as run,
    ):
        module.clerk(run)
    assert shell("replay", run.id).code == 0
    with own_tools(), own_agents():
        loaded(shell)
        assert shell("replay", run.id).code == 0


def test_a_repeat_that_is_on_record_less_often_is_shown(shell):
    app = APP.replace(
        'touches={"data"}, doubt=counterfoil.by_review()', "touches=set(), doubt=counterfoil.by_repeating()"
    )
    printed = replayed(shell, "    run.finish(said)", '    take("pen")\n    run.finish(said)', app)
    assert (printed.code, printed.json["recorded"], printed.json["replayed"]["name"]) == (
        4,
        None,
        "stock.take",
    )


def test_where_the_record_cannot_be_read_nothing_is_compared(shell):
    run_id = recorded(shell)
    (shell.place / "keys.db").unlink()
    printed = shell("replay", run_id)
    assert printed.code == 77
    assert printed.out == ""


def test_an_answer_that_moved_to_an_artifact_is_compared_whole(shell):
    app = APP.replace("run.finish(said)", "run.finish(said * 100_000)")
    assert replayed(shell, "yes", "yes", app).json["same"] is True
