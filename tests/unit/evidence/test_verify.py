"""Verify says what it covered, what it did not and why, and how far the proof reaches."""

from __future__ import annotations

import pytest

from counterfoil.core.event import Part
from counterfoil.errors import InvalidForm, StreamNotFound
from counterfoil.evidence.report import GRADES
from counterfoil.keys.absent import AbsentKeyStore
from counterfoil.keys.keyring import Keyring
from counterfoil.testing.manual import ManualClock
from tests.unit.evidence.world import World


@pytest.fixture
def world():
    return World()


def left_out(report):
    return {each.what: each.why for each in report.not_covered}


# ---- the verdict -------------------------------------------------------------------------------------------------


def test_an_intact_ledger_is_proven_to_grade_a0(world):
    world.notes(5)
    report = world.verify()
    assert (report.exit_code, report.grade, report.broken) == (0, "A0", False)
    assert (report.counts.streams, report.counts.events) == (1, 5)
    assert report.counts.records_opened == 5


def test_an_empty_ledger_is_intact(world):
    assert world.verify().exit_code == 0


@pytest.mark.parametrize("grade", [grade for grade in GRADES if grade != "A0"])
def test_an_intact_ledger_below_the_required_grade_is_neither_broken_nor_enough(world, grade):
    world.notes(1)
    report = world.verify(require=grade)
    assert (report.exit_code, report.broken, report.grade) == (2, False, "A0")


def test_a_broken_ledger_is_broken_whatever_grade_is_required(world):
    world.notes(3)
    world.change(2, event_type="order.lost")
    assert world.verify(require="A4").exit_code == 1


def test_a_broken_stream_leaves_the_others_proven(world):
    other = world.stream()
    world.notes(3)
    world.note(genesis=other)
    world.change(2, event_type="order.lost")
    report = world.verify()
    assert (report.broken_streams, report.intact_streams, report.grade) == (1, 1, "A0")


def test_what_grade_a0_cannot_see_is_said(world):
    assert any("rewritten" in unseen for unseen in world.verify().unseen)


def test_every_event_is_in_the_unsealed_tail_while_there_are_no_seals(world):
    world.notes(4)
    report = world.verify()
    assert (report.tail.events, report.tail.streams) == (4, 1)


def test_an_unknown_level_or_grade_is_refused(world):
    with pytest.raises(InvalidForm):
        world.verify(level="deep")
    with pytest.raises(InvalidForm):
        world.verify(require="A9")


# ---- how deep, and where -----------------------------------------------------------------------------------------


def test_the_chain_level_looks_at_no_record_and_says_so(world):
    world.notes(3)
    world.change(2, content=(b"rubbish",))
    report = world.verify(level="chain")
    assert (report.exit_code, report.counts.records_by_digest) == (0, 0)
    assert "stored records" in left_out(report)


def test_the_digests_level_needs_no_key_to_find_a_changed_record(world):
    world.notes(3)
    world.change(2, content=(b"rubbish",))
    assert world.found(level="digests", keyring=None) == [("content_damaged", 2, 2)]


def test_only_the_streams_asked_for_are_read(world):
    other = world.stream()
    world.notes(3)
    world.note(genesis=other)
    report = world.verify(streams=[other.stream_id])
    assert (report.counts.streams, report.counts.events) == (1, 1)
    assert any("other streams" in what for what in left_out(report))


def test_a_stream_asked_for_that_is_not_there_is_an_error(world):
    with pytest.raises(StreamNotFound):
        world.verify(streams=["str_01J9ZC3Y3V7W2R5T8QK4M6N0PS"])


