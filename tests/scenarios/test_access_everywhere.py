"""Every command of the command line: what people said comes out of none unless somebody was allowed to see it."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import click
import pytest

import counterfoil
from counterfoil.cli.root import root
from counterfoil.effects.registry import own_tools
from counterfoil.errors import AccessError, ContentUnavailable, NotFoundError, ProjectionStopped, RunWaiting
from counterfoil.policy import RuleList, ask, shadow
from counterfoil.projections import registry
from counterfoil.reconcile.book import Columns
from counterfoil.runtime.agents import own_agents
from tests.command import Shell

SAID = "xyzzy"
"""In everything that is content and in nothing else."""

CONFIG = """
app = "guarded_shop"
[access]
people = { ann = ["security"] }
"""
ANN = ("--as", "ann", "--purpose", "complaint 17")
EVE = ("--as", "eve", "--purpose", "curiosity")
BY = ("--by", "Olga", "--reason", "it is said so")

APP = f"""
import counterfoil
from counterfoil.projections import projection


@projection("said", initial=[], types={{"admission.accepted"}})
def said(state, event):
    return [*state, event.content.get("message")]


@counterfoil.effect("bank.charge", version="1", touches={{"money"}}, doubt=counterfoil.by_key())
def charge(order: str, *, idempotency_key: str = "") -> str:
    return "{SAID} charged"


@counterfoil.effect(
    "bank.refund",
    version="1",
    touches={{"money"}},
    key=lambda order, **_: f"refund:{{order}}",
    doubt=counterfoil.by_review(),
    compensate=lambda order, **_: [charge.later(order)],
)
def refund(order: str, amount: str) -> str:
    if order.endswith("lost"):
        raise ConnectionError("{SAID}")
    return "{SAID} refunded"


answer = "{SAID} answer"


@counterfoil.agent("clerk")
def clerk(run):
    run.state["plan"] = "{SAID} plan"
    run.ask(lambda request: answer, [{{"role": "user", "content": "{SAID} asked"}}], name="scripted-1")
    run.artifact(b"{SAID} letter", name="{SAID}.txt")
    run.step("look", len, "{SAID}")
    refund("{SAID}-1", "40.00")
    run.finish(answer)
