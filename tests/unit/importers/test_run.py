from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from counterfoil.core.forms import hidden_name
from counterfoil.core.limits import PART_BYTES_MAX
from counterfoil.errors import FileMissing, InputError, UnknownTranscript
from counterfoil.importers import run as running
from counterfoil.importers.content import restore
from counterfoil.importers.reader import Record, read
from counterfoil.importers.run import check_file, import_file
from tests.unit.importers.target import NOW_MS, MemoryTarget
from tests.unit.importers.transcripts import (
    PI_SESSION,
    claude_answer,
    claude_results,
    claude_user,
    pi_assistant,
    pi_header,
    pi_result,
    pi_user,
    text_block,
    tool_use,
    write,
)


@pytest.fixture
def target() -> MemoryTarget:
    return MemoryTarget()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def types_of(target: MemoryTarget) -> list[str]:
    return [event.type for event in target.events]


# ---- what becomes what -----------------------------------------------------------------------------------------------


def test_each_kind_of_record_becomes_its_event(target, file):
    write(file, pi_header(), pi_user("hi"), pi_assistant("hm", ("c1", "read")), pi_result("c1"), b"broken\n")
    import_file(target, file)
    assert types_of(target) == [
        "record.imported",
        "admission.accepted",
        "provider.responded",
        "step.started",
        "step.finished",
        "record.refused",
        "transcript.imported",
    ]


def test_a_session_becomes_a_conversation_named_after_format_and_session(target, file):
    import_file(target, write(file, pi_header(), pi_user("hi")))
    assert (target.only.name, target.only.agent) == (f"pi:{PI_SESSION}", "pi")


def test_two_sessions_become_two_conversations(target, file):
    write(file, claude_user("u1", None, "hi"), claude_user("u2", None, "hi", sessionId="session-b"))
    totals = import_file(target, file)
    assert totals.conversations == 2
    assert list(target.conversations) == ["claude-code:session-a", "claude-code:session-b"]


def test_call_and_result_share_a_step(target, file):
    import_file(target, write(file, pi_header(), pi_assistant("", ("c1", "read")), pi_result("c1")))
    (started,), (finished,) = target.only.of_type("step.started"), target.only.of_type("step.finished")
    assert started.header.step_id == finished.header.step_id
    assert started.data["memo"] == finished.data["memo"]
    assert finished.header.causation_event_id == started.header.event_id


def test_a_result_before_its_call_shares_its_step(target, file):
    import_file(target, write(file, pi_header(), pi_result("c1"), pi_assistant("", ("c1", "read"))))
    (started,), (finished,) = target.only.of_type("step.started"), target.only.of_type("step.finished")
    assert started.header.step_id == finished.header.step_id
    assert started.data["memo"] == finished.data["memo"]


def test_calls_of_one_foreign_id_are_steps_of_their_own(target, file):
    call, result = pi_assistant("", ("c", "read")), pi_result("c")
    totals = import_file(target, write(file, pi_header(), call, result, call, result))
    steps = Counter(event.header.step_id for event in target.only.of_type("step.started", "step.finished"))
    assert list(steps.values()) == [2, 2]
    assert (totals.calls, totals.calls_without_result) == (2, 0)


def test_calls_without_result_and_results_without_call_are_kept_and_counted(target, file):
    totals = import_file(target, write(file, pi_header(), pi_assistant("", ("c1", "read")), pi_result("c2")))
    (started,), (finished,) = target.only.of_type("step.started"), target.only.of_type("step.finished")
    assert started.header.step_id != finished.header.step_id
    assert finished.content["flags"] == ["no_call"]
    assert (totals.calls_without_result, totals.results_without_call) == (1, 1)


def test_a_result_takes_the_name_of_its_call_where_the_file_names_none(target, file):
    write(
        file, claude_answer("a", None, tool_use("c", "Bash"), message_id="m"), claude_results("r", "a", "c")
    )
    import_file(target, file)
    (finished,) = target.only.of_type("step.finished")
    assert finished.content["name"] == "Bash"


def test_a_result_that_failed_ends_in_error(target, file):
    write(file, pi_header(), pi_assistant("", ("c1", "read")), pi_result("c1", failed=True))
    totals = import_file(target, file)
    assert target.only.of_type("step.finished")[0].data["outcome"] == "error"
    assert totals.error_results == 1


