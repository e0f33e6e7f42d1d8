"""Faults that people met in the field, as kinds: for each the tests that hold it, and those that need all parts."""

from __future__ import annotations

import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

import counterfoil
from counterfoil.client.clock import SystemClock
from counterfoil.client.features import FEATURES
from counterfoil.core.values import from_json
from counterfoil.effects.registry import own_tools
from counterfoil.errors import NotEncodable, TooDeep
from counterfoil.evidence.verify import verify
from counterfoil.testing.manual import ManualClock
from tests.named import missing
from tests.running import types_of

CASES = {
    "S01 NUL in text": """
        StoreContract::test_text_with_nul_and_with_half_a_surrogate_pair_is_stored_without_loss
        unit/core/test_canonical.py::test_nul_in_text_is_kept_as_an_escape
        unit/runtime/test_ask.py::test_lone_surrogates_and_nul_in_messages_come_back_as_they_were
        unit/importers/test_reader.py::test_an_escaped_nul_is_kept
        scenarios/test_cli_hostile.py::test_hostile_text_is_shown_with_marks_where_it_stands
        scenarios/test_field_cases.py::test_odd_text_goes_through_a_tool_and_back_and_verifies
        """,
    "S02 half of a surrogate pair": """
        unit/core/test_canonical.py::test_a_lone_surrogate_of_a_model_comes_back_as_it_was
        unit/core/test_canonical.py::test_two_surrogates_side_by_side_are_one_character
        unit/effects/test_identity.py::test_half_a_surrogate_pair_can_be_told_apart
        scenarios/test_import_faults.py::test_a_lone_surrogate_in_an_argument_stays_and_hides_nothing_after_it
        scenarios/test_field_cases.py::test_odd_text_goes_through_a_tool_and_back_and_verifies
        """,
    "S03 one bad float": """
        StoreContract::test_an_event_that_cannot_be_encoded_is_named_by_path_and_its_neighbours_are_recorded
        unit/core/test_canonical.py::test_a_float_that_is_no_number_is_refused_by_path
        scenarios/test_field_cases.py::test_a_value_that_json_does_not_have_is_refused_where_it_is_recorded_and_nothing_else_is
        """,
    "S04 integers beyond 64 bits": """
        unit/core/test_canonical.py::test_integers_beyond_64_bits_are_exact_both_ways
        unit/core/test_canonical.py::test_an_integer_with_more_digits_is_refused_by_path_and_by_offset
        properties/core/test_encoders_agree.py::test_an_integer_is_exact_both_ways
        scenarios/test_import_faults.py::test_integers_beyond_64_bits_are_exact_in_content
        scenarios/test_import_faults.py::test_an_integer_of_absurd_length_is_refused_and_the_rest_is_kept
        """,
    "S05 bytes and other types": """
        unit/core/test_values.py::test_a_value_has_its_tagged_form
        unit/core/test_values.py::test_a_value_without_form_is_refused_by_path
        properties/core/test_values_come_back.py::test_a_value_comes_back_as_what_it_was
        unit/effects/test_perform.py::test_a_result_comes_back_as_it_was
        unit/effects/test_perform.py::test_a_result_that_cannot_be_recorded_does_not_hide_that_the_effect_happened
        unit/effects/test_perform.py::test_an_argument_without_a_form_is_refused_by_path_before_anything_is_written
        unit/artifacts/test_spill.py::test_bytes_move_by_themselves_and_leave_the_rest_where_it_is
        scenarios/test_large_inputs.py::test_an_odd_result_of_a_tool_comes_back_as_it_was
        scenarios/test_large_inputs.py::test_a_path_comes_back_as_a_path
        scenarios/test_large_inputs.py::test_long_bytes_in_arguments_move_alone
        properties/core/test_artifacts_come_back.py::test_any_value_that_spills_comes_back_as_it_was
        """,
    "S06 order of keys, spelling of numbers": """
        unit/core/test_canonical.py::test_members_are_sorted_by_utf16_units_and_small_floats_written_as_ecmascript_does
        properties/core/test_encoders_agree.py::test_both_encoders_agree_with_rfc8785
        properties/core/test_encoders_agree.py::test_a_float_has_the_text_of_ecmascript
        unit/core/test_vectors.py::test_the_verifier_in_node_agrees_with_every_vector
        unit/core/test_vectors.py::test_the_verifier_in_the_standard_library_agrees_with_every_vector
        """,
    "S07 items of one millisecond": """
        StoreContract::test_order_is_the_sequence_when_a_thousand_events_share_one_millisecond
        scenarios/test_field_cases.py::test_events_of_one_millisecond_keep_their_order_when_the_file_is_made_over
        """,
    "S08 two runners": """
        scenarios/test_run_two_runners.py::test_a_writer_that_decided_on_an_old_head_is_told_the_actual_one
        scenarios/test_run_two_runners.py::test_a_worker_that_lost_its_lease_interleaves_nothing
        scenarios/test_run_two_runners.py::test_a_stale_token_is_refused_by_the_store_itself
        StoreContract::test_of_two_who_decided_on_the_same_head_the_second_is_refused
        """,
    "S09 database is locked": """
        crash/test_sqlite_processes.py::test_eight_processes_on_one_stream_while_a_reader_holds_a_long_transaction
        scenarios/test_run_two_runners.py::test_processes_that_make_and_fill_one_ledger_at_once_lose_nothing
        unit/adapters/sqlite/test_faults.py::test_a_file_locked_by_another_program_is_busy_after_the_deadline_and_nothing_is_recorded
        unit/adapters/filesystem/test_turn.py::test_who_has_just_written_cannot_take_the_next_turn_while_another_waits
        """,
    "S11 work before the pause runs again": """
        scenarios/test_run_reentry.py::test_what_ran_before_the_pause_is_a_replay_however_often_it_is_entered
        scenarios/test_run_reentry.py::test_a_crash_between_re_entries_repeats_nothing
        scenarios/test_effect_pause_and_resume.py::test_entering_while_it_waits_sends_nothing_and_records_no_new_effect
        scenarios/test_effect_pause_and_resume.py::test_after_the_answer_the_run_goes_on_where_it_waited
        """,
    "S12 an answer after the timeout": """
        scenarios/test_effect_timeout_after_success.py::test_the_stream_says_unknown_and_never_failed
        scenarios/test_effect_timeout_after_success.py::test_a_tool_with_a_lookup_is_not_sent_again
        scenarios/test_effect_timeout_after_success.py::test_a_tool_with_a_key_is_sent_again_and_the_provider_sees_one_refund
        scenarios/test_effect_timeout_after_success.py::test_a_tool_with_neither_is_parked_for_a_person_and_never_sent_again
        scenarios/test_effect_timeout_after_success.py::test_only_a_read_only_tool_is_simply_called_again
        """,
    "S13 approver shown one thing, another runs": """
        unit/approvals/test_asking.py::test_a_call_with_other_arguments_is_refused_and_said_so
        unit/approvals/test_asking.py::test_a_hook_cannot_put_another_call_in_the_place_of_the_one_that_was_approved
        unit/approvals/test_asking.py::test_other_bytes_in_a_file_that_the_call_refers_to_are_another_call
        """,
    "S14 parallel approvals share one id": """
        scenarios/test_approval_parallel.py::test_one_is_approved_one_denied_and_the_third_stays_visibly_pending
        scenarios/test_approval_parallel.py::test_the_third_answer_lets_the_run_go_on_and_nothing_is_sent_twice
        scenarios/test_approval_command.py::test_an_answer_to_what_is_answered_is_a_conflict
        """,
    "S15 parallel steps replayed in another order": """
        scenarios/test_parallel_calls_on_another_worker.py::test_what_two_of_three_calls_gave_is_handed_to_the_same_calls_by_the_next_worker
        scenarios/test_parallel_calls_on_another_worker.py::test_other_code_before_the_calls_stops_each_time_with_both_sides_and_the_right_code_goes_on
        """,
    "S16 a call without a result": """
        scenarios/test_import_faults.py::test_a_call_without_a_result_is_kept_as_it_is_and_nothing_is_made_up_for_it
        scenarios/test_cli_import.py::test_an_imported_session_is_shown_with_its_call_without_result
        scenarios/test_import_ledger.py::test_an_imported_conversation_can_be_gone_on_with
        scenarios/test_import_ledger.py::test_an_imported_ledger_verifies_with_its_rows
        """,
    "S18 half a record glued to the next": """
        scenarios/test_import_faults.py::test_a_file_cut_at_any_byte_of_its_last_three_records_keeps_every_whole_one
        scenarios/test_import_faults.py::test_two_records_on_one_line_are_reported_and_the_next_line_is_kept
        scenarios/test_import_faults.py::test_byte_order_mark_carriage_returns_and_empty_lines_change_nothing
        unit/importers/test_reader.py::test_half_a_record_glued_to_the_next_is_refused
        unit/importers/test_reader.py::test_a_record_over_three_lines_is_three_lines_that_are_no_records
        """,
    "S22 an unknown event": """
        scenarios/test_run_unknown_events.py::test_listing_and_viewing_go_on_with_a_build_that_does_not_know_the_type
        scenarios/test_run_unknown_events.py::test_what_interprets_the_events_refuses_naming_type_version_and_sequence
        scenarios/test_run_unknown_events.py::test_an_ignorable_event_is_skipped_and_a_known_one_is_not
        scenarios/test_verify_unknown_event.py::test_the_conversation_verifies_whole_in_a_build_that_does_not_know_the_type
        scenarios/test_search.py::test_an_event_of_a_type_that_this_build_does_not_know_is_found_too
        scenarios/test_search.py::test_a_damaged_record_is_said_and_hides_no_neighbour
        """,
    "S23 search text is not a query language": """
        scenarios/test_search.py::test_a_text_is_no_query_language
        scenarios/test_search.py::test_every_query_in_every_script_finds_what_a_scan_finds
        scenarios/test_search.py::test_operators_work_on_request
        scenarios/test_search.py::test_a_query_that_cannot_be_read_says_where
        scenarios/test_search_command.py::test_each_refusal_has_its_code
        """,
    "S24 the audit that says fine": """
        scenarios/test_verify_audit_that_says_fine.py::test_one_bit_of_a_payload_on_disk_is_found
        scenarios/test_verify_audit_that_says_fine.py::test_the_last_event_deleted_is_found
        scenarios/test_verify_audit_that_says_fine.py::test_two_events_swapped_are_found
        scenarios/test_verify_audit_that_says_fine.py::test_a_derived_row_that_was_edited_is_mismatched_and_no_broken_truth
        scenarios/test_verify_audit_that_says_fine.py::test_last_weeks_file_put_back_is_named_as_unseen_at_a0
        scenarios/test_verify_audit_that_says_fine.py::test_the_report_counts_what_it_covered
        crash/test_tamper_bytes.py::test_every_byte_of_a_header_is_named_as_edited
        crash/test_tamper_bytes.py::test_every_byte_of_every_record_is_named_as_damaged
        unit/evidence/test_artifacts.py::test_a_changed_bit_is_damage_with_keys_and_without
        unit/evidence/test_artifacts.py::test_two_objects_that_changed_places_are_both_damaged
        """,
    "X5 an upgrade that breaks reads": """
        migrations/test_from_schema_1.py::test_every_conversation_becomes_one_stream_with_one_baseline
        migrations/test_from_schema_1.py::test_killed_anywhere_it_is_all_or_nothing_and_run_again
        migrations/test_from_schema_1.py::test_a_store_that_is_half_made_is_refused_and_left_as_it_is
        migrations/test_from_schema_1.py::test_read_only_it_is_left_as_it_is_and_told_what_to_do
        migrations/test_from_schema_1.py::test_a_file_of_a_newer_build_is_refused_with_both_numbers
        migrations/test_from_schema_1.py::test_a_build_before_the_ledger_sees_a_number_that_is_not_its_own
        unit/adapters/sqlite/test_schemas.py::test_a_newer_schema_is_refused_with_both_numbers
        """,
    "S25 cost counted several times": """
        scenarios/test_import_faults.py::test_one_model_call_on_several_lines_is_one_usage_record
        unit/importers/test_claude_stream.py::test_lines_of_one_message_are_one_call_of_the_model
        unit/importers/test_claude_stream.py::test_the_cost_is_that_of_the_result_to_the_last_digit
        unit/importers/test_claude_stream.py::test_results_of_one_process_are_running_totals_and_a_new_one_begins_anew
        unit/importers/test_codex.py::test_token_counts_are_a_running_total_that_may_be_told_twice
        scenarios/test_import_streams.py::test_naive_sums_of_real_usage_are_too_high_and_ours_count_a_message_once
        """,
    "X6 compaction breaks the chain": """
        scenarios/test_import_faults.py::test_records_before_a_lost_parent_stay_and_are_flagged
        scenarios/test_import_faults.py::test_a_compaction_names_exactly_what_it_replaced
        unit/importers/test_codex.py::test_a_compaction_covers_what_stands_before_it
        """,
    "X7 sub-agent link missing": """
        scenarios/test_import_faults.py::test_a_sub_agents_records_are_flagged_in_the_session_they_belong_to
        unit/importers/test_claude_stream.py::test_a_sub_agent_has_a_conversation_of_its_own_below_the_call
        unit/importers/test_claude_stream.py::test_a_sub_agent_whose_call_is_not_in_the_file_is_below_the_session
        scenarios/test_import_streams.py::test_a_sub_agents_conversation_and_its_parent_name_each_other_in_a_ledger
        scenarios/test_import_streams.py::test_the_sub_agent_of_a_real_log_is_linked_with_its_call
        """,
    "X1 time zones": """
        scenarios/test_cli_process.py::test_times_are_the_same_in_every_time_zone
        unit/cli/render/test_times.py::test_moments_are_utc_in_every_time_zone
        unit/core/test_vectors.py::test_a_time_from_outside_becomes_a_time_of_the_format
        scenarios/test_field_cases.py::test_recorded_times_are_utc_whatever_the_zone_of_the_machine
        scenarios/test_field_cases.py::test_an_hour_that_happens_twice_is_two_instants
        """,
    "X2 a forked chain": """
        StoreContract::test_many_threads_on_one_stream_make_one_chain
        StoreContract::test_of_many_who_decided_on_the_same_head_one_wins
        crash/test_tamper_events.py::test_a_second_event_after_the_same_one_is_a_fork
        scenarios/test_field_cases.py::test_thirty_two_writers_make_one_chain
        """,
    "X3 deep nesting": """
        unit/core/test_canonical.py::test_deeply_nested_text_is_refused_before_it_is_read
        unit/core/test_values.py::test_very_deep_python_values_are_refused_and_not_recursed_into
        unit/core/test_header.py::test_hostile_bytes_get_a_typed_error
        unit/importers/test_reader.py::test_deep_nesting_is_refused_before_it_is_parsed
        scenarios/test_field_cases.py::test_a_value_nested_too_deep_is_refused_at_every_door_and_nothing_is_written
        """,
    "X7 a sub-agent without a link": """
        unit/runtime/test_children.py::test_a_child_names_its_parent_and_the_parent_its_child_with_the_full_input
        unit/runtime/test_children.py::test_a_child_comes_of_the_last_model_call_unless_the_code_names_another
        scenarios/test_children_command.py::test_both_sides_of_a_link_are_shown
        """,
    "X9 pending questions after a restart": """
        scenarios/test_approval_waiting.py::test_pending_questions_are_a_query_after_a_restart_and_answered_by_another_process
        scenarios/test_run_reentry.py::test_what_waits_for_a_person_is_a_query_after_a_restart
        scenarios/test_approval_command.py::test_what_waits_is_listed_with_tool_and_time_in_another_process
        """,
    "X4 secrets in transcripts": """
        properties/journal/test_redaction_generator.py::test_no_piece_of_a_secret_is_left
        properties/journal/test_redaction_generator.py::test_a_secret_that_stands_where_a_name_belongs_is_masked_too
        scenarios/test_secrets_in_tool_output.py::test_a_turn_journal_holds_no_secret_of_a_tools_output
        scenarios/test_secrets_in_tool_output.py::test_what_was_masked_is_seen_to_be_masked
        scenarios/test_secrets_in_tool_output.py::test_a_ledger_keeps_a_tools_output_for_those_who_may_read_it_and_in_the_open_nowhere
        scenarios/test_secrets_in_tool_output.py::test_the_turn_of_a_run_shows_no_secret_on_any_way_out
        """,
}


