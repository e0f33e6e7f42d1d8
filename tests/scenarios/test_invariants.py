"""The invariants of the design, each with the tests that hold it; those that belong to no single package are here."""

from __future__ import annotations

import re
import sqlite3
from decimal import Decimal
from functools import reduce

import pytest

import counterfoil
from counterfoil.client.features import FEATURES
from counterfoil.core.event import Draft
from counterfoil.core.forms import time_text
from counterfoil.effects.registry import own_tools
from counterfoil.errors import RunWaiting
from counterfoil.evidence.verify import verify
from counterfoil.flow.requests import Entry, UnitDraft
from counterfoil.runtime.state import Conversation, evolve
from tests.named import missing

INVARIANTS = {
    # An acknowledged append is on disk; any other may be sent again and lands once.
    1: """
        crash/test_sqlite_kills.py::test_every_acknowledged_event_survives_the_death_of_its_writer
        crash/test_sqlite_syscalls.py::test_a_fault_at_every_write_and_fsync_leaves_a_ledger_that_keeps_its_word
        crash/test_keystore_faults.py::test_whatever_fails_at_any_write_or_sync_an_acknowledged_key_is_there_and_whole
        StoreContract::test_the_same_unit_again_is_answered_with_the_original_positions
        FaultContract::test_an_append_whose_answer_was_lost_is_stored_and_lands_once
        """,
    # Sequences are 1, 2, 3, … without gap or fork.
    2: """
        crash/test_sqlite_processes.py::test_eight_processes_on_one_stream_while_a_reader_holds_a_long_transaction
        StoreContract::test_sequences_are_1_2_3_without_gap
        StoreContract::test_many_threads_on_one_stream_make_one_chain
        StoreContract::test_tasks_on_one_stream_make_one_chain
        StoreContract::test_two_handles_appending_at_once_make_one_chain
        """,
    # No attempt before its intention is durable; what is final is never sent again.
    3: """
        crash/test_effects_perform.py::test_wherever_perform_stops_the_payment_happens_once_and_the_ledger_knows
        unit/effects/test_perform.py::test_an_intention_stands_before_the_call_and_an_observation_after
        unit/effects/test_store_failures.py::test_nothing_is_sent_when_the_intention_cannot_be_recorded
        unit/effects/test_ledger_down.py::test_what_touches_anything_is_refused_unless_it_says_otherwise
        unit/effects/test_lever.py::test_a_held_tool_is_not_called_and_the_refusal_is_on_record
        unit/runtime/test_cancel.py::test_what_was_intended_at_that_moment_is_recorded_as_never_sent
        unit/effects/test_again.py::test_entering_a_run_again_gives_every_call_its_recorded_outcome_and_records_nothing
        unit/effects/test_again.py::test_a_rejection_is_final
        unit/effects/test_settle.py::test_any_other_settlement_raises_and_is_never_sent_again
        unit/effects/test_again.py::test_a_call_that_was_confirmed_not_done_may_be_made_again
        crash/test_effects_retry.py::test_wherever_a_retry_stops_it_is_made_once_and_not_forgotten
        """,
    # Doubt ends by a lookup, a sanctioned retry, a late observation or a human.
    4: """
        decisions/test_effects_state.py::test_an_event_moves_the_effect_as_the_table_says
        decisions/test_effects_doubt.py::test_absent_licenses_a_retry_only_with_a_key
        decisions/test_effects_doubt.py::test_no_number_of_absent_answers_sends_again_under_lookup_alone
        crash/test_effects_recover.py::test_wherever_recovery_stops_the_next_one_ends_it_without_a_second_payment
        unit/effects/test_late.py::test_an_answer_after_the_timeout_ends_the_doubt
        unit/effects/test_callback.py::test_a_callback_ends_doubt_and_the_review_with_it
        unit/effects/test_retry.py::test_an_unknown_outcome_is_never_tried_again_by_a_policy
        unit/effects/test_schema.py::test_a_call_is_not_sent_again_under_a_schema_that_has_changed
        unit/effects/test_settle.py::test_the_run_goes_on_with_the_result_that_was_settled
        unit/effects/test_lever.py::test_a_retry_that_would_end_doubt_is_not_sent_and_the_run_waits
        unit/reconcile/test_reconcile.py::test_what_differs_or_is_absent_settles_nothing
        unit/reconcile/test_reconcile.py::test_asked_to_settle_a_review_is_settled_and_other_doubt_ended_in_the_name_of_a_person
        """,
    # What a model sees and what a provider is asked is recorded before it is sent.
    5: """
        unit/runtime/test_ask.py::test_the_request_is_durable_before_the_model_sees_it
        crash/test_effects_ask.py::test_wherever_an_agent_stops_it_acts_once_and_on_the_recorded_answer
        unit/effects/test_perform.py::test_the_intention_says_what_was_meant
        """,
    # A stale worker cannot append for the run; what it observed late is kept and never overwrites.
    6: """
        StoreContract::test_a_token_is_stale_once_another_was_claimed
        scenarios/test_run_two_runners.py::test_a_worker_that_lost_its_lease_interleaves_nothing
        unit/effects/test_late.py::test_a_result_whose_token_is_stale_is_kept_as_late_and_the_worker_stops
        unit/effects/test_late.py::test_a_late_answer_that_differs_contradicts_and_asks_a_human
        """,
    # Rows are rebuilt from events; folds read headers only.
    7: """
        unit/runtime/test_rows.py::test_rows_made_again_from_the_events_are_the_same
        unit/runtime/test_rows.py::test_the_fold_of_the_headers_agrees_with_every_row
        unit/effects/test_rows.py::test_the_row_of_an_effect_is_its_fold_in_any_order_of_events
        scenarios/test_verify_agent_run.py::test_every_derived_row_is_rebuilt
        StoreContract::test_a_checkpoint_that_claims_a_sequence_beyond_the_head_is_refused
        scenarios/test_invariants.py::test_an_erased_conversation_still_folds_is_listed_and_verifies
        """,
    # Derived work can fail without failing or hiding the truth.
    8: """
        scenarios/test_verify_agent_run.py::test_a_state_edited_in_a_row_is_seen_and_breaks_no_truth
        scenarios/test_verify_audit_that_says_fine.py::test_a_derived_row_that_was_edited_is_mismatched_and_no_broken_truth
        unit/evidence/test_rows.py::test_rows_of_a_broken_stream_are_left_out_and_said
        """,
    # One damaged or unknown record never hides its neighbours.
    9: """
        scenarios/test_invariants.py::test_one_damaged_conversation_hides_no_other
        scenarios/test_invariants.py::test_damaged_settings_hide_no_conversation
        unit/client/test_reading.py::test_one_damaged_event_is_shown_as_damaged_and_hides_no_other
        unit/evidence/test_verify.py::test_a_broken_stream_leaves_the_others_proven
        unit/adapters/sqlite/test_damage.py::test_one_broken_stream_does_not_stop_the_others
        unit/runtime/test_recover.py::test_a_conversation_that_cannot_be_opened_keeps_no_other_from_being_recovered
        scenarios/test_run_unknown_events.py::test_listing_and_viewing_go_on_with_a_build_that_does_not_know_the_type
        """,
    # Nothing personal outside of what erasure reaches; after erasure the chain verifies.
    10: """
        scenarios/test_invariants.py::test_nothing_personal_stands_outside_of_content
        scenarios/test_invariants.py::test_an_erased_conversation_still_folds_is_listed_and_verifies
        unit/core/test_catalogue.py::test_no_field_of_any_type_can_carry_free_text
        unit/effects/test_rows.py::test_no_text_from_outside_stands_in_a_row
        unit/evidence/test_content.py::test_records_under_a_key_that_was_erased_are_not_missing_and_not_damaged
        """,
    # Identity is ours; ids from outside are found through keyed digests.
    11: """
        unit/client/test_ids.py::test_every_prefix_gives_ids_of_its_own_form
        unit/core/test_event.py::test_a_member_of_another_form_is_refused_by_name
        unit/effects/test_identity.py::test_the_key_index_is_that_of_the_format
        scenarios/test_import_faults.py::test_a_name_in_a_transcript_reaches_no_conversation_of_the_application
        """,
    # Order is the sequence, never a clock.
    12: """
        StoreContract::test_order_is_the_sequence_when_a_thousand_events_share_one_millisecond
        StoreContract::test_a_clock_that_went_back_is_recorded_as_it_was
        unit/evidence/test_verify.py::test_a_clock_that_went_back_is_a_notice
        """,
    # Nothing is deleted by default; a deletion is a recorded fact.
    13: """
        unit/adapters/sqlite/test_guards.py::test_truth_is_never_changed_or_deleted
        unit/adapters/sqlite/test_guards.py::test_truth_is_never_replaced_whatever_the_other_program_has_set
        unit/adapters/sqlite/test_guards.py::test_a_removal_and_the_fact_that_tells_of_it_are_one_transaction
        """,
    # An error at commit is an unknown outcome that is looked up; every wait has a deadline.
    14: """
        unit/adapters/sqlite/test_doubt.py::test_a_commit_that_failed_but_was_recorded_is_a_receipt
        unit/adapters/sqlite/test_doubt.py::test_a_commit_that_failed_and_was_not_recorded_is_a_refusal
        unit/adapters/sqlite/test_doubt.py::test_an_outcome_that_cannot_be_looked_up_is_told_as_unknown
        unit/store/test_writer.py::test_a_request_whose_turn_never_comes_is_withdrawn_and_never_recorded
        unit/store/test_writer.py::test_an_append_that_is_never_answered_ends_as_a_timeout_that_says_unknown
        unit/adapters/sqlite/test_faults.py::test_a_file_locked_by_another_program_is_busy_after_the_deadline_and_nothing_is_recorded
        """,
    # No success while an effect is in doubt or in review.
    15: """
        scenarios/test_run_suspension.py::test_a_run_cannot_end_well_while_an_effect_waits_for_a_person
        unit/runtime/test_run_block.py::test_a_contradiction_found_while_the_run_was_under_way_keeps_it_from_ending_well
        unit/runtime/test_run_block.py::test_an_append_by_somebody_else_while_a_run_ends_is_looked_at_before_it_ends
        """,
}


