"""Real transcripts, where COUNTERFOIL_DATA names their directory: totals, a second import, and every record restored."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from counterfoil.errors import UnknownTranscript
from counterfoil.importers.content import restore
from counterfoil.importers.reader import Record, read
from counterfoil.importers.run import import_file
from tests.unit.importers.target import MemoryTarget

pytestmark = pytest.mark.data

PI = "pi-coding-agent/before-compaction.jsonl"
EDGE_CASES = "claude-code/edge_cases.jsonl"
TRUTH = {
    PI: {
        "format": "pi",
        "records": 1003,
        "refused": 0,
        "calls": 454,
        "calls_without_result": 6,
        "results_without_call": 0,
        "error_results": 12,
        "compactions": 2,
        "cost": "42.595907499999999555",
        "currency": "USD",
        "conversations": 1,
    },
    EDGE_CASES: {
        "format": "claude-code",
        "records": 19,
        "not_object": 3,
        "unknown_type": 1,
        "calls": 3,
        "calls_without_result": 2,
        "conversations": 2,
    },
    "claude-code/representative_messages.jsonl": {
        "records": 12,
        "calls": 2,
        "calls_without_result": 0,
        "refused": 0,
    },
    "claude-code/sample_session.jsonl": {"records": 8, "calls": 2, "calls_without_result": 0, "refused": 0},
    "claude-code/session_b.jsonl": {"records": 3, "calls": 0, "refused": 0},
    "claude-code/todowrite_examples.jsonl": {
        "records": 12,
        "calls": 3,
        "calls_without_result": 0,
        "refused": 0,
    },
    "claude-code-stream-json/hive-667-pricing-run2.jsonl": {
        "format": "claude-code-stream-json",
        "records": 153,
        "refused": 0,
        "unknown_type": 0,
        "calls": 64,
        "calls_without_result": 11,
        "results_without_call": 0,
        "input_tokens": 1311,
        "output_tokens": 7739,
        "cost": "0.9644162999999997",
        "currency": "USD",
        "conversations": 2,
    },
    "claude-code-stream-json/hive-724-draft2.jsonl": {
        "records": 454,
        "refused": 0,
        "unknown_type": 0,
        "calls": 173,
        "calls_without_result": 10,
        "results_without_call": 4,
        "input_tokens": 9965,
        "output_tokens": 48565,
        "cost": "4.7885131499999973",
        "conversations": 2,
    },
    "codex/agentsview-function_calls.jsonl": {
        "format": "codex",
        "records": 4,
        "calls": 2,
        "calls_without_result": 2,
    },
    "codex/openagents-codex-rollout.sample.jsonl": {
        "records": 15,
        "unknown_type": 0,
        "calls": 2,
        "calls_without_result": 0,
        "error_results": 0,
        "input_tokens": 82056,
        "output_tokens": 340,
        "cost": None,
    },
    "codex-exec-json/hive-642-session.jsonl": {
        "format": "codex-exec",
        "records": 65,
        "unknown_type": 0,
        "calls": 16,
        "calls_without_result": 0,
        "results_without_call": 0,
        "input_tokens": 278971,
        "output_tokens": 4949,
        "conversations": 2,
    },
}


@pytest.mark.parametrize("name", TRUTH)
def test_the_totals_of_a_real_transcript_are_those_counted_by_hand(transcripts: Path, name: str):
    totals = import_file(MemoryTarget(), transcripts / name).to_json()
    assert {key: totals[key] for key in TRUTH[name]} == TRUTH[name]
    assert totals["records_added"] == totals["records"]


@pytest.mark.parametrize("name", TRUTH)
def test_a_real_transcript_imported_again_adds_nothing(transcripts: Path, name: str):
    target = MemoryTarget()
    first = import_file(target, transcripts / name).to_json()
    recorded = len(target.events)
    assert import_file(target, transcripts / name).to_json() == {**first, "records_added": 0}
    assert len(target.events) == recorded


@pytest.mark.parametrize("name", TRUTH)
def test_every_record_of_a_real_transcript_is_restored_from_content(transcripts: Path, name: str):
    target = MemoryTarget()
    import_file(target, transcripts / name)
    contents = defaultdict(list)
    for event in target.events:
        contents[event.content["source"].get("line")].append(event.content)
    with (transcripts / name).open("rb") as file:
        for found in read(file):
            if isinstance(found, Record):
                assert restore(contents[found.line.number]) == found.value


def test_a_real_compaction_covers_the_records_before_the_first_one_kept(transcripts: Path):
    target = MemoryTarget()
    import_file(target, transcripts / PI)
    first, second = target.only.of_type("compaction.recorded")
    by_sequence = {event.sequence: event for event in target.events}
    # The file's entries are counted from 0, lines from 1: entry 293 was the first kept, entry 551 the next time.
    assert by_sequence[first.data["to_sequence"] + 1].content["source"]["line"] == 294
    assert by_sequence[second.data["to_sequence"] + 1].content["source"]["line"] == 552
    assert second.data["from_sequence"] == first.data["to_sequence"] + 1


def test_the_two_sessions_of_the_edge_cases_are_two_conversations(transcripts: Path):
    target = MemoryTarget()
    import_file(target, transcripts / EDGE_CASES)
    assert list(target.conversations) == ["claude-code:edge_cases", "claude-code:todowrite_session"]


def test_the_export_of_the_web_is_refused_with_a_hint(transcripts: Path):
    with pytest.raises(UnknownTranscript, match="export of Claude Code for the web"):
        import_file(MemoryTarget(), transcripts / "claude-code-web/sample_session.json")


def test_no_other_real_record_of_an_agent_is_taken_for_a_transcript(transcripts: Path):
    known = {transcripts / name for name in TRUTH}
    others = [
        path
        for path in transcripts.rglob("*")
        if path.is_file() and path not in known and path.suffix != ".md"
    ]
    assert len(others) > 20
    for path in others:
        with pytest.raises(UnknownTranscript):
            import_file(MemoryTarget(), path)
