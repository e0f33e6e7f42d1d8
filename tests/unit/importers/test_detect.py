from __future__ import annotations

import io
import json

import pytest

from counterfoil.errors import UnknownTranscript
from counterfoil.importers import detect as detecting
from counterfoil.importers.detect import detect, named
from tests.unit.importers.transcripts import claude_user, line, pi_header, pi_user


def detected(*records, only=None):
    data = b"".join(record if isinstance(record, bytes) else line(record) for record in records)
    return detect(io.BytesIO(data), "some.jsonl", end=len(data), only=only).name


def refused(*records, only=None) -> str:
    with pytest.raises(UnknownTranscript) as error:
        detected(*records, only=only)
    return str(error.value)


def test_a_pi_session_is_told_by_its_header_or_a_message():
    assert detected(pi_header()) == "pi"
    assert detected(pi_user("hi")) == "pi"


def test_claude_code_is_told_by_a_record_or_a_summary():
    assert detected(claude_user("u1", None, "hi")) == "claude-code"
    assert detected({"type": "summary", "leafUuid": "u1"}) == "claude-code"


def test_logs_of_claude_code_and_codex_are_told_by_their_records():
    assert detected({"type": "system", "subtype": "init", "session_id": "s"}) == "claude-code-stream-json"
    assert detected({"type": "session_meta", "payload": {}}) == "codex"
    assert detected({"type": "thread.started", "thread_id": "t"}) == "codex-exec"


@pytest.mark.parametrize("odd", [{"type": ["session_meta"], "payload": {}}, {"type": {}, "session_id": "s"}])
def test_a_type_that_is_no_text_is_no_record_of_anybody(odd):
    assert "not a transcript" in refused(odd)


def test_what_stands_before_the_first_record_known_is_passed_over():
    assert detected(b"broken\n", b"\n", {"silly": "this"}, b"42\n", pi_header()) == "pi"


def test_the_export_of_the_web_is_refused_with_the_way_to_the_right_file():
    document = {"loglines": [claude_user("u1", None, "hi")]}
    for text in (json.dumps(document, indent=2).encode(), line(document)):
        assert "~/.claude/projects" in refused(text)


@pytest.mark.parametrize(
    "data, words",
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (b"\xff\xfe{\x00", "not UTF-8"),
        (b"SQLite format 3\x00\x10\x00", "not UTF-8"),
        (b'[{"role":"user"}]\n', "one JSON document"),
        (b'{\n  "a": 1\n}\n', "one JSON document"),
        (b'{"role":"user","content":"hi"}\n', "Counterfoil reads"),
        (b"hello\n", "Counterfoil reads"),
    ],
)
def test_a_file_that_is_no_transcript_is_refused_with_what_it_looks_like(data, words):
    assert words in refused(data)


def test_a_named_format_must_be_found_in_the_file():
    assert "not a claude-code transcript" in refused(pi_header(), only=named("claude-code"))


def test_a_format_that_nobody_knows_is_refused_with_the_known_ones():
    with pytest.raises(
        UnknownTranscript, match="claude-code, claude-code-stream-json, codex, codex-exec, pi"
    ):
        named("telegram")


def test_only_so_many_lines_are_looked_at(monkeypatch):
    monkeypatch.setattr(detecting, "LOOKED_AT_MAX", 3)
    assert "not a transcript" in refused(*[b"x\n"] * 3, pi_header())