def test_every_invariant_has_its_tests():
    assert list(INVARIANTS) == list(range(1, 16))
    assert missing(INVARIANTS) == []


@pytest.fixture(autouse=True)
def _own_tools():
    with own_tools():
        yield


# ---- 10: what is personal ----------------------------------------------------------------------------------------


def private(word):
    """A text that can be found again wherever it got to."""
    return f"PRIVATE {word}"


def tell_everything(place):
    """One run that gives the ledger a private text in every place that takes a text, and a settled review."""

    @counterfoil.effect(
        "payment.refund",
        version="1",
        touches={"money"},
        key=lambda order, **_: f"refund:{order}",
        doubt=counterfoil.by_review(),
        provider_id=lambda result: result["id"],
    )
    def refund(order, amount, *, idempotency_key):
        return {"id": private("provider id"), "to": private("payee")}

    @counterfoil.effect("mail.send", version="1", touches={"messages"}, doubt=counterfoil.by_review())
    def mail(to):
        raise ConnectionError(private("error"))

    def model(request):
        return counterfoil.Response(
            private("answer"), id=private("id"), provider=private("provider"), model=private("served model")
        )

    with counterfoil.open(place) as ledger:
        run = ledger.run(
            "agent",
            conversation=private("conversation"),
            message=private("message"),
            dedupe=private("dedupe key"),
            subject=private("subject"),
            principal=private("principal"),
            title=private("title"),
            configuration={"prompt": private("configuration")},
        )
        with pytest.raises(RunWaiting), run:
            run.ask(model, private("question"), name=private("model"))
            run.step(private("step"), str, private("argument"))
            run.record("note.taken", {"text": private("fact")}, ignorable=True)
            refund(private("order"), Decimal(4))
            run.finish(private("output"))
            mail(private("address"))
        (review,) = ledger.reviews()
        ledger.settle(
            review["review_id"],
            "succeeded",
            by=private("human"),
            reason=private("reason"),
            evidence=private("evidence"),
            result=private("result"),
        )


