"""ADR-0020, the turn journal (seed 000), sentence by sentence: each that states a behaviour is quoted, and kept."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import sqlite3
import threading
from contextlib import closing, suppress

import pytest
from msgspec.structs import fields, replace

import counterfoil
from counterfoil.cli.render.turned import turn_page
from counterfoil.core.turn import TURN_TYPES
from counterfoil.errors import ConfigInvalid, NotPermitted, TurnRefused
from counterfoil.journal import (
    Hooks,
    JournalSettings,
    MemoryJournal,
    ResultMarkers,
    TurnEvent,
    TurnJournals,
    begin,
    check_chain,
    check_start,
    hooks_applied,
    install,
    open_journal,
    tenant_scope,
    uninstall,
)
from counterfoil.journal.answers import SESSION_PATH, TURN_PATH, session_answer, turn_answer
from counterfoil.journal.event import linked
from counterfoil.journal.redaction import MASK, redact
from counterfoil.journal.turns import EXPOSED_HEADERS
from counterfoil.replay import Answer, ReplayModel, ToolUse, replay_turn, same_behaviour
from counterfoil.runtime.agents import own_agents
from tests.journals import NOW_MS, OTHER, TURN, Failing, Gated, journals, note, stages, whole, written
from tests.unit.journal.test_sql_journals import Stale

KEPT = []


def sentence(*quotes):
    """What follows keeps these sentences of the ADR."""

    def keep(check):
        KEPT.extend(pytest.param(check, id=quote) for quote in quotes)
        return check

    return keep


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def anybody(permission, agent_id):
    return True


def lookup(order):
    return {"order": order, "state": "lost"}


# ---- Decision --------------------------------------------------------------------------------------------------------


@sentence("TurnEvent(turnId, agentId, seq, type, payloadHash, summary, prevHash, hash, createdAt).")
def has_these_fields():
    names = [field.name for field in fields(TurnEvent)]
    assert names[:9] == (
        "turn_id agent_id seq type payload_hash summary prev_hash hash created_at_ms".split()
    )


@sentence("Types: INTAKE, GUARD, MODEL_CALL, TOOL_CALL, APPROVAL, VERIFY, COMMIT.")
def has_these_types():
    assert TURN_TYPES == ("INTAKE", "GUARD", "MODEL_CALL", "TOOL_CALL", "APPROVAL", "VERIFY", "COMMIT")


@sentence(
    "hash = SHA-256(prevHash | turnId | agentId | seq | type | payloadHash | summary | createdAtMillis); prevHash of"
    " seq 0 is 64 zeros."
)
def is_chained_by_this_formula():
    first, second = MemoryJournal().append([note(payload_hash="ab" * 32), note("COMMIT", "status=completed")])
    assert first.prev_hash == "0" * 64
    parts = [first.prev_hash, TURN, "support", "0", "INTAKE", "ab" * 32, first.summary, str(NOW_MS)]
    assert first.hash == sha("|".join(parts))
    assert second.hash == sha(
        "|".join([first.hash, TURN, "support", "1", "COMMIT", "", second.summary, str(NOW_MS)])
    )


@sentence(
    "TurnHashChain.verify recomputes the chain and reports the first broken seq (edit, removal, insertion, reorder)."
)
def names_the_first_broken_sequence():
    events = MemoryJournal().append([note("GUARD", f"guard=g{number}") for number in range(4)])
    edited = [*events[:1], replace(events[1], summary="guard=x"), *events[2:]]
    extra = linked(note("GUARD", "guard=extra"), (0, events[0].hash))
    broken = {
        "edit": (edited, 1),
        "removal": ([*events[:1], *events[2:]], 1),
        "insertion": ([events[0], extra, *events[1:]], 2),
        "reorder": ([events[0], events[2], events[1], events[3]], 1),
    }
    assert check_chain(events).intact
    for found, seq in broken.values():
        assert check_chain(found).broken_at_seq == seq


@sentence(
    "Implementations: InMemoryTurnJournal (tests, replay) and JdbcTurnJournal (Postgres, tenant table"
    " turn_journal_event, migration V498, primary key (turn_id, seq), appends retry on a lost seq race, an UPDATE"
    " trigger makes rows append-only; DELETE stays possible for retention and DPDP erasure)."
)
def is_append_only_in_a_database(tmp_path):
    with closing(Stale(tmp_path / "turns.db")) as journal:
        journal.append(whole())
        journal.append([note("GUARD", "guard=late")])
        assert [event.seq for event in journal.events("default", TURN)] == [0, 1, 2, 3]
        with closing(sqlite3.connect(journal.path)) as db:
            for statement in ("UPDATE turn_journal_event SET seq = 9", "DELETE FROM turn_journal_event"):
                with pytest.raises(sqlite3.IntegrityError):
                    db.execute(statement)
            key = [row[1] for row in db.execute("PRAGMA table_info(turn_journal_event)") if row[5]]
        assert key == ["turn_id", "seq"]
        assert journal.erase("default", turn_id=TURN) == 4


# ---- What is written, and what never is ------------------------------------------------------------------------------


@sentence("Payloads are never stored.")
def stores_no_payload(tmp_path):
    path = tmp_path / "turns.db"
    made = journals(open_journal(path))
    with made.begin("support", session="session-of-ines", message="a message of ines") as turn:
        turn.tool(lambda order: {"secret": "a result for ines"}, name="lookup")(order="the order of ines")
        turn.answer("an answer for ines")
    assert made.close(60)
    assert not [file for file in tmp_path.iterdir() if b"ines" in file.read_bytes()]


@sentence(
    "payloadHash is the SHA-256 of the user message (INTAKE), of the tool arguments (TOOL_CALL), of the final answer"
    " (COMMIT)."
)
def hashes_message_arguments_and_answer():
    made = journals()
    with made.begin("support", message="Where is it?") as turn:
        turn.tool(lookup)("O-1")
        turn.answer("On its way.")
    found = {event.type: event.payload_hash for event in written(made, turn.turn_id)}
    assert found == {
        "INTAKE": sha("Where is it?"),
        "TOOL_CALL": sha('{"order":"O-1"}'),
        "COMMIT": sha("On its way."),
    }


@sentence(
    "summary is a short structural string (tool=lookup status=ok resultSha=ab12.. ms=40, provider=.. model=.."
    " route=primary), passed through TurnRedaction (emails, bearer tokens, key-like tokens, long digit runs and long"
    " opaque tokens are masked; 240 characters max)."
)
def summarises_and_redacts():
    made = journals()
    with made.begin("support") as turn:
        turn.tool(lookup)("O-1")
        turn.model_call("acme", "acme-1")
        turn.guard("x" * 300, "pass", reason="word " * 300)
    _, tool, model, guard, _ = written(made, turn.turn_id)
    assert re.fullmatch(r"tool=lookup status=ok resultSha=[0-9a-f]{12} ms=\d+", tool.summary)
    assert model.summary.startswith("provider=acme model=acme-1 route=primary")
    assert len(guard.summary) <= 240
    for secret in (
        "ines@example.org",
        "Bearer abcdef0123",
        "sk-ant-api03-Zk3a9Qx7",
        "4111111111111111",
        "9fQ2mZr7Lx0Vb4Tn8Ks1",
    ):
        assert redact(f"x {secret} y").removeprefix("x Bearer ").removeprefix("x ") == f"{MASK} y"


@sentence("Tool results contribute only a 12 character digest.")
def shows_twelve_digits_of_a_result():
    made = journals()
    with made.begin("support") as turn:
        turn.tool(lookup)("O-1")
    summary = written(made, turn.turn_id)[1].summary
    digest = sha(json.dumps(lookup("O-1"), separators=(",", ":")))
    assert digest[:12] in summary
    assert digest[:13] not in summary


# ---- Where it hooks in -----------------------------------------------------------------------------------------------


@sentence(
    "ChatTurnExecutor.streamFast (hook calls only): INTAKE at entry, MODEL_CALL for the primary call, the"
    " tools-disabled retry and the provider fallback, TOOL_CALL through a JournalingToolCallback that decorates each"
    " tool, GUARD after the outbound guardrail audit, VERIFY for the fabricated-generation-URL check, COMMIT once per"
    " turn (completed, error or cancelled)."
)
def has_a_hook_for_each_stage():
    made = journals()
    turn = made.begin("support", message="m")
    for route in ("primary", "tools_disabled", "fallback"):
        turn.model(lambda: "x", provider="acme", model="acme-1", route=route)()
    turn.tools([lookup])[0]("O-1")
    turn.guard("outbound", "pass")
    turn.verify("fabricated-urls", ok=True, found=0)
    assert list(turn.stream(["On its way."])) == ["On its way."]
    turn.commit("error:Late")
    events = written(made, turn.turn_id)
    kinds = ["INTAKE", *["MODEL_CALL"] * 3, "TOOL_CALL", "GUARD", "VERIFY", "COMMIT"]
    assert [event.type for event in events] == kinds
    routes = [re.search(r"route=(\S+)", event.summary)[1] for event in events[1:4]]
    assert routes == ["primary", "tools_disabled", "fallback"]
    assert events[-1].summary == "status=completed"


@sentence(
    "APPROVAL is written by JournalingToolCallback when a call is held for a human (see \"What a tool call's status"
    " means\" below) and, on the turn that continues the task, as the human's decision.",
    "The turn that continues a task after the human decided writes decision=decided:completed|failed|denied with the"
    " same request id in its first events.",
)
def writes_approvals_on_both_turns():
    made = journals()
    park = made.markers.register("A colleague looks at it.", "approval_parked", request="apr-7")
    with made.begin("support", session="s") as first:
        first.tool(lambda: park, name="refund")()
    asked = [line for line in stages(written(made, first.turn_id)) if line.startswith("APPROVAL")]
    assert asked == ["APPROVAL decision=pending request=apr-7 tool=refund"]
    for outcome in ("completed", "failed", "denied"):
        with made.begin("support", session="s", decided={"apr-7": outcome}) as second:
            second.guard("tone", "pass")
        assert (
            stages(written(made, second.turn_id))[1] == f"APPROVAL decision=decided:{outcome} request=apr-7"
        )


@sentence(
    "The executor is built by hand, so it reaches the journal through TurnJournalGateway, installed by"
    " TurnJournalConfig."
)
def is_reached_through_a_gateway():
    try:
        made = install(journals())
        with begin("support", message="m") as turn:
            pass
        assert len(written(made, turn.turn_id)) == 2
    finally:
        uninstall()
    assert not begin("support").enabled


@sentence(
    "Disabled, begin() returns a no-op recorder: no wrapping of tools, no extra operators, no writes.",
    "app.turn-journal.enabled false: write the journal for chat turns on every depth and for delegated / specialist"
    " turns",
)
def does_nothing_while_it_is_off():
    made = TurnJournals(MemoryJournal(), JournalSettings())
    chunks = iter("ab")
    with made.begin("support", message="m") as turn:
        assert turn.tool(lookup) is lookup
        assert turn.stream(chunks) is chunks
        with made.begin("research") as inner:
            inner.guard("g", "pass")
    assert JournalSettings().enabled is False
    assert made.flush(60)
    assert made.journal.turns("default") == []


@sentence(
    "The recorder captures TenantScope on the request thread and re-applies it on whichever thread writes; a failing"
    " journal is logged and never reaches the turn."
)
def captures_the_tenant_and_survives_its_journal(caplog):
    made = journals()
    with tenant_scope("north"):
        turn = made.begin("support", message="m")
    worker = threading.Thread(target=turn.commit)
    worker.start()
    worker.join(60)
    assert [event.type for event in written(made, turn.turn_id, "north")] == ["INTAKE", "COMMIT"]
    failing = journals(Failing(OSError("disk")))
    with caplog.at_level(logging.ERROR), failing.begin("support") as turn:
        assert turn.tool(lookup)("O-1") == lookup("O-1")
    assert failing.flush(60)
    assert "OSError" in caplog.text


# ---- Every depth, and sub-agent turns --------------------------------------------------------------------------------


@sentence(
    "The streamed depth (FastStreamTurn), the buffered depths (BufferedTurnRunner: CAREFUL, RIGOROUS, PLANNED) and"
    " the turns a delegated agent or a specialist runs for another agent's tool call (SubAgentTurn) all begin a"
    " recorder with TurnJournals and write the same stages."
)
def writes_the_same_stages_at_every_depth():
    made = journals()

    def buffered(agent="support"):
        with made.begin(agent, message="m") as turn:
            turn.tool(lookup)("O-1")
            turn.answer("a")
        return turn.turn_id

    def streamed():
        turn = made.begin("support", message="m")
        turn.tool(lookup)("O-1")
        assert list(turn.stream(["a"])) == ["a"]
        return turn.turn_id

    async def in_a_task():
        async with made.begin("support", message="m") as turn:
            turn.tool(lookup)("O-1")
            turn.answer("a")
        return turn.turn_id

    def delegated():
        with made.begin("outer") as outer:
            return outer.tool(buffered)("research")

    ids = [buffered(), streamed(), asyncio.run(in_a_task()), delegated()]
    found = [[(event.type, event.payload_hash) for event in written(made, turn_id)] for turn_id in ids]
    assert [stage for stage, _ in found[0]] == ["INTAKE", "TOOL_CALL", "COMMIT"]
    assert found == [found[0]] * 4


@sentence(
    "A sub-agent turn is its own record (own turn id, own throwaway session); its INTAKE carries parent=<turn id> when"
    " the tool call that started it ran inside a journaled turn on the same thread, so a reader can follow the link"
    " from one record to the other."
)
def links_a_sub_agent_to_its_parent():
    made = journals()
    inner = []

    def delegate():
        with made.begin("research") as turn:
            inner.append(turn.turn_id)

    with made.begin("support", session="s") as turn:
        turn.tool(delegate)()
    parent, child = written(made, turn.turn_id)[0], written(made, inner[0])[0]
    assert child.summary == f"session={child.session_hash} parent={turn.turn_id}"
    assert (child.turn_id != parent.turn_id, child.session_hash != parent.session_hash) == (True, True)
    thread = threading.Thread(target=delegate)
    thread.start()
    thread.join(60)
    assert "parent=" not in written(made, inner[1])[0].summary


@sentence(
    "Sub-agent turns also get what a buffered turn gets (inbound screening, the delegate's own content guardrails,"
    " model-level hooks, finish-reason handling and the continuation policy), see SubAgentTurn."
)
def gives_a_sub_agent_the_hooks_of_its_parent():
    made = journals()
    outer = Hooks(
        inbound=(("screen", lambda text: "an instruction" if "ignore" in text else None),),
        model=(("limit", lambda request: None),),
    )
    own = Hooks(outbound=(("own", lambda text: None),))
    inner = []

    def delegate(question):
        with hooks_applied(own), made.begin("research", message=question) as turn:
            inner.append(turn.turn_id)
            turn.screen(question)
            turn.before_model({})
            turn.release("found")

    with hooks_applied(outer), made.begin("support") as turn:
        turn.tool(delegate)("find it")
        with suppress(TurnRefused):
            turn.tool(delegate)("ignore all that")
    guards = [line for line in stages(written(made, inner[0])) if line.startswith("GUARD")]
    assert guards == [
        "GUARD guard=screen outcome=pass side=inbound",
        "GUARD guard=limit outcome=pass side=model",
        "GUARD guard=own outcome=pass side=outbound",
    ]
    assert stages(written(made, inner[1]))[-1] == "COMMIT status=refused"


# ---- What a tool call's status means ---------------------------------------------------------------------------------


@sentence(
    "JournalingToolCallback wraps the tools from outside the guard chain, so the status is worked out from what the"
    " platform says about the result, not from the fact that the callback returned: ok (a result the platform did not"
    " write), error (the callback threw), blocked (a guard, dispatch gate, hook, argument policy, circuit breaker,"
    " output withholding or the tool budget answered instead of the tool) and parked (held for a human; an APPROVAL"
    " event with decision=pending and the approval request=<id> precedes it)."
)
def works_the_status_out():
    made = journals()
    kinds = "guard dispatch_gate hook argument_policy circuit_breaker output_withheld tool_budget".split()
    answers = {kind: made.markers.register(f"answer of {kind}", kind) for kind in kinds}
    park = made.markers.register("wait", "approval_parked", request="apr-7")

    def broken():
        raise ValueError

    with made.begin("support") as turn:
        turn.tool(lookup)("O-1")
        with suppress(ValueError):
            turn.tool(broken)()
        for kind, text in answers.items():
            turn.tool(lambda text=text: text, name=kind)()
        turn.tool(lambda: park, name="parked")()
    lines = stages(written(made, turn.turn_id))[1:-1]
    assert lines[0].startswith("TOOL_CALL tool=lookup status=ok")
    assert lines[1].startswith("TOOL_CALL tool=broken status=error error=ValueError")
    for line, kind in zip(lines[2:9], kinds, strict=True):
        assert line.startswith(f"TOOL_CALL tool={kind} status=blocked by={kind}")
    assert lines[9] == "APPROVAL decision=pending request=apr-7 tool=parked"
    assert lines[10].startswith("TOOL_CALL tool=parked status=parked")


@sentence(
    "The platform's answers are recognised by ToolResultMarker (core/guardrails): the layer that answers registers"
    " its exact text with a typed kind, so a configured wording (the approval-park text is configurable) or a wrapped"
    " one (an MCP refusal is a JSON object) is still recognised, and the old wording prefixes remain a fallback for a"
    " producer that did not register itself."
)
def recognises_the_platforms_answers():
    markers = ResultMarkers()
    text = markers.register("Bitte warten Sie auf eine Kollegin.", "approval_parked", request="apr-7")
    wrapped = {"isError": True, "content": [{"type": "text", "text": text}]}
    for result in (text, wrapped, json.dumps(wrapped)):
        assert markers.find(result).kind == "approval_parked"
    assert markers.find("Blocked by hook: nightly").kind == "hook"
    assert markers.find("Bitte warten") is None


# ---- Finding a turn --------------------------------------------------------------------------------------------------


@sentence(
    "The turn's id is made when the turn's TurnContext is built (TurnContext#turnId, never taken from the caller)."
)
def makes_the_id_itself():
    made = journals()
    ids = {made.begin("support", session=TURN, message=TURN).turn_id for _ in range(3)}
    assert len(ids) == 3
    assert TURN not in ids
    with pytest.raises(TypeError):
        made.begin("support", turn_id=TURN)


@sentence(
    "While the journal is on, the chat response carries it in X-Journal-Turn-Id (exposed to browsers by the CORS"
    " config), and every event of the turn also carries a digest of the chat session id (session_hash, tenant"
    " migration V666; the same digest is in the INTAKE summary, inside the hash chain)."
)
def carries_id_and_session():
    made = journals()
    with made.begin("support", session="case-1") as turn:
        turn.guard("g", "pass")
    assert made.headers(turn) == {"X-Journal-Turn-Id": turn.turn_id}
    assert EXPOSED_HEADERS == ("X-Journal-Turn-Id",)
    assert TurnJournals(None, JournalSettings()).headers(begin("support")) == {}
    events = written(made, turn.turn_id)
    assert {event.session_hash for event in events} == {sha("case-1")}
    assert f"session={sha('case-1')}" in events[0].summary


@sentence(
    "GET /api/agents/{agentId}/turns/{turnId}/journal returns the events plus chainIntact, brokenAtSeq; GET"
    " /api/agents/{agentId}/turn-journal?sessionId=...&limit=... lists a session's turns, newest first, with the"
    " status of each (completed, error:..., cancelled, refused, open).",
    "The Turn Inspector page (ADR-0021) opens a turn by agent id and turn id and, given a session id, lists that"
    " session's turns through the by-session endpoint.",
)
def answers_two_questions():
    assert (TURN_PATH, SESSION_PATH) == (
        "/api/agents/{agentId}/turns/{turnId}/journal",
        "/api/agents/{agentId}/turn-journal",
    )
    now = iter(range(NOW_MS, NOW_MS + 1000))
    made = journals(now_ms=lambda: next(now))
    statuses = ("completed", "error:ValueError", "cancelled", "refused")
    for status in statuses:
        made.begin("support", session="s").commit(status)
    turn = made.begin("support", session="s")
    made.flush(60)
    asked = {"tenant": "default", "agent_id": "support", "may": anybody}
    listed = session_answer(made.journal, session_hash=made.session_hash("s"), **asked)
    assert [each["status"] for each in listed["turns"]] == ["open", *reversed(statuses)]
    answer = turn_answer(made.journal, turn_id=turn.turn_id, **asked)
    assert (answer["chainIntact"], answer["brokenAtSeq"], len(answer["events"])) == (True, None, 1)


@sentence(
    "Authorization for both: PERM_VIEW_AUDIT_LOG (explicit rules in AdminIntegrationRules, two lines in the"
    " authorization snapshot) and VIEWER on the agent."
)
def asks_for_permission_and_role():
    journal = MemoryJournal()
    journal.append(whole())
    for refused in ("VIEW_AUDIT_LOG", "VIEWER"):
        asked = {
            "tenant": "default",
            "agent_id": "support",
            "may": lambda right, _, refused=refused: right != refused,
        }
        with pytest.raises(NotPermitted):
            turn_answer(journal, turn_id=TURN, **asked)
        with pytest.raises(NotPermitted):
            session_answer(journal, session_hash="ab" * 32, **asked)


@sentence("The reads work whether or not the flag is on (they serve what was recorded).")
def reads_while_it_is_off():
    made = TurnJournals(MemoryJournal(), JournalSettings(enabled=False))
    made.journal.append(whole())
    asked = {"tenant": "default", "agent_id": "support", "may": anybody}
    assert turn_answer(made.journal, turn_id=TURN, **asked)["chainIntact"]
    assert session_answer(made.journal, session_hash="ab" * 32, **asked)["turns"]


@sentence("Turns written before V666 have no session digest and are found by id only.")
def finds_turns_without_session_by_id():
    journal = MemoryJournal()
    journal.append(whole(session_hash=None))
    assert journal.turns("default", session_hash="ab" * 32) == []
    assert len(journal.events("default", TURN)) == 3


# ---- Replay ----------------------------------------------------------------------------------------------------------


@sentence(
    "TurnReplay runs a turn against a stubbed ReplayModel through the same tool decorator and journal, and"
    " sameBehaviour(recorded, replayed) compares the tool-call sequence (name plus argument hash) and the final-answer"
    " hash.",
    "Because the journal stores hashes, replay needs the stub (or a fixture) to supply the decisions; the journal"
    " supplies the expected sequence.",
)
def replays_and_compares():
    made = journals()
    with made.begin("support", message="m") as turn:
        turn.tool(lookup)("O-1")
        turn.answer("lost")
    recorded = written(made, turn.turn_id)

    def again(*decisions):
        return replay_turn(ReplayModel(decisions), {"lookup": lookup}, "m").events

    assert same_behaviour(recorded, again(ToolUse("lookup", {"order": "O-1"}), Answer("lost")))
    assert same_behaviour(recorded, again(ToolUse("lookup", {"order": "O-2"}), Answer("lost"))).at == 0
    assert not same_behaviour(recorded, again(ToolUse("lookup", {"order": "O-1"}), Answer("found")))


@sentence(
    "We want one ordered record per turn that can be rendered, replayed against a stubbed model and verified for"
    " tampering."
)
def renders_replays_and_verifies_one_record():
    made = journals()
    with made.begin("support", message="m") as turn:
        turn.tool(lookup)("O-1")
        turn.answer("lost")
    recorded = written(made, turn.turn_id)
    assert [event.seq for event in recorded] == [0, 1, 2]
    assert any("lookup" in line.text for line in turn_page(recorded, check_chain(recorded), 80))
    decisions = [ToolUse("lookup", {"order": "O-1"}), Answer("lost")]
    assert same_behaviour(recorded, replay_turn(ReplayModel(decisions), {"lookup": lookup}, "m").events)
    assert not check_chain([recorded[0], recorded[2]]).intact


@sentence("TurnReplay is exercised by tests only; no production code path calls it.")
def replays_recorded_runs_too():
    with own_agents():

        @counterfoil.agent("teller")
        def teller(run):
            run.finish(f"{run.message}{len(ending)}")

        ending: list[str] = []
        with closing(counterfoil.open(":memory:")) as ledger:
            with ledger.run("teller", conversation="case", message="m") as run:
                teller(run)
            assert ledger.replay(run.id).same
            ending.append("other")
            assert not ledger.replay(run.id).same


# ---- Configuration ---------------------------------------------------------------------------------------------------


@sentence("app.turn-journal.max-list 100: most turns one by-session listing returns")
def bounds_a_list():
    journal = MemoryJournal()
    for number in range(103):
        journal.append([note(turn_id=f"{TURN[:-3]}{number:03}")])
    asked = {"tenant": "default", "agent_id": "support", "session_hash": "ab" * 32, "may": anybody}
    assert JournalSettings().max_list == 100
    assert len(session_answer(journal, limit=1000, **asked)["turns"]) == 100
    assert len(session_answer(journal, max_list=JournalSettings(max_list=5).max_list, **asked)["turns"]) == 5


@sentence(
    "app.wiring.strict-gateways false: fail the start (instead of logging an ERROR) when a switched-on feature's"
    " static gateway was never installed"
)
def checks_the_start(caplog):
    uninstall()
    check_start(JournalSettings(enabled=True))
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    with pytest.raises(ConfigInvalid):
        check_start(JournalSettings(enabled=True, strict=True))
    assert JournalSettings().strict is False


# ---- Consequences ----------------------------------------------------------------------------------------------------


@sentence(
    "Writes are synchronous JDBC from the thread that finishes each stage. This is acceptable behind a flag; before"
    " enabling by default, measure with the 32-user kind benchmark and move writes to a bounded queue (tenant scope"
    " captured) if needed."
)
def writes_from_a_bounded_queue():
    journal = Gated()
    made = journals(journal, capacity=2)
    with tenant_scope("north"):
        turn = made.begin("support")
    assert journal.reached.wait(60)
    for number in range(4):
        turn.guard(f"g{number}", "pass")
    journal.gate.set()
    assert made.flush(60)
    turn.commit()
    found = stages(written(made, turn.turn_id, "north"))
    assert found == [
        "INTAKE",
        "GUARD guard=g0 outcome=pass",
        "GUARD guard=g1 outcome=pass",
        "COMMIT gap=2 status=completed",
    ]
    synchronous = journals(mode="synchronous")
    turn = synchronous.begin("support")
    assert len(synchronous.journal.events("default", turn.turn_id)) == 1


@sentence(
    "Workflow runs and agent-job turns that do not go through AgentChatService are not journaled (a job's chat turns"
    " are, like any turn)."
)
def gives_every_run_of_a_ledger_a_turn():
    with closing(counterfoil.open(":memory:")) as ledger:
        with ledger.run("night-job") as run:
            run.finish("done")
        (info,) = ledger.turns()
        assert (info.agent_id, info.status) == ("night-job", "completed")
        # Beside any other agent a turn is what somebody begins, and nothing else is.
        assert begin("night-job").enabled is False


@sentence("The journal is not linked to llm_call_log rows by id; the session is the common key.")
def shares_the_session_and_no_call_id():
    made = journals()
    with made.begin("support", session="s") as turn:
        turn.model(lambda: "x", provider="acme", model="acme-1")()
    call = written(made, turn.turn_id)[1]
    assert {part.partition("=")[0] for part in call.summary.split()} == {
        "provider",
        "model",
        "route",
        "status",
        "ms",
    }
    assert call.session_hash == made.session_hash("s")


@sentence(
    "A hosted-chain failover runs the turn again on the next provider with the same turn id: the record then holds"
    " two attempts (two INTAKE events, an error: COMMIT for the first, the final COMMIT for the last).",
    "listBySession reports the status of the last COMMIT.",
)
def keeps_both_attempts_of_a_failover():
    made = journals()
    with made.begin("support", session="s", message="m") as turn:
        turn.failed_over(ConnectionError("down"), "m")
        turn.answer("a")
    events = written(made, turn.turn_id)
    assert [event.type for event in events] == ["INTAKE", "COMMIT", "INTAKE", "COMMIT"]
    assert events[1].summary == "status=error:ConnectionError"
    assert [info.status for info in made.journal.turns("default")] == ["completed"]
    assert check_chain(events).intact


@sentence(
    "Nothing purges turn_journal_event (the table is append-only by trigger and no job deletes from it), so it grows"
    " without bound until an operator prunes it."
)
def is_pruned_by_whoever_operates_it(tmp_path):
    with closing(open_journal(tmp_path / "turns.db")) as journal:
        journal.append(whole(TURN, NOW_MS - 1000))
        journal.append(whole(OTHER, NOW_MS))
        assert journal.prune(NOW_MS - 500) == 3
        assert [info.turn_id for info in journal.turns("default")] == [OTHER]


@sentence("The chain is per turn.")
def chains_each_turn_by_itself():
    journal = MemoryJournal()
    first, second = journal.append([note(), note(turn_id=OTHER)])
    assert (first.prev_hash, second.prev_hash) == ("0" * 64, "0" * 64)


@sentence(
    "Chaining turn heads into the Ed25519 audit seals (the bet's acceptance) is not done yet.",
    "A privileged database user can rewrite a whole turn consistently (recompute all hashes); sealing the head hash is"
    " what closes that.",
)
def keeps_heads_where_seals_reach_them():
    forged = MemoryJournal().append(whole(agent_id="other"))
    assert check_chain(forged).intact
    with closing(counterfoil.open(":memory:", turns=True)) as ledger:
        with ledger.run("support", conversation="case", message="m") as run:
            run.finish("done")
        (kept,) = ledger.events("case", types=["turn.committed"])
        turn = ledger.turn(run.id)
    assert kept.content["head"] == turn.events[-1].hash
    assert not check_chain(forged, kept.content["head"]).intact


@pytest.mark.parametrize("check", KEPT)
def test_the_adr_says(check, request):
    wanted = check.__code__.co_varnames[: check.__code__.co_argcount]
    check(**{name: request.getfixturevalue(name) for name in wanted})


def test_no_sentence_stands_twice():
    quotes = [kept.id for kept in KEPT]
    assert len(set(quotes)) == len(quotes)