def test_every_case_has_its_tests():
    assert missing(CASES) == []


@pytest.fixture(autouse=True)
def _own_tools():
    with own_tools():
        yield


def echo():
    """A tool that gives back what it got."""

    @counterfoil.effect("shop.echo", version="1", touches={"external"}, doubt=counterfoil.by_review())
    def said(text):
        return {"said": text}

    return said


ODD_TEXTS = {
    "NUL": '"ab\\u0000cd"',
    "one half of a pair": '"\\ud99c x"',
    "the other half": '"x \\udc00"',
    "a pair in the wrong order": '"\\udc00\\ud800"',
    "an escape of the terminal": '"\\u001b[2J"',
    "text from right to left": '"\\u202egnp.exe"',
}


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_text_goes_through_a_tool_and_back_and_verifies(tmp_path, text):
    given, tool = json.loads(ODD_TEXTS[text]), echo()

    def agent():
        with counterfoil.open(tmp_path) as ledger:
            with ledger.run("a", conversation=given, message=given, dedupe=given) as run:
                receipt = tool(given)
                run.finish(receipt)
            assert ledger.conversations()[0].name == given
            (intended,) = ledger.events(given, types=["effect.intended"])
            assert intended.content["arguments"] == {"text": given}
            return receipt, verify(ledger.store, ledger.keyring, FEATURES).exit_code

    assert agent() == ({"said": given}, 0)
    assert agent() == ({"said": given}, 0)