def test_nothing_personal_stands_outside_of_content(tmp_path):
    tell_everything(tmp_path / "ledger")
    files = [path for path in (tmp_path / "ledger").rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"ledger.db", "keys.db"}
    for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
        word = "PRIVATE".encode(encoding)
        assert [path.name for path in files if word in path.read_bytes()] == []


def test_a_clear_ledger_shows_that_such_a_look_would_find_something(tmp_path):
    counterfoil.open(tmp_path / "ledger", content="clear").close()
    tell_everything(tmp_path / "ledger")
    found = set(re.findall(rb"PRIVATE [a-z ]+", (tmp_path / "ledger" / "ledger.db").read_bytes()))
    assert len(found) >= 22


# ---- 7 and 10: after erasure -------------------------------------------------------------------------------------


def erase(ledger, stream_id):
    """What a completed erasure leaves: the certificate in the stream, and no key."""
    key_id = ledger.ports.genesis(stream_id).key
    data = {
        "deletion_id": "del_01J9ZC3Y3V7W2R5T8QK4M6N0PE",
        "certificate": "ers_01J9ZC3Y3V7W2R5T8QK4M6N0PE",
        "ground": "request",
        "key": key_id,
        "contents": 1,
        "objects": 0,
        "copies": "not_covered",
    }
    actor = {"type": "system", "id": "counterfoil"}
    now = time_text(ledger.ports.now_ms())
    draft = Draft(ledger.ports.new_id("evt"), "deletion.completed", now, actor, data)
    ledger.ports.append(UnitDraft((Entry(stream_id, (draft,)),)))
    ledger.keyring.store.delete([key_id])
    ledger.keyring.forget()