def test_progress_is_told_in_events_and_ends_with_all_of_them(world):
    world.notes(40)
    told = []
    world.verify(progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 40


def test_a_stream_longer_than_a_page_is_read_to_its_end(world):
    world.append(*[world.draft(parts=[Part({"n": n})]) for n in range(1500)])
    world.change(1400, event_type="order.lost")
    assert world.found() == [("column_differs", 1400, 1400)]


def test_no_faults_of_one_stretch_are_more_than_one_finding(world):
    world.notes(30)
    for sequence in range(10, 20):
        world.change(sequence, content=(b"rubbish",))
    assert world.found() == [("content_damaged", 10, 19)]


# ---- keys --------------------------------------------------------------------------------------------------------


def test_without_keys_content_is_withheld_and_counted(world):
    world.notes(3)
    report = world.verify(keyring=None)
    assert (report.exit_code, report.counts.records_by_digest, report.counts.records_opened) == (0, 3, 0)
    assert report.keys.state == "not_given"
    assert ("the content of records", 3) in {(each.what, each.count) for each in report.not_covered}


def test_an_absent_key_store_is_said_and_breaks_nothing(world, tmp_path):
    world.notes(3)
    absent = Keyring(AbsentKeyStore(tmp_path / "keys.db"), world.provider, ManualClock(), world.ids)
    report = world.verify(keyring=absent)
    assert (report.exit_code, report.keys.state) == (0, "absent")
    assert "the key store" in left_out(report)


def test_a_key_encryption_key_that_is_not_at_hand_withholds_content(world):
    world.notes(2)
    world.provider.held = False
    report = world.verify()
    assert (report.exit_code, report.counts.records_opened) == (0, 0)
    assert "rows of the key store" in left_out(report)


@pytest.mark.parametrize("where", ["covered", "not_covered"])
def test_the_report_says_whether_erasure_reaches_copies(world, where):
    world.provider.where = where
    assert world.verify().keys.copies == where


def test_a_key_of_a_stream_that_was_never_made_is_a_notice(world):
    world.writer.new_stream_key("str_01J9ZC3Y3V7W2R5T8QK4M6N0PS")
    report = world.verify()
    assert report.exit_code == 0
    assert [notice.kind for notice in report.notices] == ["unused_key"]


def test_a_second_key_of_a_stream_whose_making_was_killed_is_a_notice_while_nothing_is_under_it(world):
    world.note()
    world.writer.new_stream_key(world.genesis.stream_id)
    report = world.verify()
    assert report.exit_code == 0
    assert [notice.kind for notice in report.notices] == ["unused_key"]


def test_a_missing_key_is_one_finding_however_many_records_it_opened(world):
    world.notes(5)
    world.keys.delete([world.genesis.key])
    assert world.found() == [("content_missing", 1, 1)]


# ---- notices -----------------------------------------------------------------------------------------------------


def test_a_clock_that_went_back_is_a_notice(world):
    world.note()
    world.clock.set_wall(world.clock.now_ms() - 60_000)
    world.note()
    report = world.verify()
    assert report.exit_code == 0
    assert [(notice.kind, notice.sequence) for notice in report.notices] == [("clock_back", 2)]


def test_a_clock_that_stands_still_is_no_notice(world):
    world.append(world.draft(), world.draft())
    assert world.verify().notices == ()


def test_a_public_field_that_is_not_registered_is_a_notice(world):
    world.notes(2)
    world.rewrite(1, b'"data":{}', b'"data":{"leaked":"o-1"}')
    world.relink(2)
    report = world.verify()
    assert (report.exit_code, [notice.kind for notice in report.notices]) == (0, ["unknown_field"])
    assert "leaked" in report.notices[0].what


def test_a_registered_field_of_another_form_makes_the_header_invalid(world):
    world.append(world.draft(data={"line": 1}))
    world.note()
    world.rewrite(1, b'"line":1', b'"line":"free text"')
    world.relink(2)
    assert world.found() == [("header_invalid", 1, 1)]


def test_a_header_of_another_version_is_unread_and_not_broken(world):
    world.notes(3)
    world.rewrite(2, b"counterfoil/event/v1", b"counterfoil/event/v2")
    world.relink(3)
    report = world.verify()
    assert (report.broken, report.exit_code, report.grade) == (False, 2, None)
    assert world.found() == [("unknown_format", 2, 2)]