NOT_JSON = {"infinite": float("inf"), "no number": float("nan"), "a class nobody registered": object()}


@pytest.mark.parametrize("value", NOT_JSON)
def test_a_value_that_json_does_not_have_is_refused_where_it_is_recorded_and_nothing_else_is(value):
    tool = echo()
    with counterfoil.open(":memory:") as ledger:
        with ledger.run("a", conversation="c") as run:
            run.step("before", lambda: {"score": 0.5})
            with pytest.raises(NotEncodable) as refused:
                tool({"scores": [1.0, NOT_JSON[value]]})
            assert refused.value.path == "arguments.text.scores[1]"
            run.step("after", lambda: {"score": 1.5})
        names = [event.data["name"] for event in ledger.events("c", types=["step.finished"])]
        assert names == ["before", "after"]
        assert not any(name.startswith("effect.") for name in types_of(ledger, "c"))


def test_events_of_one_millisecond_keep_their_order_when_the_file_is_made_over(tmp_path):
    with counterfoil.open(tmp_path, clock=ManualClock()) as ledger, ledger.run("a", conversation="c") as run:
        for number in range(200):
            run.record("n.seen", {"number": number}, ignorable=True)
    raw = sqlite3.connect(tmp_path / "ledger.db")
    raw.execute("REINDEX")
    raw.execute("VACUUM")
    raw.close()
    with counterfoil.open(tmp_path, read_only=True) as ledger:
        for _ in range(3):
            events = list(ledger.events("c", types=["n.seen"]))
            assert [event.content["number"] for event in events] == list(range(200))
        assert {event.recorded_at_ms for event in events} == {events[0].recorded_at_ms}
        assert verify(ledger.store, ledger.keyring, FEATURES).exit_code == 0