def folded(ledger, stream_id):
    events = ledger.events(stream_id)
    return reduce(lambda state, e: evolve(state, e.type, e.data, e.header.run_id), events, Conversation())


def test_an_erased_conversation_still_folds_is_listed_and_verifies():
    with counterfoil.open(":memory:") as ledger:
        with ledger.run("agent", conversation="c", message="hello", dedupe="1") as run:
            run.step("s", lambda: 1)
        before, rows = folded(ledger, run.conversation), ledger.runs()
        erase(ledger, run.conversation)
        assert (folded(ledger, run.conversation), ledger.runs()) == (before, rows)
        (info,) = ledger.conversations()
        assert (info.name, info.name_state, info.runs) == (None, "erased", 1)
        report = verify(ledger.store, ledger.keyring, FEATURES)
        assert (report.exit_code, report.findings) == (0, ())


# ---- 9: damage ---------------------------------------------------------------------------------------------------


def three_conversations(place):
    with counterfoil.open(place) as ledger:
        for name in ("c1", "c2", "c3"):
            with ledger.run("agent", conversation=name, message="hello"):
                pass
        return ledger.stream_of("c2"), ledger.streams.id_of("config")


def behind(place, statement, *values):
    raw = sqlite3.connect(place / "ledger.db")
    guards = raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for (name,) in guards:
        raw.execute(f'DROP TRIGGER "{name}"')
    raw.execute(statement, values)
    raw.commit()
    raw.close()


NOWHERE = "its events belong to no stream"
DAMAGES = {
    "its genesis is another text": "UPDATE stream SET genesis = x'7b7d' WHERE stream_id = ?1",
    "its genesis is no text": "UPDATE stream SET genesis = x'ff' WHERE stream_id = ?1",
    "its headers are gone": (
        "UPDATE event SET header = x'' WHERE stream = (SELECT number FROM stream WHERE stream_id = ?1)"
    ),
    "its headers are those of nobody": (
        "UPDATE event SET header = x'7b7d' WHERE stream = (SELECT number FROM stream WHERE stream_id = ?1)"
    ),
    NOWHERE: "DELETE FROM stream WHERE stream_id = ?1",
}


def damaged_and_looked_at(place, damage, stream_id):
    """The ledger opened for reading after that damage to one stream; the others are whole in every list."""
    behind(place, DAMAGES[damage], stream_id)
    with counterfoil.open(place, read_only=True) as ledger:
        whole = [info for info in ledger.conversations() if info.stream_id != stream_id]
        for info in whole:
            assert {event.content_state for event in ledger.events(info.stream_id)} <= {"present", "none"}
        assert verify(ledger.store, ledger.keyring, FEATURES).exit_code == 1
        yield ledger, [info.name for info in whole]


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_damaged_conversation_hides_no_other(tmp_path, damage):
    conversation, _ = three_conversations(tmp_path)
    for ledger, whole in damaged_and_looked_at(tmp_path, damage, conversation):
        assert whole == ["c1", "c3"]
        shown = [] if damage == NOWHERE else list(ledger.events(conversation))
        assert len(shown) == (0 if damage == NOWHERE else ledger.store.head(conversation).sequence)
        assert {event.content_state for event in shown} <= {"damaged", "none"}


@pytest.mark.parametrize("damage", [damage for damage in DAMAGES if "header" not in damage])
def test_damaged_settings_hide_no_conversation(tmp_path, damage):
    _, settings = three_conversations(tmp_path)
    for _, whole in damaged_and_looked_at(tmp_path, damage, settings):
        assert whole == ["c1", "c2", "c3"]