def test_names_from_the_file_are_hidden_in_headers_and_whole_in_content(target, file):
    import_file(target, write(file, pi_header(), pi_assistant("", ("c1", "read"))))
    (started,), (responded,) = target.only.of_type("step.started"), target.only.of_type("provider.responded")
    assert started.data["name"] == hidden_name(target.only.material, "read")
    assert responded.data["provider"] == hidden_name(target.only.material, "acme")
    assert (started.content["name"], responded.content["provider"]) == ("read", "acme")
    assert responded.content["model"] == "acme-large"


def test_no_text_of_the_file_stands_in_a_header(target, file):
    secret = "wintergreen"
    result = pi_result(secret, secret)
    result["message"]["content"][0]["text"] = secret
    write(
        file,
        pi_header(secret, cwd=secret),
        pi_user(secret),
        pi_assistant(secret, (secret, secret)),
        result,
        {"type": secret},
        secret.encode() + b"\n",
        {"type": "compaction", "summary": secret, "firstKeptEntryId": secret},
    )
    import_file(target, file)
    assert secret not in json.dumps([dict(event.header.raw) for event in target.events])
    assert secret in json.dumps([event.content for event in target.events])


def test_a_user_is_the_stream_key_until_somebody_is_named(target, file):
    import_file(target, write(file, pi_header(), pi_user("hi")))
    (accepted,) = target.only.of_type("admission.accepted")
    assert accepted.header.actor == {"type": "user", "id": target.only.material.key_id}


def test_the_import_itself_is_a_fact_with_path_session_and_digest(target, file):
    import_file(target, write(file, pi_header(), b"broken\n"))
    (imported,) = target.only.of_type("transcript.imported")
    assert imported.data == {"format": "pi", "records": 2, "refused": 1}
    assert (imported.content["path"], imported.content["session"]) == (str(file), PI_SESSION)
    assert len(imported.content["sha256"]) == 64


# ---- time ------------------------------------------------------------------------------------------------------------


def test_an_event_bears_the_time_of_its_record(target, file):
    import_file(target, write(file, pi_header(), pi_user("hi", second=9)))
    assert target.only.of_type("admission.accepted")[0].header.occurred_at == "2026-03-01T09:01:09.000Z"


def test_a_record_without_time_takes_that_of_the_last_and_says_so(target, file):
    record = pi_user("hi") | {"timestamp": "yesterday"}
    import_file(target, write(file, pi_header(), pi_user("first", second=5), record))
    event = target.only.of_type("admission.accepted")[1]
    assert event.header.occurred_at == "2026-03-01T09:01:05.000Z"
    assert event.content["flags"] == ["time_assumed"]


def test_a_session_without_any_time_lies_at_the_epoch_and_says_so(target, file):
    record = claude_user("u1", None, "hi", timestamp="leave out")
    import_file(target, write(file, record))
    event = target.only.of_type("admission.accepted")[0]
    assert event.header.occurred_at == "1970-01-01T00:00:00.000Z"
    assert event.content["flags"] == ["time_assumed"]


def test_records_that_a_branched_session_took_over_are_flagged(target, file):
    write(
        file,
        pi_header(branchedFrom="/old.jsonl") | {"timestamp": "2026-03-01T09:01:30.000Z"},
        pi_user("a", 5),
    )
    import_file(target, file)
    assert target.only.of_type("admission.accepted")[0].content["flags"] == ["inherited"]


# ---- usage and money -------------------------------------------------------------------------------------------------


def test_usage_of_a_message_on_many_lines_counts_once_and_is_its_last(target, file):
    lines = [claude_answer(f"a{n}", None, text_block("x"), message_id="m", output=n) for n in (1, 1, 244)]
    totals = import_file(target, write(file, *lines))
    (responded,) = target.only.of_type("provider.responded")
    assert (responded.data["input_tokens"], responded.data["output_tokens"]) == (20, 244)
    assert (totals.input_tokens, totals.output_tokens) == (20, 244)
    assert [event.data["kind"] for event in target.only.of_type("record.imported")] == ["response_part"] * 2


def test_usage_of_a_message_that_two_sessions_hold_counts_once_in_the_totals(target, file):
    answer = claude_answer("a", None, text_block("x"), message_id="m")
    totals = import_file(target, write(file, answer, answer | {"sessionId": "session-b"}))
    assert totals.output_tokens == 7


