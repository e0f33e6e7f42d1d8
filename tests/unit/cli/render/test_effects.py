"""Effects as pairs: every ending, every doubt, and who or what decides it."""

from __future__ import annotations

import pytest

from counterfoil.cli.render.doubts import CAUSES, RULES
from tests.unit.cli.invented import EFFECT, REVIEW, Story, right_half, words


@pytest.fixture
def story() -> Story:
    return Story()


# ---- with an answer ----------------------------------------------------------------------------------------------


def test_a_pair_has_the_intention_left_and_the_observation_right(story):
    story.intended()
    story.later(212).observed(latency_ms=212)
    lines = story.text().split("\n")
    (top,) = (line for line in lines if "INTENDED" in line)
    left, _, right = top.partition("┊")
    assert "INTENDED" in left
    assert "✓ SUCCEEDED in 212 ms" in right
    assert right.rstrip().endswith("2 ─┐")


def test_the_stub_names_tool_version_arguments_key_and_rule(story):
    story.intended()
    story.observed()
    said = words("\n".join(line.partition("┊")[0] for line in story.text().split("\n")))
    for part in ("payment.refund 2026-08-01", "amount 184.00", "order O-1042", "key refund:O-1042:1"):
        assert part in said
    assert "if in doubt: ask the provider" in said


def test_the_cheque_names_what_the_provider_said(story):
    story.intended()
    story.observed()
    said = right_half(story.text())
    assert "provider's id re_7Q2M4K" in said
    assert 'result id "re_7Q2M4K"' in said


@pytest.mark.parametrize("outcome, word", [("rejected", "⊘ REJECTED"), ("failed", "✗ FAILED")])
def test_a_failure_is_told_in_red_with_a_glyph_a_word_and_the_reason(story, outcome, word):
    story.intended()
    story.observed(outcome)
    assert word in story.text()
    assert "reason member_closed" in right_half(story.text())
    assert story.pair().cheque.style == "failure"


def test_a_success_is_no_failure_and_needs_nobody(story):
    story.intended()
    story.observed()
    assert (story.pair().cheque.style, story.pair().doubt) == ("good", None)


def test_an_outcome_found_by_lookup_says_so_and_how_long_it_was_in_doubt(story):
    story.intended()
    story.later(10_000).unknown(latency_ms=10_000)
    story.later(54_000).add(
        "effect.looked_up", {"effect_id": EFFECT, "answer": "found", "lookup": 1}, {"answer": "found"}
    )
    story.observed(source="lookup")
    said = right_half(story.text())
    assert "SUCCEEDED found by lookup" in said
    for part in (
        "in doubt for 1 min 4 s",
        "no answer within 10 s (2)",
        "the provider was asked (3): found",
        "not sent again",
    ):
        assert f"· {part}" in said


def test_a_retry_with_the_same_key_is_told_and_not_called_unsent(story):
    story.intended(doubt="key")
    story.later(1_000).unknown()
    story.add("retry.decided", {"effect_id": EFFECT, "error_class": "TimeoutError", "delay_ms": 200})
    story.later(200).intended(doubt="key", attempt=2)
    story.later(100).observed()
    said = words(story.text())
    assert "attempt 2" in said
    assert "sent again with the same key, attempt 2 (4)" in said
    assert "not sent again" not in said


@pytest.mark.parametrize(
    "retry, said", [(True, "not done, tried again after 90 s (3)"), (False, "not done, not tried again (3)")]
)
def test_what_the_policy_said_to_a_failure_is_told(story, retry, said):
    story.intended()
    story.observed("failed")
    decided = {"effect_id": EFFECT, "error_class": "NotDone", "delay_ms": 90_000, "retry": retry}
    story.add("retry.decided", decided)
    assert said.replace("90 s", "1 min 30 s") in right_half(story.text())


def test_an_attempt_that_was_made_again_is_in_doubt_until_it_is_answered(story):
    story.intended(doubt="key")
    story.observed("failed")
    story.later(1_000).intended(doubt="key", attempt=2)
    story.later(60_000)
    pair = story.pair()
    assert pair.cheque is None
    assert pair.doubt is not None


def test_an_observation_whose_intention_was_not_read_says_so(story):
    story.observed()
    assert "no intention in this record" in words(story.text())


# ---- under way ---------------------------------------------------------------------------------------------------