@pytest.fixture(params=["America/New_York", "Asia/Kathmandu", "Pacific/Kiritimati"])
def zone(request, monkeypatch):
    """The machine's time zone for the length of a test."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_recorded_times_are_utc_whatever_the_zone_of_the_machine(zone):
    with counterfoil.open(":memory:", clock=SystemClock()) as ledger:
        with ledger.run("a", conversation="c"):
            pass
        event = next(iter(ledger.events("c")))
    recorded = datetime.fromisoformat(event.header.recorded_at)
    assert event.header.recorded_at.endswith("Z")
    assert recorded == datetime.fromtimestamp(event.recorded_at_ms / 1000, UTC)
    assert abs(datetime.now(UTC) - recorded) < timedelta(minutes=10)


def test_an_hour_that_happens_twice_is_two_instants(zone):
    first = datetime(2026, 11, 1, 1, 30, tzinfo=ZoneInfo("America/New_York"))
    second = first.replace(fold=1)
    with counterfoil.open(":memory:") as ledger:
        with ledger.run("a", conversation="c") as run:
            run.record("n.seen", {"first": first, "second": second}, ignorable=True)
        (event,) = ledger.events("c", types=["n.seen"])
    kept = from_json(dict(event.content))
    assert kept["second"] - kept["first"] == timedelta(hours=1)
    assert [kept["first"].astimezone(UTC), kept["second"].astimezone(UTC)] == [
        datetime(2026, 11, 1, 5, 30, tzinfo=UTC),
        datetime(2026, 11, 1, 6, 30, tzinfo=UTC),
    ]


def test_thirty_two_writers_make_one_chain(tmp_path):
    with counterfoil.open(tmp_path) as ledger:
        with ledger.run("a", conversation="c") as run:
            record = run.bind(lambda number: run.record("n.seen", {"number": number}, ignorable=True))
            write_from_threads(record, writers=32, each=8)
        events = list(ledger.events("c", types=["n.seen"]))
        assert sorted(event.content["number"] for event in events) == list(range(32 * 8))
        report = verify(ledger.store, ledger.keyring, FEATURES)
        assert (report.exit_code, report.findings) == (0, ())


def write_from_threads(record, *, writers, each):
    with ThreadPoolExecutor(writers) as pool:
        for done in [pool.submit(record, number) for number in range(writers * each)]:
            done.result()


def nested(depth):
    value = inner = []
    for _ in range(depth):
        inner.append([])
        inner = inner[0]
    return value


DOORS = {
    "a message": lambda ledger, value: ledger.run("a", conversation="d", message=value).__enter__(),
    "a configuration": lambda ledger, value: ledger.run("a", configuration={"v": value}).__enter__(),
    "an argument of a step": lambda ledger, value: inside(ledger, lambda run: run.step("s", len, value)),
    "a fact": lambda ledger, value: inside(
        ledger, lambda run: run.record("n.n", {"v": value}, ignorable=True)
    ),
    "a request": lambda ledger, value: inside(ledger, lambda run: run.ask(lambda _: "x", [value])),
    "an argument of a tool": lambda ledger, value: inside(ledger, lambda run: echo()(value)),
    "an output": lambda ledger, value: inside(ledger, lambda run: run.finish(value)),
}


def inside(ledger, act):
    with ledger.run("a", conversation="c") as run:
        act(run)


@pytest.mark.parametrize("depth", [70, 3000])
@pytest.mark.parametrize("door", DOORS)
def test_a_value_nested_too_deep_is_refused_at_every_door_and_nothing_is_written(door, depth):
    with counterfoil.open(":memory:") as ledger:
        with pytest.raises(TooDeep):
            DOORS[door](ledger, nested(depth))
        assert {event.type for info in ledger.conversations() for event in ledger.events(info.stream_id)} <= {
            "conversation.opened",
            "admission.accepted",
            "run.started",
            "run.finished",
        }