def test_a_response_without_usage_counts_zero_and_says_that_it_is_ours(target, file):
    record = pi_assistant("hm")
    del record["message"]["usage"]
    import_file(target, write(file, pi_header(), record))
    (responded,) = target.only.of_type("provider.responded")
    assert (responded.data["input_tokens"], responded.content["flags"]) == (0, ["usage_missing"])


def test_money_is_summed_digit_by_digit(target, file):
    record = json.dumps(pi_assistant("hm"))
    texts = ["0.1", "0.2", "0.30000000000000004441", "1e-7", "2"]
    lines = [record.replace('"total": 0.25', f'"total": {text}').encode() + b"\n" for text in texts]
    totals = import_file(target, write(file, pi_header(), *lines))
    assert (totals.cost, totals.currency) == ("2.60000010000000004441", "USD")
    assert [event.data["cost"] for event in target.only.of_type("provider.responded")][2:4] == [
        "0.30000000000000004441",
        "0.0000001",
    ]


def test_a_file_that_names_no_cost_has_none(target, file):
    totals = import_file(target, write(file, claude_user("u", None, "hi")))
    assert (totals.cost, totals.currency) == (None, None)


# ---- again -----------------------------------------------------------------------------------------------------------


A_SESSION = [pi_header(), pi_user("hi"), pi_assistant("hm", ("c1", "read")), pi_result("c1"), b"broken\n"]


def test_importing_again_adds_nothing_and_counts_the_same(target, file):
    write(file, *A_SESSION)
    first = import_file(target, file).to_json()
    recorded = len(target.events)
    second = import_file(target, file).to_json()
    assert second == {**first, "records_added": 0}
    assert len(target.events) == recorded


def test_a_copy_elsewhere_adds_nothing(target, file):
    import_file(target, write(file, *A_SESSION))
    recorded = len(target.events)
    import_file(target, write(file.with_name("copy.jsonl"), *A_SESSION))
    assert len(target.events) == recorded


def test_other_line_ends_make_no_other_records(target, file):
    write(file, *A_SESSION)
    import_file(target, file)
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert import_file(target, file).records_added == 0


def test_a_file_that_has_grown_adds_only_what_is_new(target, file):
    import_file(target, write(file, *A_SESSION[:3]))
    totals = import_file(target, write(file, *A_SESSION))
    assert (totals.records, totals.records_added) == (5, 2)
    assert Counter(types_of(target))["transcript.imported"] == 2


@pytest.mark.parametrize("first", range(1, 5))
def test_a_file_imported_while_it_grows_ends_as_one_imported_at_once(file, first):
    step_wise, at_once = MemoryTarget(), MemoryTarget()
    import_file(step_wise, write(file, *A_SESSION[:first]))
    import_file(step_wise, write(file, *A_SESSION))
    import_file(at_once, file)

    def of_records(target):
        return [event.header.raw for event in target.events if event.type != "transcript.imported"]

    ignored = {"stream_sequence", "content"}
    for one, other in zip(of_records(step_wise), of_records(at_once), strict=True):
        assert {k: v for k, v in one.items() if k not in ignored} == {
            k: v for k, v in other.items() if k not in ignored
        }


def test_equal_lines_are_records_of_their_own(target, file):
    totals = import_file(target, write(file, pi_header(), pi_user("continue"), pi_user("continue")))
    assert totals.records_added == 3
    assert len(target.only.of_type("admission.accepted")) == 2


def test_an_import_that_broke_off_goes_on_where_it_stopped(monkeypatch, target, file):
    monkeypatch.setattr(running, "BATCH_EVENTS", 2)
    write(file, *A_SESSION)
    target.fail_at = 3
    with pytest.raises(OSError, match="the process ends here"):
        import_file(target, file)
    totals = import_file(target, file)
    assert 0 < totals.records_added < totals.records
    assert types_of(target) == [
        "record.imported",
        "admission.accepted",
        "provider.responded",
        "step.started",
        "step.finished",
        "record.refused",
        "transcript.imported",
    ]


def test_a_record_and_all_its_events_stand_in_one_append(monkeypatch, target, file):
    monkeypatch.setattr(running, "BATCH_EVENTS", 1)
    import_file(target, write(file, pi_header(), pi_assistant("", *((f"c{n}", "read") for n in range(9)))))
    assert target.appends == 3


# ---- nothing is lost -------------------------------------------------------------------------------------------------


