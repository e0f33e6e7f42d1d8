"""The failure modes that seed 004 names: for each its file, and in it the tests of the stream and of the rows.

Every one of them is played on every engine and in both ways (the fixture ``stage``), so that none is forgotten on one.
"""

from __future__ import annotations

import ast

from tests.named import missing
from tools.tree import ROOT

MODES = {
    "duplicate user input": """
        scenarios/test_duplicate_user_input.py::test_a_second_click_is_the_same_run_and_gets_its_output
        scenarios/test_duplicate_user_input.py::test_the_rows_know_one_admission_one_run_and_one_effect
        """,
    "duplicate queue delivery": """
        scenarios/test_duplicate_queue_delivery.py::test_a_delivery_while_a_worker_holds_the_run_is_told_so_and_records_nothing
        scenarios/test_duplicate_queue_delivery.py::test_the_rows_still_say_that_one_run_is_under_way
        """,
    "worker crash after external send": """
        scenarios/test_effect_crash_after_send.py::test_what_is_left_is_an_intention_and_no_claim_about_its_outcome
        scenarios/test_effect_crash_after_send.py::test_the_rows_say_intended_and_running_and_nothing_more
        """,
    "provider timeout after success": """
        scenarios/test_effect_timeout_after_success.py::test_the_stream_says_unknown_and_never_failed
        scenarios/test_effect_timeout_after_success.py::test_a_tool_with_neither_is_parked_for_a_person_and_never_sent_again
        """,
    "provider rejection": """
        scenarios/test_effect_rejected.py::test_the_stream_holds_the_rejection_with_its_reason_as_content
        scenarios/test_effect_rejected.py::test_the_rows_show_it_and_the_run_ends_well
        """,
    "out-of-order callback": """
        scenarios/test_callback_out_of_order.py::test_the_stream_keeps_a_callback_that_comes_while_nobody_is_there_and_the_doubt_ends
        scenarios/test_callback_out_of_order.py::test_the_rows_show_the_outcome_and_the_run_goes_on_without_sending
        """,
    "changed tool schema": """
        scenarios/test_tool_schema_changed.py::test_the_stream_says_that_the_schema_changed_and_that_nothing_was_sent
        scenarios/test_tool_schema_changed.py::test_the_rows_show_a_hold_that_the_run_waits_for
        """,
    "changed policy revision": """
        scenarios/test_policy_revision.py::test_the_stream_shows_the_grant_and_the_new_ruling_that_overtook_it
        scenarios/test_policy_revision.py::test_the_rows_show_a_grant_that_was_never_used_and_no_effect
        """,
    "missing artifact or evidence": """
        scenarios/test_artifact_or_evidence_missing.py::test_an_observation_without_its_content_keeps_its_header_and_is_named_as_missing
        scenarios/test_artifact_or_evidence_missing.py::test_the_rows_say_what_they_said_before_it_went_missing
        """,
    "failed checkpoint migration": """
        scenarios/test_checkpoint_migration_fails.py::test_an_upcast_that_raises_is_the_readers_error_and_leaves_stream_and_rows_as_they_were
        scenarios/test_checkpoint_migration_fails.py::test_a_rebuild_that_dies_half_way_leaves_the_old_rows_and_the_truth_untouched
        """,
    "expired retention": """
        scenarios/test_retention_expired.py::test_the_stream_keeps_its_events_and_says_of_each_that_its_content_is_erased
        scenarios/test_retention_expired.py::test_the_rows_say_what_they_said_before
        """,
    "manual repair that fails halfway": """
        scenarios/test_repair_fails_halfway.py::test_the_stream_tells_how_far_it_came_and_claims_no_end
        scenarios/test_repair_fails_halfway.py::test_the_rows_say_open_and_the_refund_stays_what_it_was
        """,
}


def fixtures_of(name):
    """The fixtures of every test of a scenario, by name."""
    body = ast.parse((ROOT / "tests" / name).read_text("utf-8")).body
    return {
        node.name: {arg.arg for arg in node.args.args} for node in body if isinstance(node, ast.FunctionDef)
    }


def test_every_mode_has_its_tests():
    assert len(MODES) == 12
    assert missing(MODES) == []


def test_each_is_played_on_every_engine_and_in_both_ways():
    for text in MODES.values():
        for named in text.split():
            place, _, test = named.partition("::")
            assert fixtures_of(place)[test] & {"stage", "played", "desk"}, named