def test_a_call_before_its_deadline_is_under_way_and_needs_nobody(story):
    story.intended()
    story.later(2_000)
    assert story.pair().doubt is None
    assert "under way for 2.0 s, until 14:31:18" in words(story.text())


def test_a_call_whose_worker_is_gone_is_in_doubt_before_its_deadline_too(story):
    story.intended()
    story.later(2_000)
    assert story.pair(live=False).doubt is not None
    assert "Its worker is gone; the call may still arrive until 14:31:18." in right_half(
        story.text(live=False)
    )


# ---- in doubt ----------------------------------------------------------------------------------------------------


def test_without_an_answer_the_right_half_is_missing(story):
    story.intended()
    story.later(8_040_000)
    lines = [line for line in story.text().split("\n") if "┊" in line]
    assert "◆? IN DOUBT for 2 h 14 min" in lines[0]
    assert not any(end in line.partition("┊")[2] for line in lines for end in "┐┘│")


def test_a_doubt_says_when_it_was_sent_what_is_known_and_what_may_have_happened(story):
    story.intended()
    story.later(10_000).unknown(latency_ms=10_000)
    story.later(8_000_000)
    said = right_half(story.text())
    assert "Sent 14:31:08 (1). No answer within 10 s (2)." in said
    assert "It may or may not have happened." in said


def test_a_worker_that_vanished_left_no_answer_by_the_deadline(story):
    story.intended()
    story.later(60_000)
    assert "No answer was recorded by its deadline, 14:31:18." in right_half(story.text())


def test_a_call_that_broke_off_names_its_error(story):
    story.intended()
    story.add(
        "effect.observed",
        {"effect_id": EFFECT, "outcome": "unknown", "source": "call", "error_class": "ConnectionError"},
        {"error": {"class": "ConnectionError", "message": "reset by peer"}},
    )
    assert "The call broke off: ConnectionError: reset by peer (2)." in right_half(story.text())


@pytest.mark.parametrize("rule", ["lookup", "lookup_then_key", "key"])
def test_a_doubt_that_recovery_ends_names_its_rule_and_the_command(story, rule):
    story.intended(doubt=rule)
    story.later(60_000)
    text = story.text(ledger_option=" --ledger shop")
    assert f"Recovery decides, by this rule: {RULES[rule]}." in right_half(text)
    assert "▶ counterfoil recover --ledger shop" in text


@pytest.mark.parametrize("cause", CAUSES)
def test_a_doubt_in_review_names_why_a_person_decides_and_the_command(story, cause):
    story.intended(doubt="review")
    story.unknown()
    story.review(cause)
    text = story.text()
    assert f"A person decides: {CAUSES[cause]}. Asked in 3." in right_half(text)
    assert f"▶ counterfoil review settle {REVIEW} --outcome … --by NAME --reason TEXT" in text


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120, 200])
def test_a_doubt_is_whole_at_every_width(story, columns):
    story.intended(doubt="review")
    story.later(10_000).unknown(latency_ms=10_000)
    story.review()
    story.later(8_030_000)
    text = story.text(columns)
    assert "◆? IN DOUBT for 2 h 14 min" in text
    said = right_half(text)
    assert "No answer within 10 s (2)." in said
    assert "It may or may not have happened." in said
    assert CAUSES["by_review"] in said
    assert "…" not in said.replace("--outcome …", "")
    assert f"counterfoil review show {REVIEW}" in text


def test_a_lookup_that_did_not_get_through_is_told(story):
    story.intended()
    story.unknown()
    story.add(
        "effect.looked_up",
        {"effect_id": EFFECT, "answer": "cannot_tell", "lookup": 1},
        {"answer": "not reached"},
    )
    story.later(60_000)
    assert "The provider was asked 14:31:08 and could not be reached (3)." in right_half(story.text())


# ---- settled -----------------------------------------------------------------------------------------------------


def settled(story: Story, outcome: str = "succeeded") -> None:
    data = {"effect_id": EFFECT, "review_id": REVIEW, "outcome": outcome}
    content = {"reason": "asked the bank by phone", "by": {"name": "Ines Arvold"}}
    story.add("effect.settled", data, content, actor={"type": "human", "id": "dk_01J9ZC3Y3V7W2R5T8QK4M6N0PK"})