"""

# ---- what each command is, and how it is called ----------------------------------------------------------------------

SHOWS: Final[dict[str, str]] = {
    "ls": "ls",
    "show": "show {stream} --full",
    "tail": "tail {stream} --json",
    "review show": "review show {review}",
    "approve show": "approve show {approval}",
    "repair plan": "repair plan {effect}",
    "repair show": "repair show {repair}",
    "hold ls": "hold ls",
    "reconcile": "reconcile {directory}/book.csv --tool bank.refund --key-column key --json",
    "access ls": "access ls",
    "slots ls": "slots ls {stream}",
    "slots history": "slots history {stream} plan --json",
    "projections show": "projections show said {stream}",
    "artifacts ls": "artifacts ls",
    "artifacts get": "artifacts get {artifact} --out -",
    "diff": "diff {run} {other} --all --json",
}
"""Commands that show content: on record, to whom it is allowed, and nothing of it otherwise."""

LISTS: Final[dict[str, str]] = {
    "review ls": "review ls --state all",
    "approve ls": "approve ls --state all",
    "repair ls": "repair ls --state all",
    "schedule ls": "schedule ls",
    "shadow": "shadow",
    "projections ls": "projections ls",
    "turns": "turns",
    "turn show": "turn show {run}",
    "turn verify": "turn verify {run}",
    "export": "export {stream} --to {directory}/out.zip",
    "replay": "replay {run}",
    "rehearse": "rehearse {run}",
}
"""Commands that ask as those do, and show rows or digests of what was said, or give it to code or to a file."""

TELLS: Final[dict[str, str]] = {
    "backup": "backup --to {directory}/ledger.backup",
    "verify": "verify",
    "doctor": "doctor",
    "rebuild": "rebuild",
    "recover": "recover",
    "worker": "worker --once",
    "schedule add": "schedule add clerk --conversation {stream} --every 60 --message xyzzy",
    "schedule cancel": "schedule cancel {schedule} --by Olga",
    "tools": "tools",
    "observe": "observe {unknown} --outcome succeeded",
    "review assign": "review assign {review} --to Ines --by Olga --note xyzzy",
    "review settle": "review settle {review} --outcome succeeded --by Olga --reason xyzzy",
    "approve grant": "approve grant {approval} --by Olga --comment xyzzy",
    "approve deny": "approve deny {approval} --by Olga --comment xyzzy",
    "approve revoke": "approve revoke {approval} --by Olga --comment xyzzy",
    "approve batch": "approve batch grant {approval} --by Olga",
    "repair start": "repair start {other_effect} --by Olga --reason xyzzy --without-policy",
    "repair resume": "repair resume {repair} --without-policy",
    "repair close": "repair close {repair} --result partial --by Olga --reason xyzzy",
    "repair correct": "repair correct {event} --by Olga --reason xyzzy --value 1",
    "hold set": "hold set --tool bank.charge --by Olga --reason xyzzy",
    "hold release": "hold release --tool bank.letter --by Olga --reason xyzzy",
    "cancel": "cancel {waiting} --by Olga --reason xyzzy",
    "keys ls": "keys ls",
    "keys rotate": "keys rotate",
    "access glass": "access glass --as ann --reason xyzzy",
    "projections rebuild": "projections rebuild said {stream}",
    "artifacts verify": "artifacts verify",
    "turn keep": "turn keep",
    "turn abandon": "turn abandon",
}
"""Commands that act, count or check: they show nothing of what was said, to anybody."""

ELSEWHERE: Final = {
    "search": "says who asks by --by; test_access_command.py has it",
    "demo": "has a ledger of its own",
    "init": "makes a ledger",
    "import": "reads what is not in a ledger yet",
    "copy": "moves sealed records; test_copy.py",
    "restore": "makes a ledger of a file that holds one",
    "migrate": "takes sealed records over",
    "keys destroy": "opens nothing",
    "keys recipient": "has no ledger",
    "bench": "has a ledger of its own",
    "help": "has no ledger",
}


def commands(group: click.Group = root, before: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command that there is, groups resolved."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*before, name))
        else:
            yield " ".join((*before, name))


def test_every_command_has_its_place_here():
    """A new command is put in one of the tables, and so gets its tests."""
    placed = [*SHOWS, *LISTS, *TELLS, *ELSEWHERE]
    assert sorted(commands()) == sorted(placed)


# ---- the ledger ------------------------------------------------------------------------------------------------------


def made(shell: Shell) -> dict[str, str]:
    """A ledger with ``xyzzy`` in all content; the ids that commands are given, for a command says again what it is told."""
    app = importlib.import_module("guarded_shop")
    asking = RuleList(
        "limits", revision="1", otherwise="allow", rules=[ask("large", tool="bank.refund", question=SAID)]
    )
    ids = {"directory": str(shell.directory)}
    with shell.open(policy=shadow(asking), turns=True, projections=[app.said]) as ledger:
        for name in ("run", "other"):
            with ledger.run(
                "clerk", conversation=f"{SAID} {name}", message=f"{SAID} said", title=SAID
            ) as run:
                app.clerk(run)
            ids[name], app.answer = run.id, f"{SAID} otherwise"
        app.answer = f"{SAID} answer"
        row = ledger.run_row(ids["run"])
        ids["stream"], ids["event"] = (
            str(row["stream_id"]),
            next(ledger.events(str(row["stream_id"]))).event_id,
        )
        ids["artifact"] = str(ledger.artifacts.rows(ids["stream"])[0]["sha256"])
        ids["effect"] = str(ledger.effects(run_id=ids["run"])[0]["effect_id"])
        orders = ledger.declare_table("orders", "number")
        with ledger.run("clerk", conversation=ids["stream"]) as run:
            run.record("x.ordered", {}, ignorable=True, rows=[orders.put({"number": 1, "who": SAID})])
        ledger.index_search()
        with suppress(RunWaiting), ledger.run("clerk", conversation=SAID, message=SAID):
            app.refund(f"{SAID}-lost", "40.00")
        ids["review"] = str(ledger.reviews()[0]["review_id"])
        ids["unknown"] = str(ledger.reviews()[0]["effect_id"])
        with ledger.run("clerk", conversation=f"{SAID} late", message=SAID) as run:
            app.refund(f"{SAID}-2", "40.00")
        ids["other_effect"] = str(ledger.effects(run_id=run.id)[0]["effect_id"])
        ids["repair"] = ledger.open_repair(
            ids["effect"], by=SAID, reason=SAID, residual_impact=SAID
        ).repair_id
        ids["schedule"] = ledger.schedule(
            "clerk", conversation=ids["stream"], every_s=60, message=SAID
        ).schedule_id
        ledger.correct(ids["event"], SAID, by=SAID, reason=SAID)
        ledger.hold("bank.letter", by=SAID, reason=SAID)
        with ledger.reading(actor=SAID, purpose=SAID):
            pass
    with shell.open(policy=asking) as ledger:
        with suppress(RunWaiting), ledger.run("clerk", conversation=f"{SAID} asks", message=SAID) as run:
            app.refund(f"{SAID}-3", "40.00")
        ids["waiting"], ids["approval"] = run.id, str(ledger.approvals()[0]["approval_id"])
    (shell.directory / "book.csv").write_text(f"key\nrefund:{SAID}-9\n")
    return ids


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """The ledger, made once, with the application that made it loaded."""
    place = tmp_path_factory.mktemp("guarded")
    (place / "guarded_shop.py").write_text(APP)
    sys.path.insert(0, str(place))
    with own_tools(), own_agents(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_declared", {})
        patch.setattr(registry, "_types", {})
        yield place, made(Shell(place))
    sys.path.remove(str(place))
    sys.modules.pop("guarded_shop", None)


@pytest.fixture
def shop(scene, tmp_path):
    """A copy of the ledger to run one command on, where the configuration demands who reads."""
    place, ids = scene
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    (tmp_path / "counterfoil.toml").write_text(CONFIG)
    shell = Shell(tmp_path)

    def run(words: str, *more: str):
        given = words.format(**ids | {"directory": str(tmp_path)}).split()
        return shell(*given, *more)

    run.decisions = lambda: [
        (line.allowed, line.by) for line in _decisions(shell) if line.action != "glass" and line.by != SAID
    ]
    return run


def _decisions(shell: Shell) -> list[Any]:
    with shell.open() as ledger:
        return list(ledger.access.decisions())


# ---- what comes out --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", SHOWS)
def test_content_is_shown_to_whom_it_is_allowed_and_that_is_on_record(shop, command):
    done = shop(SHOWS[command], *ANN)
    assert SAID in done.out, done
    assert shop.decisions() == [(True, "ann")]


@pytest.mark.parametrize("command", LISTS)
def test_what_shows_rows_or_hands_on_asks_as_well(shop, command):
    done = shop(LISTS[command], *ANN)
    assert done.code in (0, 3), done
    assert shop.decisions() == [(True, "ann")]


@pytest.mark.parametrize("command", [*SHOWS, *LISTS])
def test_nothing_of_it_is_shown_to_whom_it_is_not_or_to_who_does_not_say_who_they_are(shop, command):
    words = {**SHOWS, **LISTS}[command]
    unsaid = shop(words)
    assert SAID not in unsaid.out + unsaid.err
    assert shop.decisions() == []
    refused = shop(words, *EVE)
    assert (refused.code, SAID in refused.out + refused.err) == (77, False)
    assert shop.decisions() == [(False, "eve")]


@pytest.mark.parametrize("command", TELLS)
def test_what_acts_counts_or_checks_does_its_work_and_shows_nothing_of_it(shop, command):
    done = shop(TELLS[command])
    assert (done.code in (0, 3), SAID in done.out + done.err) == (True, False), done


# ---- the same of the methods that such commands call -----------------------------------------------------------------


def opened(events: Any) -> list[Any]:
    return [event.content for event in events]


def amounts(ledger: counterfoil.Ledger) -> list[str]:
    """A word for each amount that the ledger recorded and the book has otherwise."""
    book = BytesIO(f"key,amount\nrefund:{SAID}-1,1\n".encode())
    report = ledger.reconcile("bank.refund", book, Columns(key="key", amount="amount"))
    return [SAID for finding in report.findings if finding.recorded is not None]


METHODS: Final[dict[str, Callable[[counterfoil.Ledger, dict[str, str]], Any]]] = {
    "artifacts": lambda ledger, ids: ledger.artifacts.find(ids["artifact"]).read(),
    "access": lambda ledger, ids: list(ledger.access.decisions()),
    "at": lambda ledger, ids: ledger.at(ids["stream"], 5).projection("said").state,
    "companion": lambda ledger, ids: ledger.companion(ids["stream"], "orders", 1).row,
    "companions": lambda ledger, ids: [one.row for one in ledger.companions(ids["stream"])],
    "conversations": lambda ledger, ids: ledger.conversations(),
    "corrections": lambda ledger, ids: ledger.corrections(ids["stream"]),
    "diff": lambda ledger, ids: ledger.diff(ids["run"], ids["other"]),
    "events": lambda ledger, ids: opened(ledger.events(ids["stream"])),
    "fact": lambda ledger, ids: ledger.fact(ids["event"], ids["stream"]).value,
    "holds": lambda ledger, ids: ledger.holds(),
    "interpret": lambda ledger, ids: opened(ledger.interpret(ids["stream"])),
    "projection": lambda ledger, ids: ledger.projection("said", ids["stream"]).state,
    "projector": lambda ledger, ids: (
        ledger.projector.view(ledger.projector.named("said"), ids["stream"]).state
    ),
    "reconcile": lambda ledger, ids: amounts(ledger),
    "repair_plan": lambda ledger, ids: ledger.repair_plan(ids["effect"]).calls[0].arguments,
    "repair_report": lambda ledger, ids: ledger.repair_report(ids["repair"]).residual_impact,
    "request": lambda ledger, ids: next(iter(ledger.requests(ids["stream"]))).body,
    "requests": lambda ledger, ids: [each.body for each in ledger.requests(ids["stream"])],
    "search": lambda ledger, ids: ledger.search(SAID, ids["stream"]),
    "slot_history": lambda ledger, ids: [slot.value for slot in ledger.slot_history(ids["stream"], "plan")],
    "slots": lambda ledger, ids: [slot.value for slot in ledger.slots(ids["stream"])],
    "tail": lambda ledger, ids: opened(ledger.tail(ids["stream"], 0, follow=False)),
}
"""Methods that hand content out. Code asks nobody by itself (record 0060); what was shut for who runs it stays shut."""

NO_CONTENT: Final = set(
    """aadmit abandon_turns admit approvals approve arepair aresume_repair aschedule assign authorizer budgets
    cancel cancel_schedule carry_out check_search check_writable child_host children close close_repair correct
    created declare declare_table defer deny destroy_kek doctor effects erase_from_search export_archive fire_due
    hold id import_archive index_search journal keep_turns keeps_turns keys_held keys_withheld let_in nursery observe
    open_repair
    parent_of project projection_rows read_only reading ready ready_inputs rebuild rebuild_projection rebuild_search
    record_tools recorded_schema recover recover_children rehearsals rehearse release repair repair_row repairs
    replay resume_repair reviews revoke rotate_keys run run_row runs schedule schedules search_file search_lag
    search_path search_place settle shadowed stream_named stream_of timer turn turns upcast worker""".split()
)
"""Those that act, or hand out rows, ids and digests; ``reading`` and ``export_archive`` ask by themselves."""


def test_every_method_of_a_ledger_has_its_place_here():
    public = {name for name in dir(counterfoil.Ledger) if not name.startswith("_")}
    assert public == NO_CONTENT | set(METHODS)
    assert not NO_CONTENT & set(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_what_a_handle_withholds_comes_out_of_none_of_its_methods(scene, method):
    place, ids = scene
    app = sys.modules["guarded_shop"]
    with Shell(place).open(projections=[app.said], read_only=True) as ledger:
        ledger.declare_table("orders", "number")
        assert SAID in repr(METHODS[method](ledger, ids))
    with Shell(place).open(projections=[app.said], read_only=True) as ledger:
        ledger.declare_table("orders", "number")
        ledger.ports.withheld = "nobody said who reads"
        told = ""
        with suppress(AccessError, ContentUnavailable, NotFoundError, ProjectionStopped):
            told = repr(METHODS[method](ledger, ids))
        assert SAID not in told