def test_every_record_can_be_restored_from_the_contents_of_its_events(target, file):
    odd = pi_assistant("hm", ("c1", "read"), ("c2", "write"))
    odd["message"]["content"][1]["arguments"] = {"$decimal": "1", "big": 2**80, "half": "\ud99c"}
    mixed = claude_results("u2", "a1", "c1", "c2")
    mixed["message"]["content"].append(text_block("and now?"))
    mixed["toolUseResult"] = {"stdout": "…"}
    for records in ([pi_header(), odd, pi_result("c1"), b'{"type":"label","n":1.50,"m":1E3}\n'], [mixed]):
        into = MemoryTarget()
        import_file(into, write(file, *records))
        with file.open("rb") as lines:
            for found in read(lines):
                assert isinstance(found, Record)
                events = [e for e in into.events if e.content["source"].get("line") == found.line.number]
                assert restore(event.content for event in events) == found.value


def test_a_record_larger_than_content_is_refused_with_its_pair_kept(target, file):
    huge = pi_result("c1")
    huge["message"]["content"][0]["text"] = "x" * PART_BYTES_MAX
    write(file, pi_header(), pi_assistant("", ("c1", "read")), huge, pi_user("next"))
    totals = import_file(target, file)
    (refused,), (finished,) = target.only.of_type("record.refused"), target.only.of_type("step.finished")
    assert (refused.data["cause"], refused.data["line"]) == ("size", 3)
    assert refused.content["size"] > PART_BYTES_MAX
    assert finished.content["source"]["record"] == refused.header.event_id
    assert "larger than content" in finished.content["note"]
    assert (totals.refused, totals.calls_without_result, totals.records_added) == (1, 0, 4)
    assert len(target.only.of_type("admission.accepted")) == 1


def test_a_record_that_content_would_nest_too_deep_is_refused_with_its_bytes(target, file):
    deep = b'{"type":"custom","data":' + b"[" * 63 + b"]" * 63 + b"}\n"
    import_file(target, write(file, pi_header(), deep))
    (refused,) = target.only.of_type("record.refused")
    assert refused.data["cause"] == "depth"
    assert "bytes" in refused.content


def test_lines_that_are_no_records_are_kept_with_line_and_offset(target, file):
    write(file, pi_header(), b'{"half":\n', b"42\n", b"\xff\n")
    totals = import_file(target, file)
    offset = len(file.read_bytes()) - len(b'{"half":\n42\n\xff\n')
    assert [event.data for event in target.only.of_type("record.refused")] == [
        {"line": 2, "offset": offset, "cause": "json"},
        {"line": 3, "offset": offset + 9, "cause": "shape"},
        {"line": 4, "offset": offset + 12, "cause": "encoding"},
    ]
    assert (totals.records, totals.refused, totals.not_object) == (4, 3, 1)


def test_a_record_of_unknown_type_is_kept_and_counted(target, file):
    totals = import_file(target, write(file, pi_header(), {"type": "hologram", "data": 1}))
    assert target.only.of_type("record.imported")[1].content["record"] == {"type": "hologram", "data": 1}
    assert (totals.unknown_type, totals.refused) == (1, 0)


# ---- compaction ------------------------------------------------------------------------------------------------------


def ranges_of(target: MemoryTarget) -> list[tuple[int, int]]:
    return [
        (event.data["from_sequence"], event.data["to_sequence"])
        for event in target.only.of_type("compaction.recorded")
    ]


def compaction(kept: int | str | None = None) -> dict[str, object]:
    name = "firstKeptEntryId" if isinstance(kept, str) else "firstKeptEntryIndex"
    return {"type": "compaction", "summary": "so far", "timestamp": "2026-03-01T09:30:00Z", name: kept}


def test_a_compaction_covers_the_events_before_the_first_record_kept(target, file):
    write(file, pi_header(), pi_user("a"), pi_assistant("b", ("c", "read")), pi_user("c"), compaction(3))
    import_file(target, file)
    assert ranges_of(target) == [(2, 5)]


def test_a_second_compaction_covers_what_the_first_has_kept(target, file):
    records = [pi_header(), pi_user("a"), pi_user("b"), compaction(2), pi_user("c"), compaction(4)]
    import_file(target, write(file, *records))
    assert ranges_of(target) == [(2, 3), (4, 5)]


def test_a_compaction_that_keeps_from_an_unknown_record_covers_all_before_it_and_says_so(target, file):
    import_file(target, write(file, pi_header(), pi_user("a"), compaction("nowhere")))
    (event,) = target.only.of_type("compaction.recorded")
    assert ranges_of(target) == [(2, 3)]
    assert event.content["flags"] == ["kept_unknown"]
    assert event.content["summary"] == "so far"