@pytest.mark.parametrize("outcome", ["succeeded", "rejected", "failed", "abandoned"])
def test_a_settlement_stands_on_the_cheque_with_name_and_reason(story, outcome):
    story.intended(doubt="review")
    story.unknown()
    story.review()
    story.later(60_000)
    settled(story, outcome)
    said = right_half(story.text())
    assert f"SETTLED as {outcome}" in said
    assert "by Ines Arvold" in said
    assert "reason asked the bank by phone" in said
    assert "a person was asked (3)" in said
    assert story.pair().doubt is None


def test_a_settlement_is_a_row_of_its_own_where_it_happened(story):
    story.intended(doubt="review")
    story.unknown()
    story.review()
    settled(story)
    (note,) = story.notes()
    assert (note.sequence, note.title) == (4, "settled")
    assert "payment.refund (1) as succeeded · by Ines Arvold" in story.text()


# ---- late --------------------------------------------------------------------------------------------------------


def test_a_late_answer_that_agrees_is_its_own_row_and_names_the_stale_token(story):
    story.add("run.started", {"agent": "refund-agent", "fencing_token": 7})
    story.intended()
    story.unknown()
    story.add("run.claimed", {"previous_token": 7, "fencing_token": 8, "cause": "takeover"})
    story.observed(source="lookup")
    story.observed(late=True, fencing_token=7)
    assert (
        "late answer payment.refund (2): succeeded · from a worker with stale token 7 · kept; agrees with 5"
        in words(story.text(160))
    )
    assert "a late answer agrees (6)" in right_half(story.text())


def test_a_late_answer_that_disagrees_says_so_and_makes_the_pair_contradicted(story):
    story.intended()
    story.observed("rejected")
    story.observed(late=True)
    story.add(
        "effect.contradicted",
        {"effect_id": EFFECT, "review_id": REVIEW, "recorded": "rejected", "found": "succeeded"},
    )
    story.review("contradicted")
    said = words(story.text())
    assert "◆? kept; DISAGREES with 2, which says rejected" in said
    assert "◆? CONTRADICTED" in said
    assert "Recorded as rejected, and found to be succeeded (4)." in right_half(story.text())
    assert f"counterfoil review show {REVIEW}" in said


def test_what_was_recorded_stays_visible_when_it_is_contradicted(story):
    story.intended()
    story.observed("rejected")
    story.observed(late=True)
    story.add(
        "effect.contradicted",
        {"effect_id": EFFECT, "review_id": REVIEW, "recorded": "rejected", "found": "succeeded"},
    )
    assert "reason member_closed" in right_half(story.text())


def test_a_late_answer_that_ends_the_doubt_becomes_the_cheque(story):
    story.intended()
    story.unknown()
    story.later(60_000).observed(late=True)
    assert "ends the doubt" in story.text()
    assert "✓ SUCCEEDED told late" in words(story.text())
    assert story.pair().doubt is None


# ---- asked again, folded ---------------------------------------------------------------------------------------------


def test_an_effect_asked_for_again_says_that_nothing_was_sent(story):
    story.intended()
    story.observed()
    story.add("effect.repeated", {"effect_id": EFFECT, "first": story.events[0].event_id})
    assert "asked again payment.refund (1): the recorded outcome was handed out, nothing was sent" in words(
        story.text()
    )


def test_a_tool_that_touches_nothing_and_succeeded_takes_one_line(story):
    story.intended(doubt="repeat")
    story.observed(latency_ms=3)
    (line,) = [line for line in story.text().split("\n") if "payment.refund" in line]
    assert "✓ succeeded" in line
    assert "┊" in line


def test_an_effect_intended_before_the_stretch_and_observed_in_it_is_a_whole_pair(story):
    story.intended()
    story.later(100_000).observed()
    intention, observation = story.events
    story.events = [observation]
    (pair,) = story.timeline(before=[intention]).rows
    assert (pair.stub.tool, pair.cheque.word, pair.sequence) == ("payment.refund", "SUCCEEDED", 1)


def test_an_effect_that_is_not_told_of_in_the_stretch_has_no_row(story):
    story.intended()
    story.later(1_000).add("run.finished", {"terminal": "success", "calls": 0})
    intention, end = story.events
    story.events = [end]
    assert len(story.timeline(before=[intention]).rows) == 1