def test_a_compaction_of_nothing_covers_an_empty_range(target, file):
    import_file(target, write(file, pi_header(), compaction(0)))
    assert ranges_of(target) == [(2, 1)]


def test_a_boundary_covers_all_before_it_and_its_summary_is_told_once(target, file):
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b",
        "parentUuid": None,
        "logicalParentUuid": "u1",
        "sessionId": "session-a",
        "compactMetadata": {"trigger": "manual"},
    }
    summary = claude_user("u2", "b", "so far", isCompactSummary=True)
    totals = import_file(target, write(file, claude_user("u1", None, "hi"), boundary, summary))
    assert ranges_of(target) == [(2, 2)]
    assert target.only.of_type("compaction.recorded")[0].data["cause"] == "request"
    assert totals.compactions == 1


# ---- files -----------------------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_missing(target, file):
    with pytest.raises(FileMissing):
        import_file(target, file)


def pipe(directory):
    os.mkfifo(directory / "pipe")
    return directory / "pipe"


def link_to_a_pipe(directory):
    (directory / "link").symlink_to(pipe(directory))
    return directory / "link"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "make", [pipe, link_to_a_pipe, lambda _: "/dev/zero", lambda _: "/dev/null", lambda _: "/dev/tty"]
)
def test_only_regular_files_are_opened(target, tmp_path, make):
    with pytest.raises(InputError, match="not a regular file"):
        import_file(target, make(tmp_path))


def test_a_link_to_a_transcript_is_followed(target, tmp_path):
    write(tmp_path / "session.jsonl", pi_header(), pi_user("hi"))
    (tmp_path / "link").symlink_to("session.jsonl")
    assert import_file(target, tmp_path / "link").records_added == 2


def test_a_file_can_be_checked_without_a_ledger(tmp_path):
    assert check_file(write(tmp_path / "session.jsonl", pi_header())) == "pi"
    with pytest.raises(UnknownTranscript):
        check_file(write(tmp_path / "other.jsonl", b"no transcript\n"))
    with pytest.raises(FileMissing):
        check_file(tmp_path / "missing")


def test_a_directory_is_refused(target, tmp_path):
    with pytest.raises(InputError, match="is a directory"):
        import_file(target, tmp_path)


def test_a_path_with_a_nul_is_refused(target):
    with pytest.raises(InputError, match="cannot be read"):
        import_file(target, "a\x00b")


def test_a_file_that_is_no_transcript_leaves_the_ledger_untouched(target, file):
    with pytest.raises(UnknownTranscript):
        import_file(target, write(file, b'{"role":"user"}\n'))
    assert target.conversations == {}


def test_a_file_that_changes_under_the_import_is_refused(monkeypatch, target, file):
    write(file, pi_header(), pi_user("before"))
    surveyed = running.survey

    def then_changed(*args, **kwargs):
        found = surveyed(*args, **kwargs)
        file.write_bytes(file.read_bytes().replace(b"before", b"behind"))
        return found

    monkeypatch.setattr(running, "survey", then_changed)
    with pytest.raises(InputError, match="was changed"):
        import_file(target, file)


def test_what_is_appended_during_the_import_is_left_for_the_next(monkeypatch, target, file):
    write(file, pi_header(), pi_user("a"))
    surveyed = running.survey

    def then_grown(*args, **kwargs):
        found = surveyed(*args, **kwargs)
        with file.open("ab") as more:
            more.write(b'{"half":')
        return found

    monkeypatch.setattr(running, "survey", then_grown)
    assert import_file(target, file).records == 2


def test_progress_rises_to_twice_the_size(monkeypatch, target, file):
    monkeypatch.setattr(running, "PROGRESS_BYTES", 1)
    told: list[tuple[int, int]] = []
    import_file(target, write(file, *A_SESSION), progress=lambda done, total: told.append((done, total)))
    total = 2 * file.stat().st_size
    assert told[-1] == (total, total)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_transcript_imported_is_dated_by_the_ledgers_clock(target, file):
    import_file(target, write(file, pi_header()))
    assert NOW_MS == 1_788_273_068_412
    assert target.only.of_type("transcript.imported")[0].header.occurred_at == "2026-09-01T14:31:08.412Z"
